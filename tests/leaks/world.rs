//! The shared state, and the acts of processes of all kinds.

use super::books::{Books, Parcel, Way, add};
use super::citizen::{Citizen, CitizenAsk, CitizenDelay, CitizenKeep};
use super::messages::{Deed, Dice, LONG, Stash, Tick, lock};
use super::raw::Raw;
use super::walker::Walker;
use postroom::prelude::*;
use postroom::supervision::Tree;
use postroom::{Bound, Monitor, Overflow, RunningPool, Timer};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The number of entries in the table of PIDs.
pub const PLACES: u64 = 96;
/// The approximate limit of live processes.
const CROWD: u64 = 1_500;
/// The number of names.
pub const NAMES: u64 = 24;
/// The number of groups.
pub const ROOMS: u64 = 8;
/// The number of topics.
pub const TOPICS: u64 = 4;
/// The maximum number of timers that are kept so that they can be cancelled. The limit holds separately for delayed and
/// for repeated messages.
const TIMERS: usize = 64;

/// The state that all processes and threads share.
pub struct World {
    pub host: Host,
    pub books: Arc<Books>,
    /// Whether all participants should stop performing acts.
    pub over: AtomicBool,
    /// The number of live processes, as of a recent count.
    pub alive: AtomicU64,
    /// PIDs of live, exiting and dead processes, and aliases.
    places: [Mutex<Pid>; PLACES as usize],
    /// The permanent processes, except for the supervised one.
    pub permanent: OnceLock<Vec<Pid>>,
    pub later: Mutex<Vec<Timer>>,
    pub again: Mutex<Vec<Timer>>,
    pub trees: Mutex<Vec<Tree>>,
    pub pools: Mutex<Vec<RunningPool<Citizen>>>,
    pub stash: Stash,
}

/// How a process decides to end.
pub enum End {
    Stop,
    Fail,
    Panic,
}

/// The state of a process of any kind.
#[derive(Default)]
pub struct Own {
    /// Whether the process never exits by itself.
    pub permanent: bool,
    /// Whether the process may outlive all others. If so, it must not wait for anything that takes a long time.
    pub lasts: bool,
    pub monitors: Vec<Monitor>,
}

impl Own {
    pub fn down(&mut self, down: &Down) {
        if let Some(place) = self.monitors.iter().position(|monitor| *monitor == down.monitor) {
            self.monitors.swap_remove(place);
        }
    }
}

pub type Plain = postroom::Call<Deed, (), Infallible>;
pub type Ask = postroom::Call<CitizenAsk, u64, Infallible>;
pub type Keep = postroom::Call<CitizenKeep, u64, Infallible>;
pub type Delay = postroom::Call<CitizenDelay, u64, Infallible>;

