//! A chat: rooms are groups, users are processes.
//!
//! ```text
//! cargo run --example chat
//! ```
//!
//! A line in a room goes to all users in it, and never waits for a slow one. Sam reads slowly: he misses the lines for
//! which his mailbox has no room, and delays no one. Eve's process crashes while it handles a line: it leaves the room,
//! and the other users are not affected.

use std::error::Error;
use std::panic;
use std::time::Duration;

use postroom::error::GroupError;
use postroom::prelude::*;
use postroom::{Bound, Overflow};

/// A line, as it is sent to each user in a room.
#[derive(Clone)]
struct Said {
    room: &'static str,
    by: &'static str,
    line: String,
}

#[process]
struct User {
    name: &'static str,
    /// The time that reading a line takes.
    pace: Duration,
    read: Vec<String>,
}

#[process]
impl User {
    #[entry]
    fn join(&mut self, ctx: &mut Context<Self>, rooms: Vec<&'static str>) -> Result<(), GroupError> {
        for room in rooms {
            ctx.group(room).join(ctx.pid())?;
        }
        Ok(())
    }

    /// Returns the number of users that the line went to, including this one.
    #[message]
    fn say(&mut self, ctx: &mut Context<Self>, room: &'static str, line: String) -> usize {
        ctx.group(room).broadcast(Said { room, by: self.name, line })
    }

    #[message(Said)]
    async fn hear(&mut self, ctx: &mut Context<Self>, said: Said) {
        let Said { room, by, line } = said;
        match self.name {
            // The printed output shows Ada's view.
            "Ada" => println!("[{room}] {by}: {line}"),
            "Eve" if !line.is_ascii() => panic!("cannot show `{line}`"),
            _ => {}
        }
        ctx.sleep(self.pace).await;
        self.read.push(line);
    }

    /// Returns the lines read so far. Like any message, it is handled after earlier ones.
    #[message]
    fn read(&mut self) -> Vec<String> {
        self.read.clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The exit of Eve's process is printed below. Without this hook, its panic would also be reported on standard
    // error.
    panic::set_hook(Box::new(|_| {}));

    let runtime = Runtime::new()?;
    let user = |name, pace| runtime.spawn(User { name, pace, read: Vec::new() });
    let ada = user("Ada", Duration::ZERO).join(vec!["kitchen", "garden"])?;
    let bob = user("Bob", Duration::ZERO).join(vec!["kitchen", "garden"])?;
    let eve = user("Eve", Duration::ZERO).join(vec!["kitchen"])?;
    // At most three lines wait for Sam: the newest ones.
    let newest = Bound::Hard(3, Overflow::DropOldest);
    let sam = user("Sam", Duration::from_millis(200)).mailbox(newest).join(vec!["kitchen"])?;

    let say = |user: Address<User>, room, line: &str| user.say(room, line.to_string()).wait();
    say(ada, "kitchen", "who is hungry?")?;
    say(bob, "garden", "the two of us")?;
    say(eve, "kitchen", "me!")?;

    let eves_end = eve.pid().join();
    let reached = say(bob, "kitchen", "see you in the café")?;
    ada.read().wait()?; // waits until she has printed what she has read
    println!("--- Bob has reached {reached} users. Eve: {}", eves_end.wait());

    let reached = say(ada, "kitchen", "whoever is there first counts down")?;
    (1..10).rev().try_for_each(|number| say(bob, "kitchen", &number.to_string()).map(|_| ()))?;
    ada.read().wait()?;
    println!("--- Ada has reached {reached} users.");

    for (name, user) in [("Ada", ada), ("Bob", bob), ("Sam", sam)] {
        let read = user.read().wait()?;
        println!("--- {name} has read {} lines; the last is {:?}.", read.len(), read[read.len() - 1]);
    }
    Ok(())
}
