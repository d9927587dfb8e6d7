//! Common constants, the output for the user, and exit codes.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Maximum size of the text or words in one message, in bytes.
pub const MESSAGE_LIMIT: usize = 64 * 1024;

/// The timeout of calls: a disk, a pipe or the reader of the output may be slow, which is not an error.
pub const PATIENCE: Duration = Duration::MAX;

/// An error that ends the program, and is only shown to the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes to standard error. An error is ignored, since standard error may be closed.
pub fn say(text: fmt::Arguments) {
    let _ = io::stderr().write_fmt(text);
}

/// Prints an error.
pub fn complain(what: impl Display) {
    say(format_args!("{}: {what}\n", env!("CARGO_BIN_NAME")));
}

/// Ends the program after wrong usage.
pub fn misused(error: impl Display, usage: &str) -> ExitCode {
    complain(format_args!("{error}\n{usage}"));
    ExitCode::from(2)
}

/// Ends the program after printing its usage.
pub fn explained(usage: &str) -> ExitCode {
    ended(writeln!(io::stdout(), "{usage}").map(|()| 0).map_err(Into::into))
}

/// Ends the program with the number of skipped paths.
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
