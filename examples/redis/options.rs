//! The command line.

use std::ffi::OsString;

#[derive(Debug, PartialEq)]
pub struct Options {
    pub help: bool,
    /// The port to listen on; 0 selects a free one.
    pub port: u16,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum UsageError {
    #[error("there is no option {}", option.display())]
    UnknownOption { option: OsString },
    #[error("--port needs a number from 0 to 65535, such as `--port 6379`, not {}", came(found.as_ref()))]
    Port { found: Option<OsString> },
}

fn came(found: Option<&OsString>) -> String {
    found.map_or("nothing".to_string(), |found| format!("`{}`", found.display()))
}

impl Options {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut options = Self { help: false, port: 6379 };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--help") => options.help = true,
                Some("--port") => options.port = port(arguments.next())?,
                _ => return Err(UsageError::UnknownOption { option: argument }),
            }
        }
        Ok(options)
    }
}

fn port(found: Option<OsString>) -> Result<u16, UsageError> {
    let port = found.as_ref().and_then(|found| found.to_str()?.parse().ok());
    port.ok_or(UsageError::Port { found })
}
