//! Nodes in programs of their own, over a real server: killed, paused, cut off, and behind a bad network, under load.
//!
//! Each node is this test program, started again, and reaches the server through its own [`proxy`]. **No test depends
//! on speed**: each waits until something has happened, for two minutes at most. Times are compared only with lower
//! bounds: those that leases and graces enforce. They are measured from before the fault, on the machine's one clock,
//! and printed (`--nocapture`).
//!
//! Messages carry numbers, each used once. The numbers that a source knows to be accepted, and those that the account
//! received, are compared as runs of numbers: every received number was accepted, none arrives twice or out of order,
//! and within a session none is missing.
//!
//! Not covered: several machines, whose clocks differ, and networks that lose packets, which TCP hides.

mod node;
mod program;
mod proxy;
mod support;

use postroom_cluster::lease::Timing;
use program::{Program, Scene};
use proxy::Direction;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for events that should take seconds. The test fails if that is not enough.
const GUARD: Duration = Duration::from_secs(120);

/// The time for which a node must be unreachable before it counts as lost, if the server reports it as not connected.
const GRACE: Duration = Duration::from_secs(1);

const LOST: &str = "its node was lost";

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < GUARD, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Prints a duration, and checks that it is not shorter than the protocol allows.
fn took(what: &str, began: Instant, least: Duration) {
    let time = began.elapsed();
    eprintln!("{what}: {:.2} s", time.as_secs_f64());
    assert!(time >= least, "{what} after {time:?}, and not before {least:?}");
}

/// Returns the time after a fault before which no name of the lost node may pass on. The broker measures the lease from
/// the last renewal. At the time of the fault, that renewal is not older than the time after which a node fences
/// itself.
fn earliest_inheritance() -> Duration {
    let timing = Timing::default();
    timing.ttl - timing.fence
}

fn runs(text: &str) -> Vec<(u64, u64)> {
    let numbers: Vec<_> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    numbers.chunks(2).map(|run| (run[0], run[1])).collect()
}

fn count(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(first, last)| last - first + 1).sum()
}

/// Stops a source, waits until the last accepted number has been received, and returns the accepted and the received
/// numbers.
fn settle(source: (&Program, &str), account: (&Program, &str)) -> [Vec<(u64, u64)>; 2] {
    let accepted = runs(&source.0.ask(&format!("halt {}", source.1)));
    let taken = || runs(&account.0.ask(&format!("taken {}", account.1)));
    wait_until("all is taken", || taken().last().map(|run| run.1) == accepted.last().map(|run| run.1));
    [accepted, taken()]
}

/// Checks that only accepted numbers were received, none twice, and none out of order.
fn check_order(accepted: &[(u64, u64)], taken: &[(u64, u64)]) {
    assert!(taken.is_sorted_by(|one, next| one.1 < next.0), "{taken:?}");
    let is_accepted = |run: &(u64, u64)| accepted.iter().any(|all| all.0 <= run.0 && run.1 <= all.1);
    assert!(taken.iter().all(is_accepted), "{taken:?} of {accepted:?}");
}

/// Registers a name repeatedly until that succeeds. Returns the token.
fn take_over(node: &Program, name: &str, pid: &str) -> u64 {
    let mut token = None;
    wait_until("the name is free", || {
        let answer = node.ask(&format!("register {name} {pid}"));
        token = answer.parse().ok();
        let reasons = ["is held by", "whose node is lost", "is not a member", "cannot be reached", "did not answer"];
        assert!(token.is_some() || reasons.iter().any(|reason| answer.contains(reason)), "{answer}");
        token.is_some()
    });
    token.unwrap()
}

/// Makes a node observe accounts on another: each is monitored, linked to and called.
fn observe(node: &Program, there: &str, accounts: usize) -> Vec<String> {
    let accounts: Vec<_> = (0..accounts).map(|_| node.ask(&format!("start {there}"))).collect();
    for pid in &accounts {
        for tie in ["watch", "tie", "keep"] {
            node.ask(&format!("{tie} {pid}"));
        }
        // This call is handled after the earlier messages, so those have arrived.
        assert_eq!(node.ask(&format!("echo {pid}")), "7");
    }
    accounts
}

