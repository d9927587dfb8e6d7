//! Postroom's targets on two cores of a server's processor. Each is in the unit of its line. The ratio to the other
//! systems in the same run matters more.

/// The name of a line, its number of workers, and the limit on its value.
const TARGETS: [(&str, usize, f64); 21] = [
    ("ping_pong", 1, 20.0),
    ("ping_pong", 2, 22.0),
    ("ping_pong_pairs", 2, 12.0),
    ("thread_ring", 1, 20.0),
    ("thread_ring", 2, 22.0),
    ("counting", 2, 12.0),
    ("fan_in", 2, 15.0),
    ("fan_out", 2, 15.0),
    ("big", 2, 15.0),
    ("fork_join_create", 2, 80.0),
    ("skynet", 2, 100.0),
    ("ask", 2, 50.0),
    ("ask p99", 2, 300.0),
    ("idle_memory", 2, 80.0),
    ("idle_memory bytes", 2, 200.0),
    // This makes 3 GiB for all processes.
    ("idle_memory processes=10000000 bytes", 2, 322.0),
    ("wake_latency p50", 2, 5_000.0),
    ("probe_flood p99", 2, 1e6),
    ("probe_blocking p99", 2, 15e6),
    ("probe_looping p99", 2, 15e6),
    ("probe_timers p99", 2, 1e6),
];

/// Returns the value that a line must not exceed, if it has a target.
pub fn target(line: &str, workers: usize) -> Option<f64> {
    TARGETS.iter().find(|(name, at, _)| *name == line && *at == workers).map(|(_, _, target)| *target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{probes, workloads};
    use crate::plan::Workload;

    #[test]
    fn targets_are_of_lines_that_there_are() {
        for (line, ..) in TARGETS {
            let name = line.split(' ').next().unwrap();
            assert!(
                name.parse::<Workload>().is_ok() && workloads().iter().chain(&probes()).any(|case| case.name == name),
                "{line}"
            );
        }
        assert_eq!((target("thread_ring", 1), target("thread_ring", 4)), (Some(20.0), None));
    }
}
