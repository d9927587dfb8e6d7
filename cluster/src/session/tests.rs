//! Sessions between two nodes. Each guarantee is tested by an example, and all of them under random faults.

use super::network::{Faults, Log, World, pid, small};
use super::*;
use crate::clock::Moment;
use crate::frame::{Body, EndCode, Epoch, Frame, Hello, Table, VersionError};
use crate::store::Revision;
use postroom::Pid;

/// The number of seeds for each property, unless `POSTROOM_CLUSTER_SEEDS` sets another.
const SEEDS: u64 = 1_000;

fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("POSTROOM_CLUSTER_SEEDS").map_or(usual, |text| text.parse().expect("a number of seeds"))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns two nodes with an open session.
fn open(config: Config) -> World {
    let mut world = World::new(1, config);
    world.run(millis(100));
    assert!((0..2).all(|at| world.log(at).is_some_and(|log| log.opened)));
    world
}

fn end(log: &Log) -> Option<SessionEnd> {
    log.end.clone()
}

/// Returns how all sessions of both nodes have ended.
fn ends(world: &World) -> Vec<Option<SessionEnd>> {
    world.logs.iter().map(end).collect()
}

/// Performs one random action of a node, its program or the broker.
fn act(world: &mut World) {
    let at = world.random.below(2) as usize;
    match world.random.below(40) {
        0 => world.cut[at] = true,
        1 | 2 => world.cut = [false; 2],
        3 => world.crash(at),
        4 => world.session(at).into_iter().for_each(Session::abort),
        5 => {
            let now = world.now;
            world.session(at).into_iter().for_each(|session| session.close(now));
        }
        6 => world.nodes[at].paused_until = world.now + millis(world.random.below(20_000)),
        7 => world.nodes[at].hoards = true,
        8 | 9 => world.nodes[at].hoards = false,
        10..=14 => {
            let number = world.random.below(4);
            let is_slow = world.random.chance(50);
            let Some(session) = world.session(at).filter(|session| !session.has_ended()) else { return };
            if is_slow {
                session.slow(pid(number))
            } else {
                session.fast(pid(number))
            }
            let told = &mut world.nodes[at].told_slow;
            if is_slow {
                told.insert(pid(number))
            } else {
                told.remove(&pid(number))
            };
        }
        _ => {
            for _ in 0..=world.random.below(8) {
                let lane = if world.random.chance(80) { Lane::Data } else { Lane::Control };
                let longest = if lane == Lane::Data { 1_500 } else { 500 };
                let (to, length) = (pid(world.random.below(4)), world.random.below(longest) as usize + 21);
                world.send(at, lane, to, length.min(longest as usize));
            }
        }
    }
}

/// Checks the property: order, no duplicates, no loss unless both sides are notified of the end, and bounded memory.
fn survive(seed: u64) {
    let mut world = World::new(seed, small());
    let random = &mut world.random;
    world.faults = Faults {
        drop: [0, 0, 5, 30][random.below(4) as usize],
        duplicate: [0, 20][random.below(2) as usize],
        delay: [0, 5, 300, 3_000][random.below(4) as usize],
    };
    for _ in 0..40 {
        act(&mut world);
        let wait = [0, 1, 20, 500, 3_000][world.random.below(5) as usize];
        world.run(millis(wait));
    }
    world.heal_and_check();
}

