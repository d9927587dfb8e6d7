//! Threads outside of the runtime that send, call, spawn, end and upgrade processes, and start and stop trees and
//! pools.

use super::books::{Way, add};
use super::citizen::{Citizen, Veteran};
use super::messages::{Deed, Dice, Tick, lock};
use super::walker::Walker;
use super::world::{ROOMS, TOPICS, World};
use postroom::prelude::*;
use postroom::supervision::{Backoff, Child, Supervisor, SupervisorError, Tree};
use postroom::{ChildSpawn, Mailbox, Pool};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The maximum number of trees at a time. The permanent tree counts, and is the first.
const TREES: usize = 5;
/// The maximum number of pools at a time.
const POOLS: usize = 4;

/// Returns the factory of a child that is a citizen.
pub fn citizen(
    world: &Arc<World>,
    mut dice: Dice,
) -> impl FnMut(ChildSpawn) -> Result<Address<Citizen>, SpawnError> + Send + 'static {
    let world = world.clone();
    move |spawn| {
        let spawn = spawn.of(Citizen::new(&world, false, dice.next()));
        match dice.roll(8) {
            0 => spawn.named(World::name(&mut dice)).serve(),
            1 => spawn.label("a child").serve(),
            2 => spawn.refuse(),
            _ => spawn.serve(),
        }
    }
}

fn below(world: &Arc<World>, mut dice: Dice) -> impl FnMut(ChildSpawn) -> Result<Tree, SupervisorError> + Send + use<> {
    let world = world.clone();
    move |spawn| {
        let child = citizen(&world, dice.next());
        Supervisor::rest_for_one().intensity(2, Duration::from_millis(10)).child("leaf", child).spawn(spawn)
    }
}

fn tree(world: &Arc<World>, dice: &mut Dice) -> Option<Tree> {
    let supervisor = match dice.roll(4) {
        0 => Supervisor::one_for_one(),
        1 => Supervisor::one_for_all(),
        2 => Supervisor::rest_for_one(),
        _ => Supervisor::dynamic(),
    };
    let supervisor = match dice.roll(3) {
        0 => supervisor.intensity(1, Duration::from_secs(1)),
        _ => supervisor.intensity(u32::MAX, Duration::MAX),
    };
    let supervisor = supervisor.backoff(match dice.roll(3) {
        0 => Backoff::none(),
        1 => Backoff::constant(Duration::from_millis(1)),
        _ => Backoff::exponential(Duration::from_micros(100), Duration::from_millis(5)),
    });
    let supervisor = if dice.roll(4) == 0 { supervisor.named(World::name(dice)) } else { supervisor };
    let child = |name: &'static str, dice: &mut Dice| {
        let child = Child::new(name, citizen(world, dice.next())).stop_within(Duration::from_millis(20));
        let child = if dice.roll(2) == 0 { child.keep_messages() } else { child };
        match dice.roll(3) {
            0 => child.transient(),
            1 => child.temporary(),
            _ => child,
        }
    };
    let supervisor = supervisor.add(child("a", dice)).add(child("b", dice));
    let supervisor = if dice.roll(3) == 0 { supervisor.child("below", below(world, dice.next())) } else { supervisor };
    let tree = supervisor.spawn(world.host).ok()?;
    for name in ["a", "b", "below"] {
        tree.child_pid(name).into_iter().for_each(|pid| world.know(pid, dice));
    }
    Some(tree)
}

fn start_tree(world: &Arc<World>, dice: &mut Dice) {
    let Some(tree) = tree(world, dice) else { return };
    let before = {
        let mut trees = lock(&world.trees);
        trees.push(tree);
        (trees.len() > TREES).then(|| trees.swap_remove(1 + dice.roll(TREES as u64 - 1) as usize))
    };
    if let Some(tree) = before {
        _ = if dice.roll(2) == 0 { tree.stop() } else { tree.pid().kill() };
    }
}

fn tend_tree(world: &Arc<World>, dice: &mut Dice) {
    let Some(tree) = ({
        let trees = lock(&world.trees);
        let count = trees.len() as u64;
        (count > 1).then(|| trees[1 + dice.roll(count - 1) as usize].clone())
    }) else {
        return;
    };
    let name = ["a", "b", "below", "new"][dice.roll(4) as usize];
    match dice.roll(5) {
        0 => _ = tree.restart_child(name),
        1 => _ = tree.stop_child(name),
        2 => _ = tree.start(Child::new("new", citizen(world, dice.next())).temporary()),
        3 => drop(tree.to_string()),
        // This causes a restart storm: each child that is started is killed.
        _ => {
            for _ in 0..20 {
                if let Ok(pid) = tree.child_pid(name) {
                    add(&world.books.restarts);
                    pid.kill();
                }
                std::thread::yield_now();
            }
        }
    }
}

