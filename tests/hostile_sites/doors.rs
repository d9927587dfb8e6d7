//! The functions and traits through which user code enters the runtime, and the guard around each.
//!
//! The list is checked against the source. A public function that takes a closure, a future, a stream, a hook or a
//! trait object must be listed here, and so must a public trait. So a new entry point must name the site where its code
//! is called, and each site has a case. (Code that enters as a type parameter other than a closure, such as the `Drop`
//! of a message, is not detected. `ValueDrop` and `ReasonDrop` cover it.)

use postroom::__private::caught;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The code runs in the caller of the function, to which its panic propagates.
const CALLER: &str = "the caller";
/// The code is generated, or the trait is sealed. The code runs in a step, or where an address is used.
const GENERATED: &str = "generated";
/// Serde's code for the values of remote messages. The runtime never runs it. Crates that implement a wire format run
/// it under their own guard, which in `postroom-cluster` is `contain` in `codec/format.rs`, with tests beside it.
const CODEC: &str = "the codec";

#[rustfmt::skip]
const DOORS: &[(&str, &[&str])] = &[
    // A process, and the code that runs in its steps.
    ("process/mod.rs trait Process",
        &["Start", "Slice", "Close", "StateDrop", "StateDebug", "MessageDebug", "HandlesCancel", "TrapsExits",
            "AskedToUpgrade"]),
    ("actor/machine/attach.rs attach", &["Slice"]),
    ("actor/machine/attach.rs attach_with", &["Slice"]),
    ("actor/machine/attach.rs then", &["Slice"]),
    ("actor/machine/blocking.rs blocking", &["Slice"]),
    ("actor/definition/context.rs run", &["Slice"]),
    ("actor/definition/context.rs shield", &["Slice"]),
    ("actor/definition/context.rs then", &["Slice"]),
    ("actor/definition/context.rs timeout", &["Slice"]),
    ("actor/machine/serve.rs serve_next_or", &["Slice"]),
    ("actor/machine/serve.rs serve_until", &["Slice"]),
    ("actor/machine/upgrade.rs upgrade", &["UpgradeMake", "AskedToUpgrade", "StatusDrop"]),
    ("api/child_spawn.rs of_pinned", &["Make"]),
    ("api/child_spawn.rs process_pinned", &["Make"]),
    ("api/context_ext.rs spawn_pinned", &["Make"]),
    ("api/context_ext.rs spawn_process_pinned", &["Make"]),
    ("api/runtime.rs spawn_pinned", &["Make"]),
    ("api/runtime.rs spawn_process_pinned", &["Make"]),
    // The options of a runtime, and registrations.
    ("api/builder.rs handler", &["Handler", "HookDrop"]),
    ("api/builder.rs hook", &["StartHook", "UndoHook", "CompleteHook", "HookDrop"]),
    ("api/builder.rs on_dead_letter", &["DeadLetterHook", "HookDrop"]),
    ("api/builder.rs on_stall", &["StallHook", "HookDrop"]),
    ("call/command.rs trait Command", &["ValueDrop"]),
    ("api/by_name.rs register_pinned_type", &["TypeStart", "TypeDrop"]),
    ("api/runtime.rs register_upgrade", &["UpgradeMake", "TypeDrop"]),
    ("api/by_name.rs register_type_with", &["TypeStart", "TypeDrop"]),
    ("api/by_name.rs start_watched", &["RemoteAnswer"]),
    ("api/record.rs on_dump", &["DumpHook", "HookDrop"]),
    ("engine/host/hooks.rs trait Hook", &["StartHook", "UndoHook", "CompleteHook", "HookDrop"]),
    // Trees and pools.
    ("pool/builder.rs by_hash", &["PoolKey"]),
    ("pool/builder.rs by_key", &["PoolKey"]),
    ("pool/builder.rs key", &["PoolKey"]),
    ("pool/builder.rs spawn", &["MemberStart"]),
    ("supervision/child.rs new", &["ChildStart", "ChildDrop"]),
    ("supervision/child.rs once", &["ChildStart", "ChildDrop"]),
    ("supervision/supervisor.rs child", &["ChildStart", "ChildDrop"]),
    ("supervision/tree.rs redefine", &["ChildStart", "ChildDrop"]),
    // Transports.
    ("routing/answerer.rs with_answer", &["RemoteAnswer"]),
    ("routing/answerer.rs with_caller", &["RemoteAnswer"]),
    ("api/naming.rs pointer", &["Transport"]),
    ("supervision/elsewhere.rs trait Placement", &["ChildStart"]),
    ("supervision/elsewhere.rs elsewhere", &["ChildStart"]),
    ("routing/transport.rs trait Transport", &["Transport"]),
    // User errors, which are displayed, and dropped as exit reasons.
    ("call/command.rs fail", &["ReasonDrop", "Display"]),
    ("errors/starting.rs failed", &["ReasonDrop", "Display"]),
    ("supervision/elsewhere.rs failed", &["ReasonDrop", "Display"]),
    ("errors/stepping.rs new", &["ReasonDrop", "Display"]),
    ("exit.rs error", &["ReasonDrop", "Display"]),
    // Code that runs in the caller.
    ("actor/definition/reply.rs answer_result", &[CALLER]),
    ("actor/definition/reply.rs apart", &[GENERATED]),
    ("actor/send/replies.rs new", &[CALLER]),
    ("call/package.rs answer", &[CALLER]),
    ("call/package.rs answer_result", &[CALLER]),
    // Functions that are meant for the threads of a cluster, and other functions that run their code in the caller.
    ("util/notifiers.rs run", &[CALLER]),
    // Catches the panic itself, since it is a guard.
    ("util/panics.rs discard", &[CALLER]),
    ("errors/sending.rs map_failed", &[CALLER]),
    ("routing/remote_links.rs connect", &[CALLER]),
    ("routing/router.rs enter", &[CALLER]),
    ("routing/transport.rs trait Receiver", &[CALLER]),
    ("api/block_on.rs block_on", &[CALLER]),
    ("api/runtime.rs block_on", &[CALLER]),
    ("actor/machine/blocking.rs block_in_place", &[CALLER]),
    ("simulation/campaign.rs builder", &[CALLER]),
    ("simulation/campaign.rs check", &[CALLER]),
    ("simulation/campaign.rs run", &[CALLER]),
    ("simulation/campaign.rs run_async", &[CALLER]),
    // Messages that travel between nodes. A visitor runs in the caller of `describe`, once, when a process is exported.
    ("actor/definition/remote.rs trait RemoteField", &[CODEC]),
    ("actor/definition/remote.rs trait RemoteValue", &[CODEC]),
    ("actor/definition/remote.rs trait FallibleRemoteAnswer", &[GENERATED]),
    ("actor/definition/remote.rs trait RemoteVisitor", &[CALLER]),
    // Traits and functions that are meant for `#[process]` and `#[protocol]`, or are sealed.
    ("actor/handle/address.rs trait NarrowOf", &[GENERATED]),
    ("api/child_spawn.rs trait KnownType", &[GENERATED]),
    ("actor/send/addressed.rs trait Addressed", &[GENERATED]),
    ("actor/send/addressed.rs trait Link", &[GENERATED]),
    ("actor/definition/actor.rs trait Actor", &[GENERATED]),
    ("actor/definition/actor.rs trait Declared", &[GENERATED]),
    ("actor/definition/actor.rs trait Handles", &[GENERATED]),
    ("actor/definition/actor.rs trait Migratable", &[GENERATED]),
    ("actor/definition/entry.rs future", &[GENERATED]),
    ("actor/definition/entry.rs sync", &[GENERATED]),
    ("actor/definition/entry.rs trait InitOutcome", &[GENERATED]),
    ("actor/definition/entry.rs described", &[GENERATED]),
    ("actor/definition/outcome.rs trait AnswerParts", &[GENERATED]),
    ("actor/definition/outcome.rs trait Outcome", &[GENERATED]),
    ("actor/definition/placement.rs hold_only_what_is_send_or_write_process_pinned", &[GENERATED]),
    ("actor/definition/placement.rs trait Anywhere", &[GENERATED]),
    ("actor/definition/placement.rs trait Movable", &[GENERATED]),
    // Traits that the macro `answers!` declares.
    ("actor/definition/probe_macros.rs trait ", &[GENERATED]),
    ("actor/definition/probe.rs trait MayBeResult", &[GENERATED]),
    ("actor/definition/probe.rs trait ReturnsResult", &[GENERATED]),
    ("actor/definition/protocol.rs trait Chain", &[GENERATED]),
    ("actor/definition/protocol.rs trait HandlesAll", &[GENERATED]),
    ("actor/definition/protocol.rs trait Lists", &[GENERATED]),
    ("actor/definition/protocol.rs trait MessagesFrom", &[GENERATED]),
    ("actor/definition/protocol.rs trait Named", &[GENERATED]),
    ("actor/definition/protocol.rs trait Plain", &[GENERATED]),
    ("actor/definition/protocol.rs trait Protocol", &[GENERATED]),
    ("actor/definition/protocol.rs trait Serves", &[GENERATED]),
    ("actor/definition/remote.rs trait IsLocalProtocol", &[GENERATED]),
    ("actor/definition/remote.rs trait IsRemoteProtocol", &[GENERATED]),
    ("actor/definition/remote.rs trait Remote", &[GENERATED]),
    ("actor/definition/remote.rs trait RemoteProtocol", &[GENERATED]),
    ("actor/spawn/builder.rs start_async", &[GENERATED]),
    ("actor/spawn/builder.rs start_sync", &[GENERATED]),
    ("actor/send/addressed.rs trait SendTo", &[GENERATED]),
    ("actor/machine/upgrade.rs trait IntoUpgrade", &[GENERATED]),
    ("api/child_spawn.rs trait Spawned", &[GENERATED]),
    ("signal.rs trait SignalKind", &[GENERATED]),
    ("lib.rs trait TakeJson", &[GENERATED]),
    ("simulation/campaign.rs trait TestResult", &[GENERATED]),
    ("supervision/place.rs trait Sealed", &[GENERATED]),
    ("supervision/place.rs trait SpawnPlace", &[GENERATED]),
];