#[test]
fn sessions_keep_their_promises_whatever_the_broker_does() {
    for seed in seeds(SEEDS) {
        let result = std::panic::catch_unwind(|| survive(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

/// The random faults must cause each of these kinds of end. Violations, version errors and stalls have tests of their
/// own.
#[test]
fn random_faults_reach_every_kind_of_end() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..120 {
        let mut world = World::new(seed, small());
        world.faults = Faults { drop: seed % 3 * 10, duplicate: 10, delay: 50 };
        for _ in 0..60 {
            act(&mut world);
            world.run(millis(500));
        }
        seen.extend(world.logs.iter().filter_map(end).map(|end| format!("{end:?}")));
    }
    let all = [
        "Left",
        "Closed { delivered: true }",
        "Closed { delivered: false }",
        "Silent",
        "Restarted",
        "Peer(Aborted)",
        "Peer(Unknown)",
        "Aborted",
    ];
    assert!(all.iter().all(|&end| seen.contains(end)), "{seen:?}");
}

#[test]
fn messages_of_any_length_arrive_in_order_though_frames_are_lost() {
    for seed in seeds(10) {
        let mut world = World::new(seed, Config::default());
        world.faults = Faults { drop: 10, duplicate: 10, delay: 5 };
        for length in [21, 65_535, 65_536, 65_537, 3 << 20, 100, 300_000] {
            world.run(millis(50));
            assert!(world.send(0, Lane::Data, pid(0), length));
        }
        world.run(Duration::from_secs(30));
        world.heal_and_check();
        assert_eq!(world.logs.len(), 2, "no session has ended");
    }
}

#[test]
fn memory_is_bounded_when_the_receiver_takes_nothing_and_all_arrives_when_it_does() {
    let mut world = open(small());
    world.nodes[1].hoards = true;
    let mut sent = 0;
    for _ in 0..100 {
        // `run` checks the bounds.
        sent += u64::from(world.send(0, Lane::Data, pid(0), 900));
        world.run(millis(10));
    }
    assert!((10..30).contains(&sent), "{sent} messages were accepted");
    // A full queue does not end a session, however long it stays full.
    world.run(Duration::from_secs(100));
    assert!(!world.send(0, Lane::Data, pid(0), 900));
    // The control lane still works.
    assert!(world.send(0, Lane::Control, pid(0), 100));
    world.run(millis(100));
    world.heal_and_check();
    assert_eq!(world.logs.len(), 2, "no session has ended");
}

#[test]
fn credit_that_was_lost_is_asked_for() {
    let mut world = open(small());
    world.nodes[1].hoards = true;
    while world.send(0, Lane::Data, pid(0), 900) {
        world.run(millis(20));
    }
    world.cut[1] = true; // the returned credit is lost
    world.nodes[1].hoards = false;
    world.run(millis(50));
    world.cut[1] = false;
    world.run(Duration::from_secs(3));
    assert_eq!(world.session(0).unwrap().buffered(Lane::Data).0, 0);
}

#[test]
fn a_slow_process_is_sent_nothing_in_the_data_lane_until_it_is_fast() {
    let mut world = open(Config::default());
    world.session(1).unwrap().slow(pid(7));
    world.run(millis(10));
    assert!(!world.send(0, Lane::Data, pid(7), 100));
    assert!(world.send(0, Lane::Data, pid(8), 100) && world.send(0, Lane::Control, pid(7), 100));
    world.session(1).unwrap().fast(pid(7));
    world.run(millis(10));
    assert!(world.send(0, Lane::Data, pid(7), 100));
}

#[test]
fn the_last_notice_of_a_process_counts_and_their_number_is_bounded() {
    let mut world = open(Config::default());
    let session = world.session(0).unwrap();
    for number in 0..MAX_SLOW as u64 + 10 {
        session.slow(pid(number));
    }
    (10..20).for_each(|number| session.fast(pid(number)));
    world.run(Duration::from_secs(5));
    let peer = world.session(1).unwrap();
    let slow = (0..MAX_SLOW as u64 + 10).filter(|&number| peer.is_slow(pid(number))).count();
    assert_eq!(slow, MAX_SLOW - 10);
    assert!(!peer.is_slow(pid(15)));
}

#[test]
fn a_goodbye_does_not_overtake_what_was_sent_before_it() {
    for seed in 0..50 {
        let mut world = World::new(seed, small());
        world.faults = Faults { drop: 20, duplicate: 0, delay: 20 };
        world.run(Duration::from_secs(5));
        let sent = (0..8).filter(|_| world.send(0, Lane::Data, pid(0), 900)).count();
        let now = world.now;
        world.session(0).unwrap().close(now);
        assert!(!world.send(0, Lane::Data, pid(0), 100), "closed");
        world.run(millis(2_900));
        let log = &world.logs[1];
        assert!(log.end.is_none() || end(log) == Some(SessionEnd::Left), "{:?}", log.end);
        world.heal_and_check();
        assert!(sent == 8);
    }
}

#[test]
fn both_sides_may_leave_at_once() {
    let mut world = open(small());
    let now = world.now;
    for at in 0..2 {
        (0..8).for_each(|_| assert!(world.send(at, Lane::Data, pid(0), 900)));
        world.session(at).unwrap().close(now);
    }
    world.run(millis(500));
    assert_eq!(ends(&world)[..2], [const { Some(SessionEnd::Closed { delivered: true }) }; 2]);
    world.heal_and_check();
}

#[test]
fn a_goodbye_that_is_not_answered_is_given_up() {
    let mut world = open(small());
    world.cut[1] = true;
    let now = world.now;
    world.session(0).unwrap().close(now);
    world.run(LINGER - millis(1));
    assert_eq!(world.logs[0].end, None);
    world.run(millis(2));
    assert_eq!(world.logs[0].end, Some(SessionEnd::Closed { delivered: false }));
    assert_eq!(world.logs[1].end, Some(SessionEnd::Left));
}

#[test]
fn a_session_that_is_closed_before_it_is_open_says_what_it_knows() {
    for (sends, delivered) in [(0, true), (1, false)] {
        let mut world = World::new(1, small());
        world.cut = [true; 2];
        world.run(millis(10));
        (0..sends).for_each(|_| assert!(world.send(0, Lane::Data, pid(0), 100)));
        let now = world.now;
        world.session(0).unwrap().close(now);
        world.run(millis(10));
        assert_eq!(world.logs[0].end, Some(SessionEnd::Closed { delivered }));
    }
}

#[test]
fn an_idle_session_goes_on_for_ever_with_few_frames() {
    let mut world = open(small());
    world.run(Duration::from_secs(1_000));
    assert_eq!(ends(&world), [None, None]);
}

#[test]
fn a_sign_of_life_is_asked_for_again_if_the_first_request_is_lost() {
    let mut world = open(small());
    world.cut = [true; 2];
    world.run(KEEPALIVE + millis(500));
    world.cut = [false; 2];
    world.run(Duration::from_secs(60));
    assert_eq!(ends(&world), [None, None]);
}

#[test]
fn silence_is_suspected_and_then_ends_both_sides() {
    for cut in [[true, true], [true, false], [false, true]] {
        let mut world = open(small());
        world.cut = cut;
        world.run(KEEPALIVE + END_AFTER + millis(2));
        let ended = (0..2).filter(|&at| world.logs[at].end.is_some()).count();
        assert!(ended >= 1, "{cut:?}");
        world.heal_and_check();
        assert!((0..2).all(|at| world.logs[at].end.is_some()), "{cut:?}: {:?}", ends(&world));
    }
}

fn epoch(revision: u64, count: u32) -> Epoch {
    Epoch::new(Revision(revision), count).unwrap()
}

/// Returns a session of a node with revision 1 and a peer with revision 2. The session is not connected to anything.
fn alone() -> Session {
    Session::new(Config::default(), epoch(1, 0), Revision(2), Table::default(), Moment::START)
}

fn hello() -> Hello {
    Hello { versions: Versions::CURRENT, features: 5, credit: [1 << 20; 2], table: Table::default() }
}

fn from_peer(to: Option<Epoch>, body: Body) -> Bytes {
    Frame { from: epoch(2, 0), to, body }.encode()
}

/// Returns a session that considers itself open with an idle peer.
fn alone_and_open() -> Session {
    let mut session = alone();
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::Hello(hello()))).unwrap();
    assert!(matches!(session.poll_event(), Some(SessionEvent::Opened { minor: 0, features: 0, .. })));
    session
}

fn transmits(session: &mut Session, now: Moment) -> Vec<Frame> {
    std::iter::from_fn(|| session.poll_transmit(now)).map(|sent| Frame::decode(sent.payload).unwrap()).collect()
}

fn segment(lane: Lane, ack: u64, first: u64, parcels: Vec<Parcel>) -> Body {
    let credit = 1 << 20;
    Body::Segment(crate::frame::Segment { lane, nack: false, ask: false, ack, credit, first, parcels })
}

/// Lets a session wait for a silent peer, until `until` or until the session ends. Returns its events with their times.
fn wait_in_silence(session: &mut Session, from: Moment, until: Moment) -> Vec<(Duration, SessionEvent)> {
    let mut seen = Vec::new();
    transmits(session, from);
    while let Some(now) = session.next_timeout().filter(|&now| now <= until) {
        session.handle_timeout(now);
        transmits(session, now);
        while let Some(event) = session.poll_event() {
            seen.push((now.since(Moment::START), event));
        }
    }
    seen
}

#[test]
fn an_idle_peer_is_suspected_once_per_silence() {
    let mut session = alone_and_open();
    let end = Moment::START + Duration::from_secs(60);
    let back = Moment::START + KEEPALIVE + SUSPECT_AFTER + millis(1_500);
    let suspected = (KEEPALIVE + SUSPECT_AFTER, SessionEvent::Suspect);
    assert_eq!(wait_in_silence(&mut session, Moment::START, back), [suspected]);
    session.handle(back, from_peer(Some(epoch(1, 0)), segment(Lane::Control, 0, 0, vec![]))).unwrap();
    let heard = back.since(Moment::START);
    let expected = [
        (heard + KEEPALIVE + SUSPECT_AFTER, SessionEvent::Suspect),
        (heard + KEEPALIVE + END_AFTER, SessionEvent::Ended(SessionEnd::Silent)),
    ];
    assert_eq!(wait_in_silence(&mut session, back, end), expected);
}

#[test]
fn a_peer_that_does_not_acknowledge_is_suspected_sooner() {
    let mut session = alone_and_open();
    session.send(Lane::Data, pid(1), Bytes::from_static(b"x")).unwrap();
    let expected = [(SUSPECT_AFTER, SessionEvent::Suspect), (END_AFTER, SessionEvent::Ended(SessionEnd::Silent))];
    assert_eq!(wait_in_silence(&mut session, Moment::START, Moment::START + Duration::from_secs(60)), expected);
}

/// Both sides leave. The peer has received everything; a message from the peer has not arrived here.
#[test]
fn a_side_that_leaves_waits_for_what_a_peer_that_leaves_has_sent() {
    let mut session = alone_and_open();
    session.close(Moment::START);
    for body in [Body::Goodbye([1, 0]), Body::End(EndCode::Done)] {
        session.handle(Moment::START, from_peer(Some(epoch(1, 0)), body)).unwrap();
        assert!(!session.has_ended());
    }
    transmits(&mut session, Moment::START);
    let parcel = Parcel::Piece { last: true, bytes: Bytes::from_static(b"late") };
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), segment(Lane::Data, 0, 0, vec![parcel]))).unwrap();
    let frames = transmits(&mut session, Moment::START);
    assert!(matches!(frames[..], [Frame { body: Body::End(EndCode::Done), .. }]), "{frames:?}");
    let item = session.poll_item().unwrap();
    session.release(item.lane, item.cost);
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Closed { delivered: true })));
}