fn start_pool(world: &Arc<World>, mut dice: Dice) {
    let mut member = citizen(world, dice.next());
    let pool = match dice.roll(4) {
        0 => Pool::fixed(2).queue(16).deadline(Duration::from_millis(2)).spawn(world.host, member),
        1 => Pool::elastic(0..=3).queue(8).idle_after(Duration::from_millis(1)).spawn(world.host, member),
        2 => {
            let pool = Pool::fixed(2).by_hash(|deed: &Deed| deed.dice.0).broadcast::<Tick>();
            pool.spawn(world.host, member)
        }
        _ => {
            let pool = Pool::by_key(|deed: &Deed| deed.dice.0 % 4).idle_after(Duration::from_millis(1));
            pool.spawn(world.host, move |spawn, _| member(spawn))
        }
    };
    let Ok(pool) = pool else { return };
    world.know(pool.pid(), &mut dice);
    let before = {
        let mut pools = lock(&world.pools);
        pools.push(pool);
        (pools.len() > POOLS).then(|| pools.swap_remove(dice.roll(POOLS as u64) as usize))
    };
    if let Some(pool) = before {
        if dice.roll(2) == 0 { pool.stop() } else { _ = pool.pid().kill() }
    }
}

/// Acts until the test is over.
pub fn drive(world: &Arc<World>, mut dice: Dice) {
    while !world.is_over() {
        let pid = world.someone(&mut dice);
        match dice.roll(41) {
            0..8 => world.send(pid, 3, &mut dice),
            8..10 => {
                let sent = world.plain(pid, Way::Sent, 2, &mut dice).send_wait();
                sent.unwrap_or_else(|refused| refused.message.parcel.refused());
            }
            10..12 => world.answered(&world.ask(pid, &mut dice).wait()),
            12 => world.answered(&world.delay(pid, &mut dice).wait()),
            13..22 => world.spawn(&mut dice),
            22..26 => world.harm(pid, &mut dice),
            26 => start_tree(world, &mut dice),
            27..29 => tend_tree(world, &mut dice),
            29 => start_pool(world, dice.next()),
            30..32 => {
                // This kills the permanent child, which is then restarted.
                add(&world.books.restarts);
                let child = lock(&world.trees).first().and_then(|tree| tree.child_pid("permanent").ok());
                child.map(Pid::kill);
            }
            32 if !pid.is_alias() && !world.permanent.get().is_some_and(|permanent| permanent.contains(&pid)) => {
                let upgrade = pid.upgrade(|old: Citizen| Veteran { world: old.world, own: old.own });
                if upgrade.wait_timeout(Duration::from_millis(2)).is_ok_and(|done| done.is_ok()) {
                    add(&world.books.upgrades);
                }
            }
            33 => _ = pid.join().wait_timeout(dice.short()),
            34 => drop(pid.info()),
            35 => drop(pid.bindings()),
            36 => world.alive.store(world.host.statistics().processes.live, SeqCst),
            38 => {
                // A mailbox has a slot, and can be a member, too. The messages that it drops do not count as dead
                // letters.
                let Ok(mut mailbox) = Mailbox::new() else { continue };
                let room = world.host.group(format!("room-{}", dice.roll(ROOMS)));
                let topic = world.host.topic::<Tick>(format!("topic-{}", dice.roll(TOPICS)));
                _ = (room.join(mailbox.pid()), room.subscribe(mailbox.pid()), topic.subscribe(mailbox.pid()));
                room.broadcast(world.tick());
                drop(mailbox.try_receive());
            }
            39 => {
                let walker = world.host.spawn(Walker::new(world, false, dice.next())).walk(3);
                drop(walker.map(|walker| walker.wait_timeout(dice.short())));
            }
            37 => {
                // This call is dropped without being sent.
                let call = world.ask(pid, &mut dice);
                drop(call);
            }
            _ => _ = world.host.publish(world.tick()),
        }
    }
}
