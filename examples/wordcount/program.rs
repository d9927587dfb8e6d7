//! What all parts of the program go by, how it talks to its user, and how it ends.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The most text, or words, that one message carries.
pub const MESSAGE_LIMIT: usize = 64 * 1024;

/// How long a call waits: a disk, a pipe or whoever reads our output may take its time, and that is no error.
pub const PATIENCE: Duration = Duration::MAX;

/// What ends the program: it is only ever told to the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes to standard error. If that is closed there is nobody left to tell.
pub fn say(text: fmt::Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Says what is wrong.
pub fn complain(what: impl Display) {
    say(format_args!("{}: {what}\n", env!("CARGO_BIN_NAME")));
}

/// The end of a program that was not called as it should be.
pub fn misused(error: impl Display, usage: &str) -> ExitCode {
    complain(format_args!("{error}\n{usage}"));
    ExitCode::from(2)
}

/// The end of a program that was asked how to call it.
pub fn explained(usage: &str) -> ExitCode {
    ended(writeln!(io::stdout(), "{usage}").map(|()| 0).map_err(Into::into))
}

/// The end of a program that has skipped so many paths.
pub fn ended(skipped: Result<usize, Failure>) -> ExitCode {
    match skipped {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