#[test]
fn a_lane_that_acknowledges_nothing_ends_the_session_though_the_peer_lives() {
    let mut session = alone_and_open();
    session.send(Lane::Data, pid(1), Bytes::from_static(b"x")).unwrap();
    let mut now = Moment::START;
    while !session.has_ended() {
        session.handle_timeout(now);
        transmits(&mut session, now);
        session.handle(now, from_peer(Some(epoch(1, 0)), segment(Lane::Control, 0, 0, vec![]))).unwrap();
        now = now + millis(100);
        assert!(now.since(Moment::START) < Duration::from_secs(60), "it never ends");
    }
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Stalled)));
    assert!(now.since(Moment::START) >= END_AFTER);
}

#[test]
fn nothing_but_hellos_is_sent_before_the_peer_knows_this_side() {
    let mut session = alone();
    session.send(Lane::Data, pid(1), Bytes::from_static(b"early")).unwrap();
    let only_hellos = |frames: Vec<Frame>| {
        assert!(frames.iter().all(|frame| matches!(frame.body, Body::Hello(_))), "{frames:?}");
        frames.len()
    };
    assert_eq!(only_hellos(transmits(&mut session, Moment::START)), 1);
    session.slow(pid(1));
    session.handle_timeout(Moment::START + Duration::from_secs(1));
    assert_eq!(only_hellos(transmits(&mut session, Moment::START)), 1);
    // The peer does not know this side yet, so a hello is sent.
    session.handle(Moment::START, from_peer(None, Body::Hello(hello()))).unwrap();
    let frames = transmits(&mut session, Moment::START);
    assert_eq!(frames[0].to, Some(epoch(2, 0)));
    assert_eq!(only_hellos(frames), 1);
    // Any frame with both epochs confirms that the peer knows this side.
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), segment(Lane::Data, 0, 0, vec![]))).unwrap();
    let frames = transmits(&mut session, Moment::START);
    assert!(frames.iter().all(|frame| matches!(&frame.body, Body::Segment(sent) if sent.parcels.len() == 1)));
    assert_eq!(frames.len(), 2, "{frames:?}");
}

