//! Many clients of one dictionary.

use crate::kernel::{Request, Requests};
use crate::plan::{Outcome, Plan};
use crate::share;
use postroom::prelude::*;
use std::collections::HashMap;
use std::time::Instant;

#[process]
struct Dictionary {
    values: HashMap<u64, u64>,
}

#[process]
impl Dictionary {
    #[entry]
    fn serve(&mut self) {}

    /// Returns the previous value.
    #[message]
    fn write(&mut self, key: u64, value: u64) -> Option<u64> {
        self.values.insert(key, value)
    }

    #[message]
    fn read(&self, key: u64) -> Option<u64> {
        self.values.get(&key).copied()
    }
}

#[process]
struct Client {
    dictionary: Address<Dictionary>,
}

#[process]
impl Client {
    /// Returns the number of answers.
    #[entry]
    async fn ask(&mut self, requests: Requests) -> Result<u64, CallError> {
        let mut answers = 0;
        for request in requests {
            match request {
                Request::Read { key } => self.dictionary.read(key).await?,
                Request::Write { key, value } => self.dictionary.write(key, value).await?,
            };
            answers += 1;
        }
        Ok(answers)
    }
}

pub fn dictionary(runtime: &Runtime, plan: &Plan) -> Outcome {
    let dictionary = runtime.spawn(Dictionary { values: HashMap::new() }).serve().expect("a dictionary");
    let start = Instant::now();
    let clients: Vec<_> = (0..plan.width)
        .map(|index| {
            let requests = Requests::new(index, share(plan.size, plan.width, index));
            runtime.spawn(Client { dictionary }).ask(requests).expect("a client")
        })
        .collect();
    let answers = clients.into_iter().map(|client| client.wait().expect("all answers"));
    let check = answers.sum();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}