/// Checks that each monitor, link and call was notified of the loss once.
fn check_heard_once(node: &Program, accounts: &[String]) {
    let heard = node.heard();
    for (pid, tie) in accounts.iter().flat_map(|pid| ["down", "exit", "kept"].map(|tie| (pid, tie))) {
        let of_it: Vec<_> = heard.iter().filter(|line| line.starts_with(&format!("{tie} {pid} "))).collect();
        assert_eq!(of_it.len(), 1, "{} has heard {of_it:?}", node.name);
        assert!(of_it[0].contains(LOST), "{of_it:?}");
    }
}

/// Fails if the driver does not report a session's end, reports it twice, or frees a name before the lease is over.
#[test]
fn a_program_that_is_killed_is_lost_once_and_its_name_passes_on() {
    let Some(scene) = Scene::start() else { return };
    let [one, two, three] = scene.programs(["eu-1", "eu-2", "eu-3"]);
    let accounts = [observe(&one, "eu-2", 20), observe(&three, "eu-2", 5)];
    let holder = two.ask("spawn");
    let token: u64 = two.ask(&format!("register acct-7 {holder}")).parse().unwrap();
    wait_until("the name is known", || three.ask("holder acct-7") == format!("{holder} {token}"));
    let (kept, doomed) = (one.ask("start eu-3"), one.ask("start eu-2"));
    let [source, ends] = [&kept, &doomed].map(|pid| one.ask(&format!("flood {pid}")));

    let began = Instant::now();
    two.kill();
    one.hears("down", 20);
    took("killed: the others have lost it", began, GRACE);
    three.hears("down", 5);
    let next = three.ask("spawn");
    let greater = take_over(&three, "acct-7", &next);
    took("killed: its name has passed on", began, earliest_inheritance());
    assert!(greater > token);
    wait_until("the others know it", || one.ask("holder acct-7") == format!("{next} {greater}"));

    // A restarted node is another node.
    let again = scene.program("eu-2");
    assert_ne!(again.id, two.id);
    for node in [&one, &three, &again] {
        assert_eq!(node.ask("members 2"), "true");
    }
    assert_eq!(one.ask(&format!("echo {}", one.ask("start eu-2"))), "7");
    one.ask(&format!("watch {doomed}"));
    one.hears(&format!("down {doomed} {LOST}"), 1);
    one.ask(&format!("halt {ends}"));
    let [accepted, taken] = settle((&one, &source), (&three, &kept));
    assert_eq!(taken, accepted, "those that live have lost nothing");
    assert_eq!(accepted.len(), 1, "and were refused nothing");
    eprintln!("{} messages between those that live", count(&taken));
    check_heard_once(&one, &accounts[0]);
    check_heard_once(&three, &accounts[1]);
}

/// Pauses one of two nodes until its name has passed on to the other, and resumes it. `before` is called with that node
/// and with an account on the other one. The account has received the numbers up to 99 from that node.
fn pause_beyond_the_lease(
    what: &str,
    before: impl FnOnce(&Program, &str),
    meanwhile: impl FnOnce(&Program),
    after: impl FnOnce(&Program, &Program, &str),
) {
    let Some(scene) = Scene::start() else { return };
    let [one, two] = scene.programs(["eu-1", "eu-2"]);
    let accounts = [observe(&one, "eu-2", 5), observe(&two, "eu-1", 5)];
    let holder = two.ask("spawn");
    let token: u64 = two.ask(&format!("register acct-7 {holder}")).parse().unwrap();
    let account = two.ask("start eu-1");
    two.ask(&format!("take {account} 0 99"));
    wait_until("they have arrived", || one.ask(&format!("taken {account}")) == "[(0, 99)]");
    before(&two, &account);

    let began = Instant::now();
    two.pause();
    one.hears("down", 5);
    took(&format!("{what}: the other has lost it"), began, Duration::ZERO);
    let next = one.ask("spawn");
    let greater = take_over(&one, "acct-7", &next);
    took(&format!("{what}: its name has passed on"), began, earliest_inheritance());
    assert!(greater > token);
    meanwhile(&two);

    let began = Instant::now();
    two.resume();
    two.hears("down", 5);
    wait_until("its holder has ended", || two.ask(&format!("lives {holder}")) == "false");
    for node in [&one, &two] {
        assert_eq!(node.ask("members 1"), "true");
    }
    took(&format!("{what}: it has joined again"), began, Duration::ZERO);
    wait_until("it knows the next holder", || two.ask("holder acct-7") == format!("{next} {greater}"));
    after(&one, &two, &account);
    check_heard_once(&one, &accounts[0]);
    check_heard_once(&two, &accounts[1]);
}