impl World {
    pub fn new(host: Host, books: Arc<Books>, stash: Stash, no_process: Pid) -> Self {
        Self {
            host,
            books,
            over: AtomicBool::new(false),
            alive: AtomicU64::new(0),
            places: std::array::from_fn(|_| Mutex::new(no_process)),
            permanent: OnceLock::new(),
            later: Mutex::default(),
            again: Mutex::default(),
            trees: Mutex::default(),
            pools: Mutex::default(),
            stash,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    pub fn someone(&self, dice: &mut Dice) -> Pid {
        let permanent = self.permanent.get().map_or(&[][..], |permanent| permanent);
        if !permanent.is_empty() && dice.roll(8) == 0 {
            return permanent[dice.roll(permanent.len() as u64) as usize];
        }
        *lock(&self.places[dice.roll(PLACES) as usize])
    }

    /// Puts `pid` into the table. Usually harms the process that it replaces.
    pub fn know(&self, pid: Pid, dice: &mut Dice) {
        let before = std::mem::replace(&mut *lock(&self.places[dice.roll(PLACES) as usize]), pid);
        if dice.roll(4) > 0 {
            self.harm(before, dice);
        }
    }

    /// Ends a process, unless it is permanent or an alias.
    pub fn harm(&self, pid: Pid, dice: &mut Dice) {
        if pid.is_alias() || self.permanent.get().is_none_or(|permanent| permanent.contains(&pid)) {
            return;
        }
        match dice.roll(4) {
            0 => pid.stop(),
            1 => pid.cancel("as the dice fell"),
            _ => pid.kill(),
        };
    }

    pub fn deed(&self, way: Way, left: u32, dice: &mut Dice) -> Deed {
        Deed { left, dice: dice.next(), parcel: Parcel::new(&self.books, way) }
    }

    pub fn tick(&self) -> Tick {
        Tick(Parcel::new(&self.books, Way::Copied))
    }

    pub fn plain(&self, to: Pid, way: Way, left: u32, dice: &mut Dice) -> Plain {
        Plain::new(to, "Deed", self.deed(way, left, dice))
    }

    pub fn ask(&self, to: Pid, dice: &mut Dice) -> Ask {
        add(&self.books.asked);
        Ask::new(to, "Citizen::ask", CitizenAsk { deed: self.deed(Way::Called, 0, dice) })
            .timeout(Duration::from_micros(200 + dice.roll(20_000)))
    }

    /// Like [`ask`](Self::ask), but practically without a deadline. The call ends when the callee answers, or when
    /// either process exits.
    pub fn ask_long(&self, to: Pid, dice: &mut Dice) -> Ask {
        self.ask(to, dice).timeout(LONG)
    }

    pub fn keep(&self, to: Pid, dice: &mut Dice) -> Keep {
        add(&self.books.asked);
        Keep::new(to, "Citizen::keep", CitizenKeep { deed: self.deed(Way::Called, 0, dice) })
            .timeout(Duration::from_micros(200 + dice.roll(20_000)))
    }

    pub fn delay(&self, to: Pid, dice: &mut Dice) -> Delay {
        add(&self.books.asked);
        Delay::new(to, "Citizen::delay", CitizenDelay { deed: self.deed(Way::Called, 0, dice) })
            .timeout(Duration::from_micros(200 + dice.roll(20_000)))
    }

    pub fn answered<T, E>(&self, answer: &Result<T, CallError<E>>) {
        if answer.is_ok() {
            add(&self.books.answered);
        }
    }

    pub fn send(&self, to: Pid, left: u32, dice: &mut Dice) {
        let call = self.plain(to, Way::Sent, left, dice);
        let sent = if dice.roll(4) == 0 { call.try_send() } else { call.send() };
        if let Err(refused) = sent {
            refused.message.parcel.refused();
        }
    }

    fn send_later(&self, to: Pid, dice: &mut Dice) {
        match self.plain(to, Way::Later, 0, dice).send_after(dice.short()) {
            Ok(timer) => {
                let before = {
                    let mut later = lock(&self.later);
                    later.push(timer);
                    (later.len() > TIMERS).then(|| later.swap_remove(dice.roll(TIMERS as u64) as usize))
                };
                let Some(before) = before else { return };
                match dice.roll(3) {
                    0 => _ = before.reset(dice.short()),
                    1 if before.cancel() => add(&self.books.withdrawn),
                    _ => {}
                }
            }
            Err(refused) => refused.message.parcel.refused(),
        }
    }

    fn send_again(&self, to: Pid, dice: &mut Dice) {
        let call = postroom::Call::<Tick, (), Infallible>::new(to, "Tick", self.tick());
        match call.send_every(dice.short()) {
            Ok(timer) => {
                // A repetition ends by itself when its receiver exits.
                if !to.is_alias()
                    && !self.permanent.get().is_none_or(|permanent| permanent.contains(&to))
                    && dice.roll(2) == 0
                {
                    return;
                }
                let mut again = lock(&self.again);
                again.push(timer);
                if again.len() > TIMERS {
                    let before = again.swap_remove(dice.roll(TIMERS as u64) as usize);
                    drop(again);
                    before.cancel();
                }
            }
            Err(refused) => refused.message.0.refused(),
        }
    }

    pub fn name(dice: &mut Dice) -> String {
        format!("name-{}", dice.roll(NAMES))
    }

    fn bound(dice: &mut Dice) -> Option<Bound> {
        let most = 1 + dice.roll(200) as usize;
        match dice.roll(8) {
            0 => Some(Bound::Soft(most)),
            1 => Some(Bound::Hard(most, Overflow::Refuse)),
            2 => Some(Bound::Hard(most, Overflow::Wait)),
            3 => Some(Bound::Hard(most, Overflow::DropOldest)),
            4 => Some(Bound::Hard(most, Overflow::DropNewest)),
            5 => Some(Bound::Unbounded),
            _ => None,
        }
    }

    /// Spawns a process of a random kind, with random bindings to its spawner.
    pub fn spawn(self: &Arc<Self>, dice: &mut Dice) {
        if self.is_over() || self.alive.load(SeqCst) > CROWD {
            return;
        }
        let inside = Host::current().is_some();
        macro_rules! options {
            ($spawn:expr) => {{
                let mut spawn = $spawn;
                if dice.roll(4) == 0 {
                    spawn = spawn.named(Self::name(dice));
                    if dice.roll(2) == 0 {
                        spawn = spawn.or_existing();
                    }
                }
                if dice.roll(4) == 0 {
                    spawn = spawn.label("one of many");
                }
                if dice.roll(4) == 0 {
                    spawn = spawn.value(self.books.clone());
                }
                if let Some(bound) = Self::bound(dice) {
                    spawn = spawn.mailbox(bound);
                }
                if inside {
                    match dice.roll(6) {
                        0 => spawn = spawn.linked(),
                        1 => spawn = spawn.owned(),
                        2 => spawn = spawn.monitored(),
                        3 => spawn = spawn.linked().owned().monitored(),
                        _ => {}
                    }
                }
                spawn
            }};
        }
        let new = match dice.roll(8) {
            0..3 => {
                let spawn = options!(self.host.spawn(Citizen::new(self, false, dice.next())));
                if dice.roll(16) == 0 { spawn.refuse() } else { spawn.serve() }.map(Address::pid)
            }
            3..5 => options!(self.host.spawn_process(Raw::new(self, false, dice.next()))).start(),
            5 => {
                let spawn = options!(self.host.spawn(Walker::new(self, false, dice.next())));
                spawn.stay().map(|running| running.pid())
            }
            _ => {
                let spawn = options!(self.host.spawn(Walker::new(self, false, dice.next())));
                spawn.walk(dice.roll(20) as u32).map(|running| running.pid())
            }
        };
        if let Ok(pid) = new
            && !self.permanent.get().is_some_and(|permanent| permanent.contains(&pid))
        {
            self.know(pid, dice);
        }
    }

    /// Performs one random act of the calling process.
    pub fn act(self: &Arc<Self>, me: Pid, own: &mut Own, left: u32, dice: &mut Dice) -> Option<End> {
        if self.is_over() {
            return None;
        }
        add(&self.books.deeds);
        for _ in 0..2 * u32::from(left > 0) {
            self.send(self.someone(dice), left - 1, dice);
        }
        let other = self.someone(dice);
        let (name, room) = (Self::name(dice), format!("room-{}", dice.roll(ROOMS)));
        let room = self.host.group(room);
        let topic = self.host.topic::<Tick>(format!("topic-{}", dice.roll(TOPICS)));
        // Refusals are ignored, since the other process may have exited, or may be this one.
        match dice.roll(if own.permanent { 100 } else { 112 }) {
            0..10 => _ = other.link(),
            10..16 => _ = other.unlink(),
            16..24 => own.monitors.extend(other.monitor()),
            24..28 => {
                let tree = lock(&self.trees).first().map(Tree::pid);
                own.monitors.extend(tree.and_then(|tree| tree.monitor().ok()));
            }
            28..34 => {
                let some = if own.monitors.len() > 30 { 20 } else { own.monitors.len().min(1) };
                own.monitors.drain(..some).for_each(|monitor| _ = monitor.demonitor());
            }
            34..42 => self.spawn(dice),
            42..46 => _ = self.host.register_name(name, me),
            46..48 => _ = self.host.register_name(name, other),
            48..50 => _ = self.host.unregister_name(&name),
            50..52 => self.know_pointing(&name, dice),
            52..54 => {
                if let Err(refused) = self.host.send_named(&name, self.deed(Way::Sent, 0, dice)) {
                    refused.message.parcel.refused();
                }
            }
            54..60 => _ = room.join(if dice.roll(3) == 0 { other } else { me }),
            60..64 => _ = room.leave(if dice.roll(3) == 0 { other } else { me }),
            64..67 => _ = room.subscribe(me),
            67..69 => _ = room.unsubscribe(me),
            69..71 => _ = room.broadcast(self.tick()),
            71..74 => _ = topic.subscribe(me),
            74..76 => _ = topic.unsubscribe(me),
            76..78 => _ = topic.publish(self.tick()),
            78 => _ = self.host.subscribe::<Tick>(me),
            79 => _ = self.host.unsubscribe::<Tick>(me),
            80 => _ = self.host.publish(self.tick()),
            81..88 => self.send_later(other, dice),
            88..91 => self.send_again(other, dice),
            91 | 99 => (0..400).for_each(|_| self.send(other, 0, dice)),
            92..98 => self.harm(other, dice),
            98 => self.answered(&self.ask(other, dice).timeout(Duration::from_millis(2)).wait()),
            100..104 => return Some(End::Stop),
            104..108 => return Some(End::Fail),
            _ => return Some(End::Panic),
        }
        None
    }

    /// Puts the alias of a name into the table of PIDs.
    fn know_pointing(&self, name: &str, dice: &mut Dice) {
        if let Ok(address) = self.host.named_address::<Citizen>(name) {
            self.know(address.pid(), dice);
        }
    }
}
