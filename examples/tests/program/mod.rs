//! The location of the built examples.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Returns a command that runs an example of this package. Cargo builds them for `cargo test`, next to the folder of
/// the test.
pub fn command(example: &str) -> Command {
    let test = env::current_exe().unwrap_or_else(|error| panic!("no path to this test: {error}"));
    let target = test.ancestors().nth(2).map_or(PathBuf::new(), PathBuf::from);
    let program = target.join("examples").join(format!("{example}{}", env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: `cargo test` or `cargo build --examples` builds it", program.display());
    Command::new(program)
}