/// After the pause, the program's messages are not sent, unless they belong to the next session.
///
/// Fails if a frame is published without a check of the lease after the frame was made: then the program's threads
/// race, and usually the sender wins.
#[test]
fn a_program_that_is_paused_beyond_its_lease_is_fenced_before_it_sends() {
    let marks = [1, 2].map(|number| format!("mark-{number}-of-what-was-paused"));
    pause_beyond_the_lease(
        "paused",
        |two, account| marks.iter().for_each(|mark| _ = two.ask(&format!("ambush {account} {mark}"))),
        |two| two.proxy.record(),
        |one, two, account| {
            two.hears("ambush", marks.len());
            // This call is handled after the messages that were sent earlier in this session.
            assert_eq!(two.ask(&format!("echo {account}")), "7");
            let notes = one.ask(&format!("notes {account}"));
            for mark in &marks {
                assert_eq!(two.proxy.has_carried(mark.as_bytes()), notes.contains(mark), "{mark}: {notes}");
            }
        },
    );
}

/// The network delivers late: the messages arrive at the server when their sender already counts as lost.
#[test]
fn what_was_on_its_way_when_a_program_was_paused_is_not_taken() {
    pause_beyond_the_lease(
        "paused, messages on their way",
        |two, account| {
            two.proxy.stall(Direction::ToServer);
            eprintln!("{} messages on their way", two.ask(&format!("take {account} 1000 1999")));
        },
        |two| two.proxy.heal(),
        |one, two, account| {
            assert_eq!(two.ask(&format!("take {account} 2000 2099")), "100");
            wait_until("they have arrived", || one.ask(&format!("taken {account}")).ends_with("2099)]"));
            assert_eq!(one.ask(&format!("taken {account}")), "[(0, 99), (2000, 2099)]");
        },
    );
}

/// Kills the server and replaces its store while a process holds a name. The next holder's token is greater, and is
/// granted only after the first holder has ended. Afterwards all nodes know the holder, and each other.
fn replace_the_store(has_copy: bool) {
    let Some(mut scene) = Scene::start() else { return };
    let [one, two, three] = scene.programs(["eu-1", "eu-2", "eu-3"]);
    let nodes = [&one, &two, &three];
    let mut token = 0;
    let mut register = |node: &Program, name: &str| {
        let pid = node.ask("spawn");
        let next = take_over(node, name, &pid);
        assert!(next > token, "{next} after {token}");
        token = next;
        (pid, token)
    };
    // This entry will be in the copy, and will be out of date when the copy is restored.
    let old = register(&one, "acct-6");
    scene.back_up();
    let renewed = Instant::now();
    wait_until("the server is found again", || one.ask(&format!("release acct-6 {}", old.0)) == "true");
    register(&three, "acct-6");
    let (holder, _) = register(&two, "acct-7");
    if has_copy {
        // Waits until no lease in the copy is valid any more.
        thread::sleep(Timing::default().ttl.saturating_sub(renewed.elapsed()));
    }

    let began = Instant::now();
    scene.replace_store(has_copy);
    let (next, greater) = register(&three, "acct-7");
    took("the store was replaced: the name has passed on", began, Duration::ZERO);
    assert_eq!(two.ask(&format!("lives {holder}")), "false");
    let (next_6, greater_6) = register(&one, "acct-6");
    for node in nodes {
        assert_eq!(node.ask("members 2"), "true");
        wait_until("all know the holders", || {
            node.ask("holder acct-7") == format!("{next} {greater}")
                && node.ask("holder acct-6") == format!("{next_6} {greater_6}")
        });
    }
    took("the store was replaced: all know the holders", began, Duration::ZERO);
    assert_eq!(two.ask(&format!("echo {}", two.ask("start eu-3"))), "7");
}

