//! Stalls in the log.

use super::{StallLog, Stuck, Wait, one_worker, stick};
use postroom_tests::{eventually, logged, soon};

#[test]
fn each_stall_is_logged_once_when_it_is_noticed_and_once_when_it_is_over() {
    soon(|| {
        let stalls = StallLog::default();
        logged("");
        let runtime = stalls.by(one_worker()).build().unwrap();
        let stuck = runtime.spawn(Stuck).serve().unwrap();
        let pid = stuck.pid().to_string();
        // Other steps may stall, too, if their thread is preempted.
        let is_mine = |line: &String| line.contains("stalled") && line.contains(std::any::type_name::<Wait>());
        let mine = || logged(&pid).into_iter().filter(is_mine).collect::<Vec<_>>();
        for round in 1..=3 {
            let until = stick(stuck, Wait);
            let other = runtime.spawn(super::Other).serve().unwrap();
            assert_eq!(other.ask().wait().unwrap(), 7);
            until.open();
            eventually(|| mine().len() == 2 * round && stalls.of::<Wait>().len() == 2 * round);
        }
        runtime.shutdown().unwrap();
        let lines = mine();
        assert_eq!(lines.len(), 6, "{lines:#?}");
        for pair in lines.chunks(2) {
            for word in ["WARN", "process=\"Stuck\"", "entry=\"serve\"", "Wait\"", "lasted=", "taken_over=true"] {
                assert!(pair.iter().all(|line| line.contains(word)), "{word} in {pair:#?}");
            }
            assert!(pair[0].contains("others wait") && pair[1].contains("has ended"), "{pair:#?}");
        }
    });
}