/// Frames from the peer arrive here, but no frames from here arrive at the peer.
#[test]
fn a_side_that_never_becomes_known_to_the_peer_ends() {
    let mut world = World::new(1, small());
    world.cut[0] = true;
    world.run(END_AFTER + millis(1));
    assert_eq!(world.logs[0].end, Some(SessionEnd::Silent));
    world.heal_and_check();
}

#[test]
fn nothing_is_queued_behind_a_goodbye() {
    let mut session = alone_and_open();
    transmits(&mut session, Moment::START);
    session.slow(pid(1));
    session.close(Moment::START);
    session.slow(pid(2));
    let frames = transmits(&mut session, Moment::START);
    assert!(matches!(frames[..], [Frame { body: Body::Goodbye([0, 0]), .. }]), "{frames:?}");
}

#[test]
fn frames_of_other_sessions_do_not_pass() {
    let message = |from: Epoch, to| {
        let parcel = Parcel::Piece { last: true, bytes: Bytes::from_static(b"x") };
        Frame { from, to, body: segment(Lane::Data, 0, 0, vec![parcel]) }.encode()
    };
    let (here, there) = (epoch(1, 0), epoch(2, 0));
    let mut session = alone_and_open();
    for (from, to) in [(there, None), (there, Some(epoch(1, 1))), (epoch(2, 1), Some(here)), (epoch(1, 9), Some(here))]
    {
        session.handle(Moment::START, message(from, to)).unwrap();
        assert_eq!(session.poll_item(), None, "{from} to {to:?}");
    }
    for body in [Body::End(EndCode::Unknown), Body::Goodbye([0; 2])] {
        session
            .handle(Moment::START, Frame { from: epoch(2, 1), to: Some(here), body: body.clone() }.encode())
            .unwrap();
        session.handle(Moment::START, Frame { from: there, to: Some(epoch(1, 1)), body }.encode()).unwrap();
        assert!(!session.has_ended());
    }
    session.handle(Moment::START, message(there, Some(here))).unwrap();
    assert!(session.poll_item().is_some());
}

