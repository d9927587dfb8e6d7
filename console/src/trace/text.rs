//! Explanations as text.

use super::explain::{Explanation, TypeTimes};
use super::part::{Cause, Part, TracedProcess};
use std::fmt;
use std::time::Duration;

/// Maximum number of steps of the critical path in the text; the longest ones are shown.
const STEPS: usize = 12;

/// A time that is formatted with three digits and its unit.
pub(super) struct Took(pub(super) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let text = match nanoseconds {
            0..1_000 => format!("{nanoseconds} ns"),
            1_000..1_000_000 => digits(nanoseconds as f64 / 1e3, "µs"),
            1_000_000..1_000_000_000 => digits(nanoseconds as f64 / 1e6, "ms"),
            _ => digits(nanoseconds as f64 / 1e9, "s"),
        };
        f.pad(&text)
    }
}

fn digits(value: f64, unit: &str) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// Returns a type name without paths.
pub(super) fn short(name: &str) -> String {
    let mut text = String::new();
    let mut word = String::new();
    let mut rest = name.chars().peekable();
    while let Some(next) = rest.next() {
        if next == ':' && rest.peek() == Some(&':') {
            rest.next();
            word.clear();
        } else if next.is_alphanumeric() || next == '_' {
            word.push(next);
        } else {
            text.push_str(&word);
            word.clear();
            text.push(next);
        }
    }
    text + &word
}

/// Returns the name of a message to a process of this type: `Account::deposit` for the generated type `AccountDeposit`,
/// and the name of the message type for any other.
pub(super) fn method(of: &str, message: &str) -> String {
    let (of, message) = (short(of), short(message));
    let Some(rest) =
        message.strip_prefix(of.as_str()).filter(|rest| !of.is_empty() && rest.starts_with(char::is_uppercase))
    else {
        return message;
    };
    let mut name = String::new();
    for (place, letter) in rest.char_indices() {
        if letter.is_uppercase() && place > 0 {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    format!("{of}::{name}")
}

impl fmt::Display for TracedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = short(self.of);
        write!(f, "{}{}{}", of, if of.is_empty() { "" } else { " " }, self.pid)
    }
}

/// Describes what a process runs.
fn runs(process: &TracedProcess, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{} of {process}", method(process.of, message)),
        None => process.to_string(),
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { to, message } => write!(f, "{} of {to}", method(to.of, message)),
            Self::Mailbox { of } => write!(f, "in the mailbox of {of}"),
            Self::Behind { of, message } => write!(f, "behind {}", method(of.of, message)),
            Self::Handling { by, message } => write!(f, "handled by {}", method(by.of, message)),
            Self::Running { process, message } => write!(f, "ran {}", runs(process, *message)),
            Self::Worker { process } => write!(f, "{process} was ready, and no worker ran it"),
            Self::Busy { process, message, is_stalled } => {
                write!(
                    f,
                    "the worker ran {}{}",
                    runs(process, *message),
                    if *is_stalled { ", and was stuck" } else { "" }
                )
            }
            Self::Waking { .. } => write!(f, "until a worker began"),
            Self::Suspended { process, at } => write!(f, "{process} was suspended at the full mailbox of {at}"),
            Self::Timer { process, message } => {
                write!(f, "{} waited for a timer that was not due", runs(process, *message))
            }
            Self::LateTimer { process, message } => write!(f, "a timer of {} was late", runs(process, *message)),
            Self::Blocked { process, message } => write!(f, "{} blocked its thread", runs(process, *message)),
            Self::Deferred { by } => write!(f, "{by} had handled it, and the answer came later"),
            Self::Outside { process, message } => {
                write!(f, "{} waited for something that is not recorded", runs(process, *message))
            }
            Self::Cycle => write!(f, "waited for itself: a cycle of calls"),
            Self::Unknown => write!(f, "unknown: records are missing"),
            Self::Remainder => write!(f, "not taken apart further"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole.took;
        let kind = if self.is_call { "call" } else { "message" };
        write!(f, "The {kind} {} took {}", self.whole.cause, Took(whole))?;
        writeln!(f, "{}.", if self.is_finished { "" } else { " until the recording ended, and was not finished" })?;
        if self.lost > 0 {
            writeln!(f, "{} records were lost: what they would show is said to be unknown.", self.lost)?;
        }
        writeln!(f)?;
        lines(f, &self.whole, whole, 0)?;
        let mut steps: Vec<_> = self.path.iter().collect();
        steps.sort_by_key(|step| std::cmp::Reverse(step.took));
        steps.truncate(STEPS);
        steps.sort_by_key(|step| step.from);
        writeln!(f, "\nThe critical path{}:", if steps.len() < self.path.len() { ", its longest steps" } else { "" })?;
        for step in steps {
            let after = Took(step.from.saturating_sub(self.sent));
            writeln!(f, "{:>9}  after {:>9}  {}", Took(step.took).to_string(), after.to_string(), step.cause)?;
        }
        match &self.remedy {
            None => writeln!(f, "\nNo single change would have made it faster."),
            Some(remedy) => writeln!(
                f,
                "\nMost would have helped: {}.\nWithout that, the {kind} would have taken {}.",
                remedy.without.remedy(),
                Took(remedy.then)
            ),
        }
    }
}

