//! The parts of this crate as one node would use them, over the engine in memory: membership, leases and sessions of
//! three nodes, of which one is cut off.

use crate::access::Answer;
use crate::clock::Moment;
use crate::engine::{Bucket, Change, Engine, Lane, Revision, Subscription};
use crate::frame::{Epoch, Table};
use crate::lease::{self, Lease, Timing};
use crate::membership::{self, Finding, Inquiry, Membership, Record};
use crate::memory::{Broker, Client};
use crate::session::{Config, Event, Session};
use bytes::Bytes;
use postroom::NodeId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

enum Input {
    Found(u64, Finding),
    Leased(u64, Answer),
    Members(Change),
    Leases(Change),
    Frame(NodeId, Bytes),
}

/// What callbacks have brought: they only hand over.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<VecDeque<Input>>>);

impl Inbox {
    fn push(&self, input: Input) {
        self.0.lock().unwrap().push_back(input);
    }
}

struct Node {
    id: NodeId,
    client: Client,
    inbox: Inbox,
    _subscriptions: Vec<Subscription>,
    members: Membership,
    epoch: Option<Revision>,
    lease: Option<Lease>,
    /// The epochs of leases, as they were last seen.
    leases: BTreeMap<String, Revision>,
    sessions: BTreeMap<NodeId, Session>,
    begun: BTreeMap<NodeId, u32>,
    heard: Vec<String>,
    lost: Vec<NodeId>,
    evicted: bool,
}

fn id(number: u64) -> NodeId {
    NodeId::new(number).unwrap()
}

impl Node {
    fn start(broker: &Broker, number: u64) -> Self {
        let (client, inbox) = (broker.connect(), Inbox::default());
        let hears = |input: fn(Change) -> Input| {
            let inbox = inbox.clone();
            Box::new(move |change| inbox.push(input(change)))
        };
        let mut subscriptions = vec![
            client.watch(Bucket::Nodes, None, hears(Input::Members)).unwrap(),
            client.watch(Bucket::Leases, None, hears(Input::Leases)).unwrap(),
        ];
        let frames = inbox.clone();
        let on_message = Box::new(move |message: crate::engine::Message| {
            let source = message.subject.rsplit('.').next().and_then(|text| u64::from_str_radix(text, 16).ok());
            frames.push(Input::Frame(id(source.unwrap()), message.payload));
        });
        subscriptions.push(client.subscribe(Lane::Control, &format!("n.{}.*", id(number)), on_message).unwrap());
        Self {
            id: id(number),
            client,
            inbox,
            _subscriptions: subscriptions,
            members: Membership::new(id(number), Record::new(format!("eu-{number}"), number).unwrap()),
            epoch: None,
            lease: None,
            leases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            begun: BTreeMap::new(),
            heard: Vec::new(),
            lost: Vec::new(),
            evicted: false,
        }
    }

