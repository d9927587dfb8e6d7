//! A custom command: its request, the handler that performs it, and the completion that answers.
//!
//! ```text
//! cargo run --example custom_command
//! ```
//!
//! With a command, a process reaches the outside world without blocking a worker: the handler may answer at once, or
//! keep the completion and answer later, from any thread.

use std::error::Error;
use std::thread;

use postroom::prelude::*;
use postroom::{Command, CommandError, Completion};

/// A request for the sum of the squares below `limit`.
struct SumOfSquares {
    limit: u64,
}

impl Command for SumOfSquares {
    type Output = u64;
}

/// Performs the command on a thread of its own, and always answers.
fn sum_of_squares(command: SumOfSquares, completion: Completion<u64>) {
    thread::spawn(move || match (0..command.limit).try_fold(0u64, |sum, n| sum.checked_add(n.checked_mul(n)?)) {
        Some(sum) => completion.complete(sum),
        None => completion.fail("the sum is too large for 64 bits"),
    });
}

#[process]
struct Mathematician;

#[process]
impl Mathematician {
    #[entry]
    async fn ask(&mut self, ctx: &mut Context<Self>, limit: u64) -> Result<u64, CommandError> {
        ctx.perform(SumOfSquares { limit }).await
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().handler(sum_of_squares).build()?;
    for limit in [10, 1_000_000, 100_000_000] {
        match runtime.spawn(Mathematician).ask(limit)?.wait() {
            Ok(sum) => println!("below {limit}: {sum}"),
            Err(error) => println!("below {limit}: {error}"),
        }
    }
    Ok(())
}