/// Writes a part and the parts below it.
fn line(f: &mut fmt::Formatter<'_>, part: &Part, whole: Duration, depth: usize) -> fmt::Result {
    let times = match part.cause {
        Cause::Behind { .. } => format!(", {} of them", part.count),
        _ => String::new(),
    };
    entry(f, part.took, whole, depth, &format!("{}{times}", part.cause))?;
    lines(f, part, whole, depth + 1)
}

/// Writes the sub-parts of a part, with the short ones combined in one line.
fn lines(f: &mut fmt::Formatter<'_>, part: &Part, whole: Duration, depth: usize) -> fmt::Result {
    let (shown, others) = part.main_parts(whole, usize::MAX);
    shown.into_iter().try_for_each(|inner| line(f, inner, whole, depth))?;
    match others.len() {
        0 => Ok(()),
        count => {
            let took = others.iter().map(|part| part.took).sum();
            entry(f, took, whole, depth, &format!("{count} shorter parts"))
        }
    }
}

fn entry(f: &mut fmt::Formatter<'_>, took: Duration, whole: Duration, depth: usize, text: &str) -> fmt::Result {
    let percent = took.as_nanos() * 100 / whole.as_nanos().max(1);
    writeln!(f, "{:>9} {percent:>3} %  {:indent$}{text}", Took(took).to_string(), "", indent = 2 * depth)
}

impl Cause {
    /// Returns the change that would remove this cause, as the end of a sentence.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::Behind { of, message } => {
                format!("{} handled elsewhere than in {of}, or at once", method(of.of, message))
            }
            Self::Running { process, message } => format!("{} made faster", runs(process, *message)),
            Self::Worker { process } => format!("a free worker for {process}: more workers, or shorter steps"),
            Self::Busy { process, message, .. } => {
                format!("{} off the workers: blocking or pinned", runs(process, *message))
            }
            Self::Waking { process } => format!("a worker that is awake when {process} is ready"),
            Self::Suspended { at, .. } => format!("room in the mailbox of {at}"),
            Self::Timer { process, message } => format!("no wait for a timer in {}", runs(process, *message)),
            Self::LateTimer { process, message } => {
                format!("a timer that is on time in {}", runs(process, *message))
            }
            Self::Blocked { process, message } => format!("no blocking in {}", runs(process, *message)),
            Self::Deferred { by } => format!("an answer of {by} as soon as it has handled the call"),
            Self::Outside { process, message } => {
                format!("no wait for what is not recorded in {}", runs(process, *message))
            }
            Self::Cycle => "no cycle of calls".to_owned(),
            other => format!("without this: {other}"),
        }
    }
}

impl fmt::Display for TypeTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slowest = self.slowest.first().map_or(Duration::ZERO, |first| first.took);
        let [p50, p99, slowest] = [self.p50, self.p99, slowest].map(|time| Took(time).to_string());
        let name = method(self.to, self.message);
        write!(f, "{name}: {} messages, p50 {p50}, p99 {p99}, slowest {slowest}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_999, "10.0 µs"),
            (412_000, "412 µs"),
            (14_600_000, "14.6 ms"),
            (2_000_000_000, "2.00 s"),
            (99_960_000_000, "100 s"),
        ] {
            assert_eq!(Took(Duration::from_nanos(nanoseconds)).to_string(), text);
        }
    }

    #[test]
    fn the_macros_types_of_messages_are_read_as_methods() {
        assert_eq!(method("bank::Account", "bank::AccountDepositAll"), "Account::deposit_all");
        assert_eq!(method("Account", "Accounting"), "Accounting");
        assert_eq!(method("Account", "alloc::vec::Vec<core::option::Option<u8>>"), "Vec<Option<u8>>");
        assert_eq!(method("", "Deposit"), "Deposit");
    }
}
