//! Counts of resources at rest, and their limits.

use super::books::Books;
use super::citizen::Citizen;
use super::heap::heap;
use super::messages::Tick;
use super::world::{NAMES, ROOMS, TOPICS, World};
use postroom::inspect::{Bindings, DirectoryStatistics, ProcessStatistics, ProgramStatistics, Statistics};
use postroom::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The resources in use.
pub struct Count {
    pub statistics: Statistics,
    pub processes: Vec<postroom::inspect::ProcessInfo>,
    pub bindings: BTreeMap<Pid, Bindings>,
    /// The bytes in small and in large blocks.
    pub heap: [i64; 2],
    pub underway: i64,
}

impl Count {
    /// Counts the resources, and inspects each live process.
    pub fn of(world: &World) -> Self {
        let bindings =
            world.host.processes().into_iter().filter_map(|info| Some((info.pid, info.pid.bindings().wait()?)));
        Self {
            bindings: bindings.collect(),
            statistics: world.host.statistics(),
            processes: world.host.processes(),
            heap: heap(),
            underway: world.books.underway(),
        }
    }

    fn sum(&self, which: impl Fn(&Bindings) -> &Vec<Pid>) -> usize {
        self.bindings.values().map(|bound| which(bound).len()).sum()
    }

    /// Returns one line of the table.
    pub fn line(&self) -> String {
        let Statistics { processes, directory, program, backpressure, timers, .. } = &self.statistics;
        let ProcessStatistics { live, .. } = processes;
        let ProgramStatistics { slots, used_slots, waits, aliases, .. } = program;
        let DirectoryStatistics { names, named_addresses, groups, members, watchers, .. } = directory;
        let DirectoryStatistics { topics, subscribers, memberships, labels, .. } = directory;
        let held = backpressure.suspended;
        let (links, monitors) = (self.sum(|bound| &bound.links), self.sum(|bound| &bound.monitors));
        let ([small, large], underway) = (self.heap.map(|bytes| bytes / 1024), self.underway);
        format!(
            "{live:4} {slots:5} {used_slots:5} {names:5} {named_addresses:9} {groups:6} {members:7} {watchers:8} \
             {topics:6} {subscribers:11} {memberships:11} {links:5} {monitors:8} {timers:6} {held:4} {waits:5} \
             {aliases:8} {labels:6} {underway:8} {small:9} {large:9}"
        )
    }

    /// The header of the table of [`line`](Self::line)s.
    pub const HEAD: &str = "live slots (used) names addresses groups members watchers topics subscribers memberships \
                            links monitors timers held waits aliases labels messages small/KiB large/KiB";

