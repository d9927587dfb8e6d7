//! Two processes that know each other only by PID play ping-pong.
//!
//! ```text
//! cargo run --example ping_pong
//! ```
//!
//! A PID is a plain value: 16 bytes, `Copy`, printable. Any message can be sent to any PID; a message that the process
//! does not handle becomes a dead letter.

use std::error::Error;

use postroom::Host;
use postroom::prelude::*;

#[process]
struct Player {
    host: Host,
    sound: &'static str,
}

#[process]
impl Player {
    #[entry]
    fn serve(&mut self) {}

    /// Plays the ball back until it has crossed the net `left` more times.
    #[message]
    fn ball(&mut self, ctx: &mut Context<Self>, from: Pid, left: u32) -> Result<(), SendError<PlayerBall>> {
        println!("{}", self.sound);
        if left == 0 {
            from.stop();
            ctx.stop();
            return Ok(());
        }
        self.host.send(from, PlayerBall { from: ctx.pid(), left: left - 1 })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let host = runtime.host();
    let ping = runtime.spawn(Player { host, sound: "ping" }).serve()?.pid();
    let pong = runtime.spawn(Player { host, sound: "pong" }).serve()?.pid();
    let ends = (ping.join(), pong.join());
    runtime.send(ping, PlayerBall { from: pong, left: 5 })?;
    println!("ping ended: {}, pong ended: {}", ends.0.wait(), ends.1.wait());
    Ok(())
}
