//! The measurements: one run of one workload on one system, and its expected result.

use std::time::Duration;

/// A workload. Each says what its processes do, what one operation is, and the number that proves that it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workload {
    /// Two processes pass one ball `size` times. Operation: a pass. Check: balls received by both.
    PingPong,
    /// `width` pairs pass one ball each, `size` passes in all pairs together. Check: balls received by all.
    PingPongPairs,
    /// A token goes `size` hops around a ring of `width` processes. Operation: a hop. Check: tokens received by all.
    ThreadRing,
    /// One producer process sends `size` numbers 0, 1, 2, … to one consumer, which checks their order. Check: their
    /// sum.
    Counting,
    /// `width` producer processes send `size` numbers in all to one consumer (each its share 0, 1, 2, …, whose order
    /// the consumer checks for each producer). Check: their sum.
    FanIn,
    /// One process sends `size` messages in all to `width` consumers in turn, then each reports its count to a
    /// collector. Check: messages received by all.
    FanOut,
    /// A process spawns `size` processes, sends each one message (its number), upon which it reports the number to a
    /// collector and stops; at most 10,000 alive at once is a system's own choice, none is needed. The clock stops when
    /// all have stopped. Operation: spawn, message, stop. Check: the sum of the numbers.
    ForkJoinCreate,
    /// Savina's *big*: `width` processes; each keeps one ping in flight to a random other one (a xorshift generator
    /// seeded by its number), which answers with a pong; `size` pings and pongs in all. Check: pings and pongs
    /// received.
    Big,
    /// A process spawns ten children, these ten each, down to `size` leaves (a power of ten), which send their number
    /// to their parent; parents send sums up, and every process stops after its report. Operation: a leaf. Check: the
    /// sum.
    Skynet,
    /// `size` processes with eight bytes of state that wait for messages; each is sent one, counts it and waits again.
    /// Operation: a spawn (timed without the messages). `bytes_per_process` is the growth of the resident set from
    /// before the first spawn to after the last message was handled. Check: messages handled.
    IdleMemory,
    /// One process calls another `size` times, one call after the other, and measures each (a clock read around each
    /// call, which `Outcome::latencies` gets; `elapsed` is of a second run of the same number of calls without clock
    /// reads). Operation: a call with its reply. Check: the sum of the replies, where the callee answers n + 1 to n.
    Ask,
    /// A thread outside sends a message to an idle process, `size` times, 2 ms apart, so that the system sleeps
    /// between; the message carries the time it was sent at, and the handler reads the clock. `latencies` gets these;
    /// `elapsed` is their sum. Check: messages handled.
    WakeLatency,
    /// Savina's nqueens: a master splits the search for all solutions of `width` queens over `4 * workers` worker
    /// processes; a message holds the first rows; below depth `kernel::QUEENS_DEPTH` a worker solves alone, above it
    /// sends the next rows back to the master as new work. Operation: a solution. Check: the number of solutions.
    NQueens,
    /// A product of two matrices of `width` by `width` f64 (`kernel::matrices`), by blocks of 32 rows; a message to one
    /// of `4 * workers` worker processes for each block, whose result is a message back. Operation: a block. Check: see
    /// `kernel`.
    Matrix,
    /// A source process sends `size` numbers through a pipeline of `width` further processes, each of which computes
    /// for `work` per message (`kernel::spin`) and passes the number on. Operation: a message at one stage. Check:
    /// messages at the end times stages.
    Pipeline,
    /// Savina's chameneos: `width` creatures meet `size` times at a mall; colours change as in the game. Operation: a
    /// meeting. Check: the sum of the meetings of all creatures, twice `size`.
    Chameneos,
    /// Savina's philosophers: `width` philosophers eat `size` times in all, forks handed out by one arbiter, which
    /// refuses when a neighbour eats; a refused philosopher asks again. Operation: a meal. Check: meals.
    Philosophers,
    /// Savina's banking: a teller orders `size` transfers of 1 between `width` accounts, which have `kernel::OPENING`
    /// each at the start. Both accounts of a transfer are random and never the same one (`kernel::Transfers`). The
    /// source account asks the destination to take the money and tells the teller once that has answered. Operation: a
    /// transfer. Check: transfers done, after which the sum of balances must be what it was.
    Banking,
    /// Savina's radix sort: `size` numbers of 16 bits (`kernel::numbers`) go through a chain of 16 sorter processes,
    /// one for each bit, which hold back those with the bit set until all have come. Operation: a number at one sorter.
    /// Check: `kernel::sorted_check` of the order at the end.
    RadixSort,
    /// Savina's concurrent dictionary: `width` client processes send `size` requests in all, 10 % writes, to one
    /// dictionary process (a hash table, empty at the start) and wait for each answer: the value that is there, or was
    /// before the write. The keys are random below `kernel::KEYS`; the seed of a client is its number from 0
    /// (`kernel::Requests`). Operation: a request. Check: answers.
    Dictionary,
    /// How late a message comes to a process that waits for it, while nothing else runs. A thread outside sends `size`
    /// messages, about a millisecond apart whatever becomes of them; each carries the time it was sent at, and the
    /// handler reads the clock. `latencies` gets these. `elapsed` is from the first message sent to the last one
    /// handled. Operation: such a message. Check: messages handled. This and the load of the following ones are driven
    /// by [`crate::probe`].
    ProbeIdle,
    /// The same while `width` processes flood each other: each sends [`crate::probe::IN_FLIGHT`] messages to random
    /// other ones at the start, and whoever gets one sends one on to a random other one.
    ProbeFlood,
    /// The same while a process for each worker blocks its thread for `work` in a system call, as it stands, over and
    /// over. Between, it lets others have their turn in the way that its system has for that.
    ProbeBlocking,
    /// The same while they block in the way that their system has for it, so that it knows.
    ProbeTold,
    /// The same while a process for each worker loops for `work` by the clock, over and over.
    ProbeLooping,
    /// The same while `width` timers fire all at the same moment, and again `work` after, and again. Each sends a
    /// message to one of [`crate::probe::TIMED`] processes.
    ProbeTimers,
}

