//! The items of the cluster's crate that an engine in a separate crate uses. They are so few that one can see at a
//! glance what a change to the cluster can break, and what another engine would need.

use crate::imports::path;
use crate::source::{File, nats};
use proc_macro2::TokenTree;
use std::collections::BTreeSet;

/// The items of `postroom_cluster` that the engine on NATS uses. There must be fewer than [`MOST`].
const SEAM: [&str; 35] = [
    "__private::Floor",
    "__private::LONGEST_NAME",
    "__private::Subjects",
    "__private::is_key",
    "__private::is_name",
    "__private::is_pattern",
    "__private::is_subject",
    "__private::matches",
    "__private::owner",
    "__private::shortened",
    "__private::spawn",
    "__private::table",
    "__private::write_subject",
    "access::Access",
    "engine::Attempt",
    "engine::Connect",
    "engine::Engine",
    "engine::Lane",
    "engine::Message",
    "engine::OnMessage",
    "engine::OnProbe",
    "engine::ProbeOutcome",
    "engine::PublishError",
    "engine::SubscribeError",
    "engine::Subscription",
    "frame::MAX_FRAME",
    "rights::Rights",
    "store::Bucket",
    "store::Change",
    "store::Entry",
    "store::OnChange",
    "store::OnRead",
    "store::OnWrite",
    "store::Revision",
    "store::StoreError",
];

/// The limit on the number of these items. More would be a sign that the border is in the wrong place.
const MOST: usize = 40;

#[test]
fn the_engine_on_nats_uses_few_items_of_the_cluster() {
    assert!(SEAM.len() < MOST);
    let (used, listed) = (used(&nats()), SEAM.map(str::to_owned).into());
    let more: Vec<_> = used.difference(&listed).collect();
    let less: Vec<_> = listed.difference(&used).collect();
    assert!(more.is_empty() && less.is_empty(), "not listed: {more:#?}; listed, and not used: {less:#?}");
}

/// Returns the items of `postroom_cluster` that the files use, each as a path within that crate.
fn used(files: &[File]) -> BTreeSet<String> {
    let mut paths = Vec::new();
    files.iter().for_each(|file| search(&file.tokens, &mut paths));
    paths.iter().map(|path| item(path)).filter(|item| !item.is_empty()).collect()
}

fn search(tokens: &[TokenTree], found: &mut Vec<Vec<String>>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(name) if name == "postroom_cluster" => {
                at += 1;
                path(tokens, &mut at, Vec::new(), found);
                continue;
            }
            TokenTree::Group(group) => search(&group.stream().into_iter().collect::<Vec<_>>(), found),
            _ => {}
        }
        at += 1;
    }
}

/// Returns the path without a variant or a method of its item.
fn item(path: &[String]) -> String {
    let ty = path.iter().position(|name| name.starts_with(char::is_uppercase));
    path[..ty.map_or(path.len(), |ty| ty + 1)].join("::")
}

#[test]
fn an_item_is_found_wherever_it_is_used() {
    let text = "pub use postroom_cluster; use postroom_cluster::engine::{Lane, Bucket::Names}; fn f() {
        call(postroom_cluster::__private::spawn(), postroom_cluster::engine::Engine::get); }
        #[cfg(test)] mod tests { use postroom_cluster::Cluster; }";
    let expected = ["__private::spawn", "engine::Bucket", "engine::Engine", "engine::Lane"];
    assert_eq!(used(&[File::new("one.rs", text)]), expected.map(str::to_owned).into());
}
