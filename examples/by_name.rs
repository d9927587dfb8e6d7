//! Starting processes by name: type and entry as text, inputs as values or as JSON, and errors that list the available
//! names.
//!
//! ```text
//! cargo run --example by_name
//! ```

use std::error::Error;

use postroom::prelude::*;

#[process]
#[derive(Default)]
struct Greeter {
    greeting: String,
    times: u8,
}

#[process]
impl Greeter {
    #[entry]
    fn serve(&mut self, greeting: String, times: u8) {
        (self.greeting, self.times) = (greeting, times);
    }

    #[message]
    fn greet(&self, whom: String) -> String {
        format!("{} {whom}!", vec![self.greeting.as_str(); self.times.into()].join(" "))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    runtime.register_type::<Greeter>();

    // Integers are converted if the value fits: the 2 is an `i32` here, and a `u8` in the process.
    let pid = runtime.start("Greeter", "serve", payloads!["Hello", 2])?;
    let greeter = runtime.address::<Greeter>(pid)?;
    println!("{}", greeter.greet("Ada".to_string()).wait()?);

    let pid = runtime.start_json("Greeter", "serve", r#"["Bonjour", 1]"#)?;
    let greeter = runtime.address::<Greeter>(pid)?;
    println!("{}", greeter.greet("Grace".to_string()).wait()?);

    // Every mistake is found before any code of the process runs.
    let mistakes = [
        runtime.start("Greeting", "serve", payloads!["Hello", 2]),
        runtime.start("Greeter", "server", payloads!["Hello", 2]),
        runtime.start("Greeter", "serve", payloads!["Hello"]),
        runtime.start("Greeter", "serve", payloads!["Hello", 300]),
        runtime.start_json("Greeter", "serve", r#"{"greeting": "Hello"}"#),
    ];
    for mistake in mistakes {
        match mistake {
            Ok(pid) => println!("started {pid}"),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