impl Workload {
    /// Whether it measures the delay of a message under other load: these have a table of their own.
    pub fn is_probe(self) -> bool {
        matches!(
            self,
            Self::ProbeIdle
                | Self::ProbeFlood
                | Self::ProbeBlocking
                | Self::ProbeTold
                | Self::ProbeLooping
                | Self::ProbeTimers
        )
    }
}

/// How a message is addressed, where a system has more than one way. Only Postroom is swept over this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// The typed address of the system.
    Address,
    /// By PID, with any type of message.
    Pid,
    /// By name, looked up for each message.
    Name,
}

/// How the processes are written. Only Postroom is swept over this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Style {
    /// The way a user of the system writes them; for Postroom, with `#[process]`.
    Natural,
    /// The trait `Process` written by hand.
    ByHand,
}

/// The bound of Postroom's mailboxes, for Postroom only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bounding {
    /// As it bounds them unasked.
    Unasked,
    /// A process that sends beyond the bound is suspended after its step; without a bound, none is.
    Soft,
    /// The sender waits where it sends.
    Hard,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub workload: Workload,
    /// Threads that run processes.
    pub workers: usize,
    /// See the workload.
    pub size: u64,
    /// See the workload.
    pub width: u64,
    /// Bytes that each message carries besides what the workload needs: 0, 32, 256, 512 or 4,096, held in the message
    /// itself (an array). Of the workloads `PingPong` and `Counting` only.
    pub payload: usize,
    /// How many messages a mailbox holds; `None` without a bound. A system whose bounded send waits, waits.
    pub bound: Option<usize>,
    pub bounding: Bounding,
    pub via: Via,
    pub style: Style,
    /// Computing for each message of `Pipeline`; how long one step of the load of a probe takes, or how far apart its
    /// timers fire.
    pub work: Duration,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From the first message (or spawn) to the last one handled, without building and ending the runtime.
    pub elapsed: Duration,
    /// How many operations were done.
    pub operations: u64,
    /// The workload's number, to be compared with the expected one.
    pub check: u64,
    /// Nanoseconds of single operations, for the workloads that measure these; else empty.
    pub latencies: Vec<u64>,
    /// What the load of a probe did in that time: messages, steps, or timers that fired.
    pub load: Option<u64>,
    /// For `IdleMemory`.
    pub bytes_per_process: Option<f64>,
}
