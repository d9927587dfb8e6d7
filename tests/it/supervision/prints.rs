//! The printed form of a tree.

use super::*;
use postroom::supervision::{Child, ChildInfo, ChildState};

/// Returns the printed tree without PIDs, which differ from run to run.
fn text(tree: &Tree) -> String {
    let mut text = String::new();
    for part in tree.to_string().split('<') {
        match part.split_once("> ") {
            Some((pid, rest)) if pid.parse::<Pid>().is_ok() || pid.contains('.') => text.push_str(rest),
            _ => text.push_str(part),
        }
    }
    text
}

#[test]
fn a_tree_prints_its_children_with_their_states_restarts_and_last_reasons_nested_ones_indented() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let own = log.clone();
        let tree = eager(Supervisor::one_for_one())
            .child("first", worker("a", &log))
            .add(Child::new("job", worker("b", &log)).temporary())
            .child("sub", move |spawn| {
                let sub = Supervisor::rest_for_one().backoff(Backoff::constant(Duration::MAX));
                sub.child("c", worker("c", &own)).child("d", worker("d", &own)).spawn(spawn)
            })
            .spawn(&runtime)
            .unwrap();
        crash(tree.child("first").unwrap());
        until_restarted(&tree, "first", 1);
        crash(tree.child("first").unwrap());
        until_restarted(&tree, "first", 2);
        tree.child::<Worker>("job").unwrap().finish().send().unwrap();
        eventually(|| tree.children()[1].state == ChildState::Down);
        let sub = tree.tree("sub").unwrap();
        sub.child_pid("c").unwrap().kill();
        eventually(|| sub.children().iter().all(|child| child.state == ChildState::BackingOff));
        let text = text(&tree);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "one_for_one running");
        assert!(lines[1].starts_with("  first: Worker running, 2 restarts, last: panic: it had to at "), "{text}");
        assert!(lines[1].ends_with("WorkerCrash"), "{text}");
        assert_eq!(
            lines[2..],
            [
                "  job: Worker down, last: normal",
                "  sub: rest_for_one running",
                "    c: Worker backing off, 1 restart, last: killed",
                "    d: Worker backing off, last: shutdown",
            ]
        );
        let printed: Vec<_> = tree.children().iter().map(ChildInfo::to_string).collect();
        assert!(printed[0].starts_with("first: Worker <"), "{printed:?}");
        assert_eq!(printed[1], "job: Worker down, last: normal");
        let below: Vec<_> = printed[2].lines().skip(1).collect();
        assert_eq!(
            below,
            ["  c: Worker backing off, 1 restart, last: killed", "  d: Worker backing off, last: shutdown"]
        );
    });
}

#[test]
fn a_tree_that_has_ended_prints_why() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_all().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let end = tree.join();
        tree.pid().cancel("closing time");
        end.wait();
        assert_eq!(text(&tree), "one_for_all ended: cancelled: closing time\n  a: Worker down, last: shutdown");
    });
}

#[test]
fn children_tell_their_states_and_their_pids() {
    soon(|| {
        let (runtime, log) = (runtime(), Log::new());
        let tree = Supervisor::one_for_one().child("a", worker("a", &log)).spawn(&runtime).unwrap();
        let [info] = &tree.children()[..] else { panic!("one child") };
        assert_eq!((&*info.name, info.state, info.restarts), ("a", ChildState::Running, 0));
        assert_eq!((info.process, info.supervisor, info.last.clone()), (Some("Worker"), None, None));
        assert_eq!(info.address, tree.child_pid("a").unwrap());
        assert_eq!(info.pid, info.address.info().map(|info| info.pid));
    });
}