#[test]
fn a_broken_protocol_ends_the_session_and_is_told() {
    let piece = |length: usize| Parcel::Piece { last: false, bytes: vec![0; length].into() };
    let broken = [
        (segment(Lane::Data, 1, 0, vec![]), "acknowledged what was never sent"),
        (segment(Lane::Data, 0, 0, vec![piece(0)]), "empty part"),
        (segment(Lane::Data, 0, 0, vec![Parcel::Slow(pid(1))]), "data lane"),
    ];
    for (body, expected) in broken {
        let mut session = alone_and_open();
        session.handle(Moment::START, from_peer(Some(epoch(1, 0)), body)).unwrap();
        let Some(SessionEvent::Ended(SessionEnd::Violation(what))) = session.poll_event() else {
            panic!("no violation: {expected}");
        };
        assert!(what.contains(expected), "{what}: {expected}");
        let frames = transmits(&mut session, Moment::START);
        assert!(matches!(&frames[..], [Frame { body: Body::End(EndCode::Violation), to: Some(_), .. }]), "{frames:?}");
    }
    for second in
        [Body::Goodbye([0, 1]), segment(Lane::Data, 0, 0, vec![Parcel::Piece { last: true, bytes: Bytes::new() }])]
    {
        let mut session = alone_and_open();
        // Two parcels of the control lane have not arrived.
        session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::Goodbye([0, 2]))).unwrap();
        session.handle(Moment::START, from_peer(Some(epoch(1, 0)), second)).unwrap();
        session.poll_item().into_iter().for_each(|item| session.release(item.lane, item.cost));
        assert!(matches!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Violation(_)))));
    }
}

#[test]
fn what_is_no_frame_changes_nothing_and_is_an_error() {
    let mut session = alone_and_open();
    for bytes in [&b""[..], b"\x01", b"\x02\x01", &[0; 100]] {
        assert!(session.handle(Moment::START, Bytes::copy_from_slice(bytes)).is_err());
    }
    assert!(!session.has_ended());
}

#[test]
fn versions_without_common_ground_end_the_session_with_both_numbers() {
    let mut session = alone();
    session.handle(Moment::START, Bytes::from_static(b"\x07whatever")).unwrap();
    let error = VersionError::Major { here: 1, there: 7 };
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Version(error))));

    let mut session = alone();
    let versions = Versions { minor: 9, oldest_minor: 3 };
    session.handle(Moment::START, from_peer(None, Body::Hello(Hello { versions, ..hello() }))).unwrap();
    let error = VersionError::Minor { here: Versions::CURRENT, there: versions };
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Version(error))));
    let frames = transmits(&mut session, Moment::START);
    assert!(matches!(frames[..], [Frame { body: Body::End(EndCode::Version), .. }]), "{frames:?}");
    // The other side receives this end and ends too, though it knows nothing of the peer.
    let mut other = Session::new(Config::default(), epoch(2, 0), Revision(1), Table::default(), Moment::START);
    other.handle(Moment::START, frames[0].encode()).unwrap();
    assert_eq!(other.poll_event(), Some(SessionEvent::Ended(SessionEnd::Peer(EndCode::Version))));
}

