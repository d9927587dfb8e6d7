//! Programs that must not compile, and the errors that a user gets.
//!
//! `cases/NAME.rs` contains one or more mistakes, `cases/NAME.stderr` the compiler's output. Each help line is tested:
//! its code, pasted over the tokens that the error marks, must give a program that compiles. If a help line is about
//! another place ("add", "move"), or the error is the compiler's own, `fixed/NAME.rs` contains the program as corrected
//! by hand; it must contain the code of every help line. `corrected.rs` compiles them all.
//!
//! `shapes.rs` is the opposite: code that must compile and run.
//!
//! After a change of messages: run `TRYBUILD=overwrite cargo test -p postroom-ui --test ui`, read the diff, and run
//! once more without.

use std::path::Path;

#[test]
fn mistakes_are_explained_and_the_help_can_be_followed() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");

    let (_, wrong) = postroom_ui::correct_all(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(wrong.is_empty(), "help that cannot be followed:\n{}", wrong.join("\n"));
}
