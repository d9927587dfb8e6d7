//! Many clients that read and write one dictionary.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use ::actix::prelude::*;

use super::super::finish::finish;
use super::super::tally::{Report, Tally};
use super::super::{Begin, Peers, in_system, nobody, share};
use crate::kernel::{self, Requests};
use crate::plan::{Outcome, Plan};

#[derive(Message)]
#[rtype(result = "()")]
struct Know(Peers<Client>);

#[derive(Message)]
#[rtype(result = "()")]
struct Request {
    client: usize,
    request: kernel::Request,
}

/// The answer to a request: the current value, or the one before the write.
#[derive(Message)]
#[rtype(result = "()")]
struct Answer(Option<u64>);

struct Dictionary {
    values: HashMap<u64, u64>,
    clients: Peers<Client>,
}

impl Actor for Dictionary {
    type Context = Context<Self>;
}

impl Handler<Know> for Dictionary {
    type Result = ();

    fn handle(&mut self, Know(clients): Know, _: &mut Context<Self>) {
        self.clients = clients;
    }
}

impl Handler<Request> for Dictionary {
    type Result = ();

    fn handle(&mut self, Request { client, request }: Request, _: &mut Context<Self>) {
        let value = match request {
            kernel::Request::Read { key } => self.values.get(&key).copied(),
            kernel::Request::Write { key, value } => self.values.insert(key, value),
        };
        self.clients[client].do_send(Answer(value));
    }
}

struct Client {
    index: usize,
    requests: Requests,
    answers: u64,
    dictionary: Addr<Dictionary>,
    tally: Addr<Tally>,
}

impl Actor for Client {
    type Context = Context<Self>;
}

impl Client {
    fn request(&mut self) {
        match self.requests.next() {
            Some(request) => self.dictionary.do_send(Request { client: self.index, request }),
            None => self.tally.do_send(Report(self.answers)),
        }
    }
}

impl Handler<Begin> for Client {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        self.request();
    }
}

impl Handler<Answer> for Client {
    type Result = ();

    fn handle(&mut self, Answer(value): Answer, _: &mut Context<Self>) {
        std::hint::black_box(value);
        self.answers += 1;
        self.request();
    }
}

/// Runs all actors on one arbiter. An answer from another arbiter would cost more than a second thread gains.
pub fn dictionary(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |_| {
        let (finish, finished) = finish();
        let tally = Tally::of(plan.width, finish).start();
        let dictionary = Dictionary { values: HashMap::new(), clients: nobody() }.start();
        let clients: Peers<Client> = (0..plan.width)
            .map(|index| {
                let client = Client {
                    index: index as usize,
                    requests: Requests::new(index, share(plan.size, plan.width, index)),
                    answers: 0,
                    dictionary: dictionary.clone(),
                    tally: tally.clone(),
                };
                client.start()
            })
            .collect();
        dictionary.do_send(Know(Arc::clone(&clients)));
        let start = Instant::now();
        for client in clients.iter() {
            client.do_send(Begin);
        }
        finished.outcome(start, plan.size).await
    })
}
