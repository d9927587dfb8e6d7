//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Default, PartialEq)]
pub struct Options {
    pub all: bool,
    pub help: bool,
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum UsageError {
    #[error("there is no option {}", option.display())]
    UnknownOption { option: OsString },
}

impl Options {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut options = Self::default();
        let mut only_paths = false;
        for argument in arguments {
            match argument.to_str() {
                _ if only_paths => options.paths.push(argument.into()),
                Some("--") => only_paths = true,
                Some("--all") => options.all = true,
                Some("--help") => options.help = true,
                _ if argument.as_encoded_bytes().starts_with(b"-") => {
                    return Err(UsageError::UnknownOption { option: argument });
                }
                _ => options.paths.push(argument.into()),
            }
        }
        Ok(options)
    }
}
