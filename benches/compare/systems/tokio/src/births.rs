//! Processes that start, live briefly or idle, and end.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ::tokio::spawn;
use ::tokio::task::yield_now;

use super::mailbox::{Address, Inbox, Kind};
use super::outcome;
use crate::plan::Outcome;

/// Number of processes that are spawned before they get a turn. Without such turns, a single worker would hold all
/// processes at once, and their memory would not stay in the caches. With one worker, this number was the best of 1,
/// 16, 128, 1,024 and no turns at all (which took two to four times as long). With two workers, the noise was greater
/// than the difference.
const LITTER: u64 = 128;

pub async fn fork_join_create<K: Kind>(kind: K, size: u64) -> Outcome {
    let (collector, mut reports) = kind.mailbox::<u64>();
    // The collector's mailbox closes once the last process has ended and dropped its address. So the collector sees all
    // of them end.
    let collecting = spawn(async move {
        let mut sum = 0;
        while let Some(number) = reports.receive().await {
            sum += number;
        }
        sum
    });

    let start = Instant::now();
    for number in 0..size {
        let (address, mut inbox) = kind.mailbox::<u64>();
        let collector = collector.clone();
        spawn(async move {
            if let Some(number) = inbox.receive().await {
                collector.send(number).await;
            }
        });
        address.send(number).await;
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    drop(collector);
    let sum = collecting.await.expect("the collector ends well");
    outcome(start.elapsed(), size, sum)
}

/// Number of children of each process that is not a leaf.
const CHILDREN: u64 = 10;

pub async fn skynet<K: Kind>(kind: K, size: u64) -> Outcome {
    let (address, mut inbox) = kind.mailbox();
    let start = Instant::now();
    spawn_node(kind, address, 0, size);
    let sum = inbox.receive().await.expect("the sum of all leaves");
    outcome(start.elapsed(), size, sum)
}

/// Spawns the process above `leaves` leaves. The first of these leaves has the number `first`. A leaf receives nothing,
/// so it has no mailbox.
fn spawn_node<K: Kind>(kind: K, parent: K::Address<u64>, first: u64, leaves: u64) {
    if leaves == 1 {
        spawn(async move { parent.send(first).await });
        return;
    }
    spawn(async move {
        let (address, mut inbox) = kind.mailbox();
        let leaves = leaves / CHILDREN;
        for child in 0..CHILDREN {
            spawn_node(kind, address.clone(), first + child * leaves, leaves);
        }
        let mut sum = 0;
        for _ in 0..CHILDREN {
            sum += inbox.receive().await.expect("a report of each child");
        }
        parent.send(sum).await;
    });
}

pub async fn idle_memory<K: Kind>(kind: K, size: u64) -> Outcome {
    // The number of messages handled. It is counted here because a mailbox for reports would be part of the measured
    // memory.
    static HANDLED: AtomicU64 = AtomicU64::new(0);

    let mut addresses = Vec::with_capacity(size as usize);
    let before = resident_bytes();
    let start = Instant::now();
    for number in 0..size {
        let (address, mut inbox) = kind.mailbox::<u64>();
        spawn(async move {
            let mut sum = 0;
            while let Some(number) = inbox.receive().await {
                sum += number;
                HANDLED.fetch_add(sum, Ordering::Relaxed);
            }
        });
        addresses.push(address);
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    let elapsed = start.elapsed();

    for (number, address) in (0..).zip(&addresses) {
        address.send(1).await;
        if number % LITTER == LITTER - 1 {
            yield_now().await;
        }
    }
    while HANDLED.load(Ordering::Relaxed) < size {
        yield_now().await;
    }
    let growth = resident_bytes() - before;
    let bytes_per_process = Some(growth / size as f64);
    Outcome { bytes_per_process, ..outcome(elapsed, size, HANDLED.load(Ordering::Relaxed)) }
}

fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for the resident set");
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kibibytes");
    kibibytes * 1024.0
}
