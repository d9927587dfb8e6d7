//! The names of workloads and of parameters, as they appear in options, arguments, tables and files.

use crate::plan::{Bounding, Style, Via, Workload};

/// Implements the names of an enum: a list of all values, `name`, `Display`, and `FromStr`, whose error lists the
/// names.
#[macro_export]
macro_rules! named {
    ($type:ty, $what:literal, [$($variant:ident = $name:literal),* $(,)?]) => {
        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|known| known.name() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|known| known.name()).collect();
                    format!("there is no {} `{text}`; choose from {}", $what, names.join(", "))
                })
            }
        }
    };
}
pub use named;

named!(
    Workload,
    "workload",
    [
        PingPong = "ping_pong",
        PingPongPairs = "ping_pong_pairs",
        ThreadRing = "thread_ring",
        Counting = "counting",
        FanIn = "fan_in",
        FanOut = "fan_out",
        ForkJoinCreate = "fork_join_create",
        Big = "big",
        Skynet = "skynet",
        IdleMemory = "idle_memory",
        Ask = "ask",
        WakeLatency = "wake_latency",
        AskFromTasks = "ask_from_tasks",
        TellFromTasks = "tell_from_tasks",
        TellInTurn = "tell_in_turn",
        AskFromThread = "ask_from_thread",
        Axum = "axum",
        AxumMutex = "axum_mutex",
        NQueens = "nqueens",
        Matrix = "matrix",
        Pipeline = "pipeline",
        Chameneos = "chameneos",
        Philosophers = "philosophers",
        Banking = "banking",
        RadixSort = "radix_sort",
        Dictionary = "dictionary",
        ProbeIdle = "probe_idle",
        ProbeFlood = "probe_flood",
        ProbeBlocking = "probe_blocking",
        ProbeTold = "probe_told",
        ProbeLooping = "probe_looping",
        ProbeTimers = "probe_timers",
    ]
);

named!(Via, "way to address a message", [Address = "address", Pid = "pid", Name = "name"]);

named!(Bounding, "way to bound mailboxes", [Unasked = "unasked", Soft = "soft", Hard = "hard"]);

named!(Style, "way to write a process", [Natural = "natural", ByHand = "by_hand"]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for &workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        for &style in Style::ALL {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_there_is() {
        let error = "post".parse::<Via>().unwrap_err();
        assert_eq!(error, "there is no way to address a message `post`; choose from address, pid, name");
    }
}
