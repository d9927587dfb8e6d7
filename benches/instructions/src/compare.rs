//! Comparisons with recorded values.

use std::fmt;

/// Allowed difference from the recorded value, as a share of it. Runs differ by less than a hundredth. Another version
/// of the compiler may cause a larger difference, and then the value must be recorded again.
const MARGIN: f64 = 0.05;
/// The same margin for atomic instructions. It is larger because they are few: for an operation with ten of them, runs
/// differ by half an instruction, depending on how threads meet.
const ATOMICS_MARGIN: f64 = 0.1;
/// Difference in the number of atomic instructions that is always allowed. Some operations have a value of their own
/// instead.
pub const ATOMICS_SLACK: f64 = 0.05;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Same { recorded: f64 },
    Slower { recorded: f64, by: f64 },
    Faster { recorded: f64, by: f64 },
    Unknown,
}

pub fn compare_instructions(now: f64, recorded: Option<f64>) -> Verdict {
    compare(now, recorded, |recorded| recorded * MARGIN)
}

pub fn compare_atomics(now: f64, recorded: Option<f64>, slack: f64) -> Verdict {
    compare(now, recorded, |recorded| (recorded * ATOMICS_MARGIN).max(slack))
}

fn compare(now: f64, recorded: Option<f64>, allowed: impl Fn(f64) -> f64) -> Verdict {
    let Some(recorded) = recorded else { return Verdict::Unknown };
    let by = now / recorded - 1.0;
    if (now - recorded).abs() <= allowed(recorded) {
        Verdict::Same { recorded }
    } else if by > 0.0 {
        Verdict::Slower { recorded, by }
    } else {
        // This also includes a NaN, which occurs only if a value is itself a NaN.
        Verdict::Faster { recorded, by }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Same { recorded } => write!(f, "as recorded ({recorded:.1})"),
            Self::Slower { recorded, by } => {
                let by = by * 100.0;
                write!(
                    f,
                    "slower: {recorded:.1} is recorded ({by:+.1} %); record the new value with its reason if it is \
                     meant"
                )
            }
            Self::Faster { recorded, by } => {
                let by = by * 100.0;
                write!(f, "faster: {recorded:.1} is recorded ({by:+.1} %); record the new value with its reason")
            }
            Self::Unknown => f.write_str("not recorded; record it with its reason"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_the_margin_is_the_same() {
        for now in [95.1, 100.0, 104.9] {
            assert_eq!(compare_instructions(now, Some(100.0)), Verdict::Same { recorded: 100.0 });
        }
    }

    #[test]
    fn beyond_the_margin_is_slower_or_faster() {
        assert!(
            matches!(compare_instructions(105.1, Some(100.0)), Verdict::Slower { by, .. } if (by - 0.051).abs() < 1e-9)
        );
        assert!(
            matches!(compare_instructions(94.9, Some(100.0)), Verdict::Faster { by, .. } if (by + 0.051).abs() < 1e-9)
        );
    }

    #[test]
    fn few_atomics_may_differ_by_the_slack_and_many_by_a_tenth() {
        assert_eq!(compare_atomics(0.04, Some(0.0), ATOMICS_SLACK), Verdict::Same { recorded: 0.0 });
        assert!(matches!(compare_atomics(1.0, Some(0.0), ATOMICS_SLACK), Verdict::Slower { .. }));
        assert!(matches!(compare_atomics(1.0, Some(1.2), ATOMICS_SLACK), Verdict::Faster { .. }));
        assert_eq!(compare_atomics(11.7, Some(11.0), ATOMICS_SLACK), Verdict::Same { recorded: 11.0 });
        assert_eq!(compare_atomics(0.9, Some(0.3), 1.0), Verdict::Same { recorded: 0.3 });
        assert!(matches!(compare_atomics(9.0, Some(8.0), ATOMICS_SLACK), Verdict::Slower { .. }));
    }

    #[test]
    fn what_is_not_recorded_is_no_match() {
        assert_eq!(compare_instructions(100.0, None), Verdict::Unknown);
    }

    #[test]
    fn a_verdict_says_what_to_do() {
        let slower = compare_instructions(110.0, Some(100.0)).to_string();
        assert_eq!(slower, "slower: 100.0 is recorded (+10.0 %); record the new value with its reason if it is meant");
        assert_eq!(
            compare_instructions(90.0, Some(100.0)).to_string(),
            "faster: 100.0 is recorded (-10.0 %); record the new value with its reason"
        );
    }
}
