//! Tests `million` with a thousand processes, and with invalid numbers.
//!
//! Blind spot: the printed figures are not checked, since they depend on the machine.

use std::error::Error;

mod program;

#[test]
fn a_thousand_processes() -> Result<(), Box<dyn Error>> {
    let output = program::command("million").arg("1000").output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    let words: Vec<&str> =
        printed.lines().filter_map(|line| line.split(' ').next().filter(|word| !word.is_empty())).collect();
    assert_eq!(words, ["processes", "spawning", "messages", "memory", "closing"], "{printed}");
    assert!(printed.lines().next().is_some_and(|line| line.ends_with(" 1000")), "{printed}");
    Ok(())
}

#[test]
fn what_is_no_number_is_a_usage_error() -> Result<(), Box<dyn Error>> {
    for arguments in [&["many"][..], &["0"], &["-1"], &["1e6"], &[""], &["99999999999999999999"], &["10", "more"]] {
        let output = program::command("million").args(arguments).output()?;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr)?;
        let wrong = arguments.last().map(|wrong| format!("`{wrong}`")).unwrap_or_default();
        assert!(stderr.contains(&wrong) && stderr.contains("usage: million"), "{stderr}");
    }
    Ok(())
}