/// Fails if tables begin at 1, or if a member registers in a store that does not have its lease.
#[test]
fn a_name_outlives_a_server_that_is_killed_and_has_lost_its_store() {
    replace_the_store(false);
}

/// Fails if an older copy is not emptied.
#[test]
fn a_name_outlives_an_older_copy_of_the_store() {
    replace_the_store(true);
}

/// Separates two nodes by a network fault of one, and heals it, under load in both directions.
fn network_fault(what: &str, least: Duration, fault: impl FnOnce(&Program)) {
    let Some(scene) = Scene::with_pings() else { return };
    let [one, two] = scene.programs(["eu-1", "eu-2"]);
    let accounts = [observe(&one, "eu-2", 5), observe(&two, "eu-1", 5)];
    let holder = two.ask("spawn");
    let token: u64 = two.ask(&format!("register acct-7 {holder}")).parse().unwrap();
    let pairs = [(&one, &two, "eu-2"), (&two, &one, "eu-1")];
    let sources = pairs.map(|(from, _, to)| {
        let account = from.ask(&format!("start {to}"));
        (from.ask(&format!("flood {account}")), account)
    });

    let began = Instant::now();
    fault(&two);
    one.hears("down", 5);
    took(&format!("{what}: the other has lost it"), began, least);
    two.hears("down", 5);
    took(&format!("{what}: it has lost the other"), began, Duration::ZERO);
    wait_until("its holder has ended", || two.ask(&format!("lives {holder}")) == "false");
    let next = one.ask("spawn");
    let greater = take_over(&one, "acct-7", &next);
    took(&format!("{what}: its name has passed on"), began, earliest_inheritance());
    assert!(greater > token);

    let began = Instant::now();
    two.proxy.heal();
    for node in [&one, &two] {
        assert_eq!(node.ask("members 1"), "true");
    }
    took(&format!("{what}: they have found each other again"), began, Duration::ZERO);
    for ((from, to, _), (source, account)) in pairs.iter().zip(&sources) {
        // A call that succeeds now follows all messages from before the fault.
        wait_until("something is accepted again", || from.ask(&format!("echo {account}")) == "7");
        let [accepted, taken] = settle((from, source), (to, account));
        check_order(&accepted, &taken);
        eprintln!("{what}: {} of {} messages were taken", count(&taken), count(&accepted));
    }
    check_heard_once(&one, &accounts[0]);
    check_heard_once(&two, &accounts[1]);
}

#[test]
fn a_node_that_is_cut_off_is_lost_and_comes_back() {
    network_fault("cut", GRACE, |node| node.proxy.cut());
}

#[test]
fn a_node_that_is_not_heard_is_lost_and_comes_back() {
    network_fault("stalled to the server", Duration::ZERO, |node| node.proxy.stall(Direction::ToServer));
}

#[test]
fn a_node_that_hears_nothing_is_lost_and_comes_back() {
    network_fault("stalled from the server", Duration::ZERO, |node| node.proxy.stall(Direction::ToNode));
}

/// Whether a slow network ends a session depends on its speed, but within a session no message is lost.
#[test]
fn a_slow_network_loses_nothing_within_a_session() {
    let Some(scene) = Scene::start() else { return };
    let [one, two] = scene.programs(["eu-1", "eu-2"]);
    let account = one.ask("start eu-2");
    one.ask(&format!("watch {account}"));
    let source = one.ask(&format!("flood {account}"));
    wait_until("it takes", || one.ask(&format!("taken {account}")) != "[]");
    two.proxy.slow_down();
    let before = count(&runs(&one.ask(&format!("taken {account}"))));
    wait_until("it takes more", || count(&runs(&two.ask(&format!("taken {account}")))) > before + 1_000);
    two.proxy.heal();
    let [accepted, taken] = settle((&one, &source), (&two, &account));
    check_order(&accepted, &taken);
    eprintln!("slow: {} of {} messages were taken; heard: {:?}", count(&taken), count(&accepted), one.heard());
    if one.heard().is_empty() {
        assert_eq!(taken, accepted);
    }
}