    fn may_send(&self, now: Moment) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.may_send(now))
    }

    fn input(&mut self, now: Moment, input: Input) {
        match input {
            Input::Found(number, finding) => self.members.handle(now, number, finding),
            Input::Leased(attempt, answer) => self.lease.as_mut().unwrap().handle(now, attempt, answer),
            Input::Members(change) => self.members.on_change(change),
            Input::Leases(Change::Put(entry)) => {
                let epoch = Revision(u64::from_be_bytes(entry.value[..].try_into().unwrap()));
                self.leases.insert(entry.key, epoch);
            }
            Input::Leases(Change::Deleted { key, .. }) => {
                let node = id(u64::from_str_radix(&key, 16).unwrap());
                let epoch = self.leases.remove(&key).unwrap();
                self.members.lease_expired(node, epoch);
            }
            Input::Leases(_) => {}
            Input::Frame(from, payload) => match self.sessions.get_mut(&from) {
                Some(session) => session.handle(now, payload).unwrap(),
                None => {
                    if let Some(refusal) = crate::session::refusal(payload) {
                        let _ = self.client.publish(refusal.lane, &format!("n.{from}.{}", self.id), refusal.payload);
                    }
                }
            },
        }
    }

    /// Has the node do all that it can do now.
    fn run(&mut self, now: Moment) {
        loop {
            let input = self.inbox.0.lock().unwrap().pop_front();
            let Some(input) = input else { break };
            self.input(now, input);
        }
        self.members.handle_timeout(now);
        while let Some(event) = self.members.poll_event() {
            self.on_member(now, event);
        }
        while let Some(request) = self.members.poll_request() {
            let (inbox, number) = (self.inbox.clone(), request.number);
            match request.inquiry {
                Inquiry::Record(access) => {
                    let key = request.node.to_string();
                    let then = move |answer| inbox.push(Input::Found(number, Finding::Record(answer)));
                    access.perform(&self.client, Bucket::Nodes, &key, then);
                }
                Inquiry::Probe => {
                    let then = move |outcome| inbox.push(Input::Found(number, Finding::Probe(outcome)));
                    self.client.probe(&format!("n.{}.{}", request.node, self.id), Box::new(then));
                }
            }
        }
        if let Some(lease) = &mut self.lease {
            lease.handle_timeout(now);
            while let Some(request) = lease.poll_request(now) {
                let inbox = self.inbox.clone();
                let then = move |answer| inbox.push(Input::Leased(request.attempt, answer));
                request.access.perform(&self.client, Bucket::Leases, &self.id.to_string(), then);
            }
            while let Some(event) = lease.poll_event() {
                if matches!(event, lease::Event::Fenced(_)) {
                    self.sessions.values_mut().for_each(Session::abort);
                }
            }
        }
        for (peer, session) in &mut self.sessions {
            if session.next_timeout().is_some_and(|next| next <= now) {
                session.handle_timeout(now);
            }
            while let Some(item) = session.poll_item() {
                self.heard.push(String::from_utf8(item.bytes.to_vec()).unwrap());
                session.release(item.lane, item.cost);
            }
            while let Some(event) = session.poll_event() {
                if event == Event::Suspect {
                    self.members.suspect(*peer);
                }
            }
            // With each frame: the lease may be over since the last.
            while self.lease.as_ref().is_some_and(|lease| lease.may_send(now))
                && let Some(frame) = session.poll_transmit(now)
            {
                let _ = self.client.publish(frame.lane, &format!("n.{peer}.{}", self.id), frame.payload);
            }
        }
    }

    fn on_member(&mut self, now: Moment, event: membership::Event) {
        match event {
            membership::Event::Entered(epoch) => {
                self.epoch = Some(epoch);
                let holder = Bytes::copy_from_slice(&epoch.0.to_be_bytes());
                self.lease = Some(Lease::new(Timing::default(), holder));
                let members: Vec<_> = self.members.members().collect();
                members.into_iter().for_each(|(node, revision)| self.begin(now, node, revision));
            }
            membership::Event::Joined { node, revision, .. } => self.begin(now, node, revision),
            membership::Event::Lost { node, .. } => {
                self.lost.push(node);
                if let Some(mut session) = self.sessions.remove(&node) {
                    session.abort();
                }
            }
            membership::Event::Evicted => self.evicted = true,
            other => panic!("{other:?}"),
        }
    }

    fn begin(&mut self, now: Moment, peer: NodeId, revision: Revision) {
        let Some(epoch) = self.epoch.filter(|_| !self.sessions.contains_key(&peer)) else { return };
        let count = self.begun.entry(peer).or_default();
        let epoch = Epoch::new(epoch, *count).unwrap();
        *count += 1;
        let mut session = Session::new(Config::default(), epoch, revision, Table::default(), now);
        let to = format!("<{peer}.0.1.1>").parse().unwrap();
        session.send(Lane::Data, to, format!("{} to {peer}", self.id).into()).unwrap();
        self.sessions.insert(peer, session);
    }
}

/// Lets time pass in steps of 50 milliseconds.
fn run(broker: &Broker, nodes: &mut [Node], now: &mut Moment, time: Duration) {
    let end = *now + time;
    while *now < end {
        *now = *now + Duration::from_millis(50);
        broker.advance(Duration::from_millis(50));
        loop {
            nodes.iter_mut().for_each(|node| node.run(*now));
            if !broker.step() {
                break;
            }
        }
    }
}

#[test]
fn a_node_that_is_cut_off_is_fenced_and_lost_once_and_another_takes_its_place() {
    let (broker, mut now) = (Broker::new(), Moment::START);
    let mut nodes: Vec<_> = (1..=3).map(|number| Node::start(&broker, number)).collect();
    run(&broker, &mut nodes, &mut now, Duration::from_secs(5));
    for node in &mut nodes {
        let mut expected: Vec<_> =
            (1..=3).filter(|&peer| id(peer) != node.id).map(|peer| format!("{peer} to {}", node.id)).collect();
        expected.sort();
        node.heard.sort();
        assert_eq!(node.heard, expected);
        assert!(node.may_send(now) && node.lost.is_empty());
    }

    let cut_at = now;
    nodes[2].client.disconnect();
    while nodes[..2].iter().any(|node| node.lost.is_empty()) {
        run(&broker, &mut nodes, &mut now, Duration::from_millis(50));
        assert!(now.since(cut_at) < Duration::from_secs(12), "nothing is heard of the loss");
    }
    // Its lease is over before the broker would have deleted it.
    run(&broker, &mut nodes, &mut now, Timing::default().fence);
    assert!(!nodes[2].may_send(now) && nodes[0].may_send(now));

    nodes[2].client.reconnect();
    run(&broker, &mut nodes, &mut now, Duration::from_secs(30));
    assert!(nodes[2].evicted);
    nodes[2] = Node::start(&broker, 4);
    run(&broker, &mut nodes, &mut now, Duration::from_secs(5));
    for node in &nodes[..2] {
        assert_eq!(node.lost, [id(3)], "once");
        assert_eq!(node.heard.iter().filter(|text| text.starts_with("4 to")).count(), 1);
    }
    assert_eq!(nodes[2].heard.len(), 2);
}