#[test]
fn the_opening_says_what_both_speak_and_know() {
    let mut session = Session::new(
        Config { versions: Versions { minor: 4, oldest_minor: 1 }, features: 0b110, ..Config::default() },
        epoch(1, 0),
        Revision(2),
        Table::default(),
        Moment::START,
    );
    let table = Table::new([("bank::Account::deposit", 7)]).unwrap();
    let versions = Versions { minor: 2, oldest_minor: 2 };
    let peers = Hello { versions, features: 0b011, table: table.clone(), ..hello() };
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::Hello(peers))).unwrap();
    assert_eq!(session.poll_event(), Some(SessionEvent::Opened { minor: 2, features: 0b010, table }));
}

#[test]
fn the_end_is_reported_behind_the_last_message() {
    let mut session = alone_and_open();
    let parcel = Parcel::Piece { last: true, bytes: Bytes::from_static(b"last words") };
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), segment(Lane::Data, 0, 0, vec![parcel]))).unwrap();
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::End(EndCode::Aborted))).unwrap();
    assert_eq!(session.poll_event(), None);
    let item = session.poll_item().unwrap();
    session.release(item.lane, item.cost);
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Peer(EndCode::Aborted))));
    assert_eq!(session.poll_event(), None);
    assert_eq!(session.next_timeout(), None);
}

#[test]
fn a_session_that_is_over_answers_with_its_end_and_sends_nothing_else() {
    let mut session = alone_and_open();
    session.send(Lane::Data, pid(1), Bytes::from_static(b"x")).unwrap();
    session.abort();
    session.abort();
    let frames = transmits(&mut session, Moment::START);
    assert!(matches!(frames[..], [Frame { body: Body::End(EndCode::Aborted), .. }]), "{frames:?}");
    assert!(matches!(session.send(Lane::Data, pid(1), Bytes::new()), Err(SendError::Closed(_))));
    // The peer has not received the end, and sends another frame. After the next end, both are silent.
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), segment(Lane::Data, 0, 0, vec![]))).unwrap();
    let frames = transmits(&mut session, Moment::START);
    assert!(matches!(frames[..], [Frame { body: Body::End(EndCode::Aborted), .. }]), "{frames:?}");
    session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::End(EndCode::Unknown))).unwrap();
    assert_eq!(transmits(&mut session, Moment::START).len(), 0);

    // A goodbye whose answer was lost.
    let mut session = alone_and_open();
    for _ in 0..2 {
        session.handle(Moment::START, from_peer(Some(epoch(1, 0)), Body::Goodbye([0; 2]))).unwrap();
        let frames = transmits(&mut session, Moment::START);
        assert!(matches!(frames[..], [Frame { body: Body::End(EndCode::Done), .. }]), "{frames:?}");
    }
    assert_eq!(session.poll_event(), Some(SessionEvent::Ended(SessionEnd::Left)));
}

#[test]
fn frames_to_a_session_that_is_not_known_are_refused_but_no_refusal_is() {
    let frame = from_peer(Some(epoch(1, 0)), segment(Lane::Data, 0, 0, vec![]));
    let refused = Frame::decode(refusal(frame).unwrap().payload).unwrap();
    let expected = Frame { from: epoch(1, 0), to: Some(epoch(2, 0)), body: Body::End(EndCode::Unknown) };
    assert_eq!(refused, expected);
    assert_eq!(refusal(refused.encode()), None);
    assert_eq!(refusal(from_peer(None, Body::Hello(hello()))), None);
    assert_eq!(refusal(Bytes::from_static(b"\x01\x02\x03")), None);
}

#[test]
#[should_panic(expected = "a window has room")]
fn a_window_that_no_parcel_fits_into_is_refused() {
    let data = LaneLimits { window: 1_000, queue: 9_000, message: 937 };
    Session::new(Config { data, ..small() }, epoch(1, 0), Revision(2), Table::default(), Moment::START);
}

#[test]
fn a_message_that_is_too_long_comes_back() {
    let mut session = alone();
    let message = Bytes::from(vec![0; (1 << 20) + 1]);
    let to: Pid = pid(1);
    assert!(session.send(Lane::Data, to, message.clone()).is_ok());
    let error = session.send(Lane::Control, to, message.clone()).unwrap_err();
    assert!(error.to_string().contains("exceeds the limit of 1048576"));
    assert_eq!(error.into_message(), message);
}