    /// Returns the resources that have leaked, if any.
    pub fn leaks(&self, world: &World, ten: &BTreeSet<Pid>) -> Vec<String> {
        let mut leaks = Vec::new();
        let mut check = |what: &str, is: usize, ought: usize| {
            if is != ought {
                leaks.push(format!("{what}: {is}, and not {ought}"));
            }
        };
        let all = &self.statistics;
        let host = world.host;
        check("live processes", all.processes.live as usize, 10);
        check("processes found", self.processes.len(), 10);
        check("slots that are not free", all.program.slots, 10);
        // From here on each name has an address. These addresses live as long as the host.
        let by_name = (0..NAMES).filter_map(|name| host.named_address::<Citizen>(format!("name-{name}")).ok());
        let by_name: BTreeSet<Pid> = by_name.map(Address::pid).collect();
        let names: Vec<Pid> = (0..NAMES).filter_map(|name| host.whereis(&format!("name-{name}"))).collect();
        check("names", all.directory.names, names.len());
        let rooms: Vec<_> = (0..ROOMS).map(|room| host.group(format!("room-{room}"))).collect();
        let members: Vec<Pid> = rooms.iter().flat_map(|room| room.members().to_vec()).collect();
        check("members", all.directory.members, members.len());
        let topics = (0..TOPICS).map(|topic| host.topic::<Tick>(format!("topic-{topic}")));
        let topics: Vec<_> = topics.chain([host.event_topic::<Tick>()]).collect();
        let subscribers: Vec<Pid> = topics.iter().flat_map(|topic| topic.subscribers().to_vec()).collect();
        check("subscribers", all.directory.subscribers, subscribers.len());
        check("timers", all.timers, 0);
        check("held", all.backpressure.suspended, 0);
        check("waits", all.program.waits, 0);
        check("labels", all.directory.labels, 0);
        check("messages under way", self.underway.unsigned_abs() as usize, 0);
        check("messages in mailboxes", self.processes.iter().map(|info| info.mailbox as usize).sum(), 0);
        // These are the aliases of the permanent supervisor's child and of the names.
        check("aliases", all.program.aliases, 1 + NAMES as usize);
        check("addresses of names", all.directory.named_addresses, NAMES as usize);
        let child = super::messages::lock(&world.trees)[0].child_pid("permanent").ok();
        let lives = |pid: &Pid| ten.contains(pid) || by_name.contains(pid) || child == Some(*pid);
        for (what, pids) in [("a name", &names), ("a group", &members), ("a topic", &subscribers)] {
            pids.iter()
                .filter(|pid| !lives(pid))
                .for_each(|pid| leaks.push(format!("{what} has {pid}, which is dead")));
        }
        let (least, most) =
            (all.directory.names + all.directory.members + all.directory.subscribers, all.directory.watchers);
        if !(least..=least + most).contains(&all.directory.memberships) {
            leaks.push(format!("memberships: {}, and not {least} to {}", all.directory.memberships, least + most));
        }
        if all.directory.watchers > 10 * ROOMS as usize || all.directory.groups > ROOMS as usize {
            leaks.push(format!("watchers or groups: {all:?}"));
        }
        for (pid, bound) in &self.bindings {
            let everyone = [&bound.links, &bound.monitors, &bound.monitored_by, &bound.owned];
            for other in everyone.into_iter().flatten().filter(|other| !ten.contains(other)) {
                leaks.push(format!("{pid} is bound to {other}, which is dead: {bound:?}"));
            }
            for (other, theirs) in &self.bindings {
                let times = |pids: &[Pid], pid| pids.iter().filter(|other| **other == pid).count();
                if bound.links.contains(other) != theirs.links.contains(pid)
                    || times(&bound.monitors, *other) != times(&theirs.monitored_by, *pid)
                {
                    leaks.push(format!("{pid} and {other} do not agree: {bound:?} and {theirs:?}"));
                }
            }
        }
        leaks
    }

    /// Returns true if no process has a link or a registration.
    pub fn is_bare(&self) -> bool {
        let DirectoryStatistics { names, members, watchers, subscribers, memberships, groups, topics, .. } =
            self.statistics.directory;
        // Monitors are left out, since a supervisor monitors its child.
        [names, members, watchers, subscribers, memberships, groups, topics] == [0; 7]
            && self.sum(|bound| &bound.links) == 0
    }
}

/// Checks that each message was accounted for once, and that no message was dropped that should have been returned.
pub fn balance(books: &Books, statistics: &Statistics) {
    let count = |count: &AtomicU64| count.load(SeqCst);
    println!("messages:      sent    called     later    copied");
    for (what, each) in [
        ("made", &books.made),
        ("handled", &books.handled),
        ("refused", &books.refused),
        ("dead", &books.dead),
        ("dropped", &books.vanished),
    ] {
        let [sent, called, later, copied] = each.each_ref().map(count);
        println!("{what:9} {sent:9} {called:9} {later:9} {copied:9}");
    }
    let (asked, answered, withdrawn) = (count(&books.asked), count(&books.answered), count(&books.withdrawn));
    println!("calls {asked}, answered {answered}; timers withdrawn {withdrawn}");
    let [sent, called, later, _] = books.vanished.each_ref().map(count);
    assert_eq!(sent, 0, "messages that were sent were lost");
    assert_eq!(later, withdrawn, "messages that were to be sent later were lost");
    assert!(called <= asked - answered, "{called} calls were lost, and only {} not answered", asked - answered);
    assert!(count(&books.handled[1]) >= answered, "an answer to what was not handled");
    assert_eq!(count(&books.letters), statistics.dead_letters.total(), "dead letters that the hook was not told of");
}
