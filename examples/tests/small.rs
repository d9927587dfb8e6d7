//! Each small example exits successfully and prints what it documents.

use std::error::Error;

mod program;

fn prints(example: &str, expected: &[&str]) -> Result<(), Box<dyn Error>> {
    let printed = printed(example, &[])?;
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    Ok(())
}

fn printed(example: &str, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = program::command(example).args(arguments).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
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

/// The errors name the wrong value and the available ones; their exact wording is not checked.
#[test]
fn by_name() -> Result<(), Box<dyn Error>> {
    let printed = printed("by_name", &[])?;
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

/// A slow user misses lines but reads the newest. How many it misses depends on timing.
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
    // Fourteen lines were sent, one of them in the garden, where Sam is not.
    expected.extend(["Ada", "Bob"].map(|name| format!("--- {name} has read 14 lines; the last is \"1\".")));
    let (sam, others) = lines.split_last().ok_or("nothing is printed")?;
    assert_eq!(others, expected);
    let read = sam.strip_prefix("--- Sam has read ").and_then(|line| line.strip_suffix(" lines; the last is \"1\"."));
    assert!((1..13).contains(&read.ok_or(format!("Sam: {sam}"))?.parse::<u32>()?), "{sam}");
    Ok(())
}

#[test]
fn tcp_chat() -> Result<(), Box<dyn Error>> {
    let expected = [
        " ada | * ada joined lobby",
        " ada | * bob joined lobby",
        " bob | * bob joined lobby",
        " ada | ada: hello",
        " bob | ada: hello",
        " ada | * bob left",
        " ada | * sam joined lobby",
        " sam | * sam joined lobby",
        " ada | ada: the end",
        " sam | missed lines: true",
        " ada | * ada joined garden",
        " sam | * ada left",
        " ada | * the server closes, goodbye",
        " sam | * the server closes, goodbye",
        "clean shutdown: true",
    ];
    prints("tcp_chat", &expected)
}

#[test]
fn job_queue() -> Result<(), Box<dyn Error>> {
    let printed = printed("job_queue", &[])?;
    let lines: Vec<&str> = printed.lines().collect();
    // The reason's wording is the library's, so only parts of this line are checked.
    let poison = lines.get(9).copied().ok_or(format!("too short: {printed}"))?;
    for part in ["job 4 is dead: ", "panic: an address contains an @", "(attempts: 4)"] {
        assert!(poison.contains(part), "{poison}");
    }
    let expected = [
        "job 1, to ada@example.org: Accepted",
        "job 2, to grace@example.org: Accepted",
        "job 3, to heidi@example.org: Accepted",
        "job 4, to no address: Accepted",
        "job 5, to unknown@example.org: Accepted",
        "job 1, to ada@example.org: Known",
        "job 1 is done (attempts: 1)",
        "job 2 is done (attempts: 3)",
        "job 3 is done (attempts: 2)",
        poison,
        "job 5 is dead: no such mailbox (attempts: 1)",
        "mails sent: 3",
        "clean shutdown: true",
    ];
    assert_eq!(lines, expected);
    Ok(())
}

/// The last word of each response is the library's delivery state, if any.
#[test]
fn axum_service() -> Result<(), Box<dyn Error>> {
    let expected = [
        "GET /stock/tea: 200 OK 10",
        "POST /stock/tea/take/3: 200 OK 7",
        "POST /stock/tea/take/30: 409 Conflict only 7 left",
        "GET /stock/gold: 404 Not Found no such item",
        "GET /delivery: 504 Gateway Timeout possibly handled",
        "POST /stock/tea/take/0: 500 Internal Server Error possibly handled",
        "GET /stock/tea: 503 Service Unavailable not delivered",
        "POST /audits: 202 Accepted",
        "POST /audits: 429 Too Many Requests not delivered",
        "GET /stock/tea, repeated: 200 OK 10",
        "clean shutdown: true",
    ];
    prints("axum_service", &expected)
}

#[test]
fn crawler() -> Result<(), Box<dyn Error>> {
    let printed = printed("crawler", &[])?;
    let words: Vec<String> =
        printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "page depth attempts result",
        "ant.example/ 0 1 links: 5",
        "ant.example/1 1 1 links: 2",
        "ant.example/2 2 1 links: 3",
        "ant.example/3 3 1 links: 1",
        "ant.example/4 3 1 links: 0",
        "bee.example/ 1 1 links: 3",
        "bee.example/busy 2 3 links: 0",
        "bee.example/missing 2 1 not found",
        "cat.example/ 1 1 links: 4",
        "cat.example/1 2 1 links: 0",
        "cat.example/2 2 1 links: 0",
        "cat.example/3 2 1 links: 0",
        "cat.example/silent 2 3 no answer in time",
        "dog.example/ 1 1 links: 5",
        "dog.example/1 2 1 links: 0",
        "dog.example/2 2 1 links: 0",
        "dog.example/3 2 1 links: 0",
        "dog.example/4 2 1 links: 0",
        "dog.example/5 2 1 links: 0",
        "elk.example/ 1 1 links: 0",
        "beyond the limits: {\"ant.example/5\", \"ant.example/too-deep\"}",
        "most requests at a time: 4, shortest pause: 1.3s",
        "clean shutdown: true",
    ];
    assert_eq!(words, expected);
    Ok(())
}

#[test]
fn order_book() -> Result<(), Box<dyn Error>> {
    let expected = [
        "order 1: a Sell 10 Tea at 21",
        "  traded: 0",
        "order 2: b Sell 10 Tea at 20",
        "  traded: 0",
        "order 3: c Sell 10 Tea at 20",
        "  traded: 0",
        "order 4: d Buy 25 Tea at 21",
        "  order 4 buys 10 from order 2 at 20",
        "  order 4 buys 10 from order 3 at 20",
        "  order 4 buys 5 from order 1 at 21",
        "  traded: 25",
        "order 5: d Buy 5 Rum at 50",
        "  traded: 0",
        "order 6: e Sell 8 Rum at 45",
        "  order 5 buys 5 from order 6 at 50",
        "  traded: 5",
        "order 7: f Sell 200 Rum at 45",
        "  rejected: not enough Rum",
        "order 8: g Buy 5000 Tea at 1",
        "  rejected: the order is too large",
        "restarts of the risk check: 2, totals unchanged",
        "after random orders: totals unchanged",
        "clean shutdown: true",
    ];
    prints("order_book", &expected)
}

#[test]
fn game_loop() -> Result<(), Box<dyn Error>> {
    let printed = printed("game_loop", &["--virtual"])?;
    let expected = [
        "Eve is gone after step 90",
        "after step 240:",
        "  Ada at 74.61 m, 3.9 m/s",
        "  Bob at 62.25 m, 30.0 m/s",
        "Sam has drawn 25 of 80 snapshots, the last one of step 240",
        "clean shutdown: true",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    Ok(())
}
