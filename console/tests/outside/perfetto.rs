//! Tests of traces with Perfetto's own page, its trace processor and its schema.

use super::{Clerk, browser, scratch, tools};
use postroom::prelude::*;
use postroom::record::{EventKind, Recording};
use postroom_console::trace::Trace;
use postroom_tests::within;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLERKS: u64 = 3;
const CUSTOMERS: u64 = 5;
const VISITS: u64 = 40;

/// A customer that calls one clerk after the other, and also sends each one a message without awaiting the answer.
#[process]
struct Customer {
    clerks: Vec<Address<Clerk>>,
}

#[process]
impl Customer {
    #[entry]
    async fn shop(&mut self) -> Result<(), CallError> {
        for visit in 0..VISITS {
            let clerk = self.clerks[(visit % CLERKS) as usize];
            clerk.stamp(visit).await?;
            let _ = clerk.stamp(visit).send();
        }
        Ok(())
    }
}

/// Opens a trace in Perfetto's page, and returns the rows of each query by the query's name.
fn ask(tools: &Path, trace: &Path, queries: &[(&str, &str)]) -> Value {
    let paths = [&tools.join("perfetto"), trace].map(|path| path.to_str().expect("a path of UTF-8").to_owned());
    let queries = queries.iter().map(|(name, sql)| format!("{name}: {sql}"));
    let arguments: Vec<String> = paths.into_iter().chain(queries).collect();
    browser::run(tools, "perfetto", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn count(recording: &Recording, is_wanted: impl Fn(EventKind) -> bool) -> u64 {
    recording.events().filter(|event| is_wanted(event.kind)).count() as u64
}

/// Records a known program. Returns the recording, and the path of its trace.
fn record(folder: &Path) -> (Recording, PathBuf) {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let clerks: Vec<_> = (0..CLERKS).map(|_| runtime.spawn(Clerk).serve().unwrap()).collect();
    let active = runtime.record(Duration::from_secs(600)).start().unwrap();
    let shop = |_| runtime.spawn(Customer { clerks: clerks.clone() }).shop().unwrap();
    for customer in (0..CUSTOMERS).map(shop).collect::<Vec<_>>() {
        customer.wait().unwrap();
    }
    for clerk in &clerks {
        assert_eq!(clerk.stamp(1).wait(), Ok(2));
    }
    runtime.until_idle().unwrap();
    let recording = active.stop();
    let path = folder.join("app.pftrace");
    Trace::of(&recording).process_tracks(true).save(&path).unwrap();
    (recording, path)
}

#[test]
fn perfetto_finds_each_message_in_a_slice_and_both_ends_of_each_flow() {
    let Some(tools) = tools() else { return };
    within(Duration::from_secs(240), move || {
        let folder = scratch("perfetto");
        let (recording, path) = record(&folder);
        let answers = ask(
            &tools,
            &path,
            &[
                ("messages", "select count(*) as n from slice where category = 'message'"),
                ("stamps", "select count(*) as n from slice where category = 'message' and name = 'Clerk::stamp'"),
                ("slices", "select count(*) as n from slice where category = 'slice'"),
                ("sends", "select count(*) as n from slice where category = 'send'"),
                ("flows", "select count(*) as n from flow"),
                (
                    "whole flows",
                    "select count(*) as n from flow join slice a on a.id = slice_out join slice b on b.id = slice_in \
                     where a.ts <= b.ts and (a.category, b.category) in (('send', 'message'), ('answer', 'answer'))",
                ),
                (
                    "handled",
                    "select count(*) as n from flow join slice a on a.id = slice_out join slice b on b.id = slice_in \
                     where a.name = 'send ' || b.name and extract_arg(a.arg_set_id, 'debug.to') = \
                     extract_arg(b.arg_set_id, 'debug.pid')",
                ),
                (
                    "overlaps",
                    "select count(*) as n from (select ts + dur as end, lead(ts) over (partition by track_id, depth \
                     order by ts, id) as next from slice) where next < end",
                ),
                ("endless", "select count(*) as n from slice where dur < 0"),
                (
                    "receivers",
                    "select count(distinct extract_arg(arg_set_id, 'debug.pid')) as n from slice where category = \
                     'message'",
                ),
                (
                    "counters",
                    "select t.name as name, count(*) > 1 as changes, min(value) as least from counter c join \
                     counter_track t on c.track_id = t.id where t.name = 'Clerk' group by 1",
                ),
                (
                    "processes",
                    "select count(*) as n from slice s join track t on s.track_id = t.id where s.category = 'process' \
                     and t.name like 'Clerk <%>'",
                ),
                ("errors", "select name, value from stats where severity != 'info' and value > 0"),
            ],
        );
        let number = |name: &str| answers[name][0]["n"].as_u64().unwrap_or_else(|| panic!("{name}: {answers}"));
        let stamps = 2 * CUSTOMERS * VISITS + CLERKS;
        assert_eq!(number("stamps"), stamps);
        assert_eq!(number("messages"), count(&recording, |kind| matches!(kind, EventKind::HandlingBegan { .. })));
        assert_eq!(number("slices"), count(&recording, |kind| matches!(kind, EventKind::SliceBegan { .. })));
        assert_eq!(number("sends"), count(&recording, |kind| matches!(kind, EventKind::MessageSent { .. })));
        assert_eq!(number("handled"), stamps);
        // Each awaited call also has a flow for its answer.
        assert_eq!(number("flows"), stamps + CUSTOMERS * VISITS);
        assert_eq!(number("whole flows"), number("flows"));
        assert_eq!((number("overlaps"), number("endless")), (0, 0));
        assert_eq!(number("receivers"), CLERKS);
        assert_eq!(answers["counters"], json!([{ "name": "Clerk", "changes": 1, "least": 0 }]));
        assert_eq!(number("processes"), stamps);
        assert_eq!(answers["errors"], json!([]), "{answers}");
        // According to Perfetto's schema, all fields are known, and every slice that begins also ends.
        let decoded = &answers["decoded"];
        assert_eq!((&decoded["unknown"], &decoded["same"]), (&json!([]), &json!(true)));
        assert_eq!(decoded["begun"], decoded["ended"]);
        assert!(decoded["packets"].as_u64().unwrap() > 3 * stamps);
        std::fs::remove_dir_all(folder).unwrap();
    });
}