#[test]
fn every_door_says_which_guard_is_around_what_comes_in() {
    let sites: BTreeSet<String> = caught().into_iter().map(|(site, _)| site).collect();
    for (door, guards) in DOORS {
        for guard in *guards {
            assert!(
                sites.contains(*guard) || [CALLER, GENERATED, CODEC].contains(guard),
                "{door}: there is no guard `{guard}`"
            );
        }
    }
    let mut found = BTreeSet::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src");
    doors_of(&source, &source, &mut found);
    let listed: BTreeSet<String> = DOORS.iter().map(|(door, _)| door.to_string()).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty() && gone.is_empty(), "not in the list: {new:#?}; not in the source any more: {gone:#?}");
}

fn doors_of(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("it can be read").path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            doors_of(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            let text = fs::read_to_string(&path).expect("it can be read");
            let name = path.strip_prefix(root).expect("it is in there").display().to_string();
            doors_in(&text).for_each(|door| _ = found.insert(format!("{name} {door}")));
        }
    }
}

/// Returns the public functions and traits of a file through which user code enters.
fn doors_in(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    (0..lines.len()).filter_map(move |first| door_at(&lines[first..]))
}

fn door_at(lines: &[&str]) -> Option<String> {
    let public = lines[0].strip_prefix("pub ")?;
    let name_of = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_string);
    if let Some(rest) = public.strip_prefix("trait ") {
        return name_of(rest).map(|name| format!("trait {name}"));
    }
    let rest = public.strip_prefix("async ").unwrap_or(public).strip_prefix("fn ")?;
    let end = lines.iter().position(|line| line.ends_with('{') || line.ends_with(';') || line.ends_with('}'))?;
    let signature = lines[..=end].join(" ");
    // The return type does not count, since it may be a future of the runtime itself.
    let (taken, rest_of_it) = signature.split_once("->").unwrap_or((&signature, ""));
    let bounds = rest_of_it.split_once(" where ").map_or("", |(_, bounds)| bounds);
    let comes_in = [
        "Fn(",
        "FnOnce(",
        "FnMut(",
        ": Future",
        "impl Future",
        ": Stream<",
        "impl Stream",
        "impl Hook",
        "dyn ",
        "trait ",
    ];
    let is_door = comes_in.iter().any(|word| taken.contains(word) || bounds.contains(word));
    is_door.then(|| name_of(rest)).flatten()
}
