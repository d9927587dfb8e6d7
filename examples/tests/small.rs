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
        ["`times`", "missing"],
    ];
    assert_eq!(lines.len(), 2 + named.len(), "{printed}");
    for (line, names) in lines[2..].iter().zip(named) {
        assert!(names.iter().all(|name| line.contains(name)), "{line}");
    }
    Ok(())
}

/// How much a slow user reads depends on time; that it is not all, and the newest, does not.
#[test]
fn chat() -> Result<(), Box<dyn Error>> {
    let output = program::command("chat").output()?;
    let errors = String::from_utf8(output.stderr)?;
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let printed = String::from_utf8(output.stdout)?;
    let lines: Vec<&str> = printed.lines().collect();
    let crash = "--- Bob has reached 4 users. Eve: panic: cannot show `see you in the café` at ";
    assert!(lines.get(4).is_some_and(|line| line.starts_with(crash)), "{printed}");
    let mut expected: Vec<String> = [
        "[kitchen] Ada: who is hungry?",
        "[garden] Bob: the two of us",
        "[kitchen] Eve: me!",
        "[kitchen] Bob: see you in the café",
        lines[4],
        "[kitchen] Ada: whoever is there first counts down",
    ]
    .map(String::from)
    .into();
    expected.extend((1..10).rev().map(|number| format!("[kitchen] Bob: {number}")));
    expected.push("--- Ada has reached 3 users.".to_string());
    // Fourteen lines were said, one of them in the garden, where Sam is not.
    expected.extend(["Ada", "Bob"].map(|name| format!("--- {name} has read 14 lines; the last is \"1\".")));
    let (sam, others) = lines.split_last().ok_or("nothing is printed")?;
    assert_eq!(others, expected);
    let read = sam.strip_prefix("--- Sam has read ").and_then(|line| line.strip_suffix(" lines; the last is \"1\"."));
    assert!((1..13).contains(&read.ok_or(format!("Sam: {sam}"))?.parse::<u32>()?), "{sam}");
    Ok(())
}
