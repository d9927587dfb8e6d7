//! Each small example ends well and prints what it says it shows.

use std::error::Error;

mod program;

fn prints(example: &str, expected: &[&str]) -> Result<(), Box<dyn Error>> {
    let output = program::command(example).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    Ok(())
}

#[test]
fn ping_pong() -> Result<(), Box<dyn Error>> {
    let ends = "ping ended: normal, pong ended: normal";
    prints("ping_pong", &["ping", "pong", "ping", "pong", "ping", "pong", ends])
}

#[test]
fn entries() -> Result<(), Box<dyn Error>> {
    prints("entries", &["left: 70", "saved: 40", "saving failed: 20 asked for, 10 there"])
}

#[test]
fn by_hand() -> Result<(), Box<dyn Error>> {
    prints("by_hand", &[r#"closed after ["fast", "slow"]"#, "ended: normal"])
}

#[test]
fn custom_command() -> Result<(), Box<dyn Error>> {
    let too_large = "below 100000000: the sum is too large for 64 bits";
    prints("custom_command", &["below 10: 285", "below 1000000: 333332833333500000", too_large])
}

/// The wording of the errors is the library's own affair; that they name what was wrong and what there is, is not.
#[test]
fn by_name() -> Result<(), Box<dyn Error>> {
    let output = program::command("by_name").output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["Hello Hello Ada!", "Bonjour Grace!"]);
    let named = [
        ["`Greeting`", "`Greeter`"],
        ["`server`", "`serve`"],
        ["2 inputs", "not 1"],
        ["`times`", "`u8`"],
        ["JSON array", "map"],
    ];
    assert_eq!(lines.len(), 2 + named.len(), "{printed}");
    for (line, names) in lines[2..].iter().zip(named) {
        assert!(names.iter().all(|name| line.contains(name)), "{line}");
    }
    Ok(())
}
