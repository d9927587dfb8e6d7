//! Many clients that read and write one dictionary.

use std::collections::HashMap;
use std::time::Instant;

use ::ractor::{Actor, ActorProcessingErr, ActorRef};

use super::super::finish::finish;
use super::super::tally::{Report, Tally, TallyState};
use super::super::{Peers, nobody, send, share, start};
use crate::kernel::{Request, Requests};
use crate::plan::{Outcome, Plan};

struct Dictionary;

enum Query {
    Know(Peers<Say>),
    Request { client: usize, request: Request },
}

struct DictionaryState {
    values: HashMap<u64, u64>,
    clients: Peers<Say>,
}

impl Actor for Dictionary {
    type Msg = Query;
    type State = DictionaryState;
    type Arguments = DictionaryState;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Query>,
        query: Query,
        state: &mut DictionaryState,
    ) -> Result<(), ActorProcessingErr> {
        match query {
            Query::Know(clients) => state.clients = clients,
            Query::Request { client, request } => {
                let value = match request {
                    Request::Read { key } => state.values.get(&key).copied(),
                    Request::Write { key, value } => state.values.insert(key, value),
                };
                send(&state.clients[client], Say::Answer(value));
            }
        }
        Ok(())
    }
}

struct Client;

enum Say {
    Begin,
    /// The answer to a request: the current value, or the one before the write.
    Answer(Option<u64>),
}

struct ClientState {
    index: usize,
    requests: Requests,
    answers: u64,
    dictionary: ActorRef<Query>,
    tally: ActorRef<Report>,
}

impl ClientState {
    fn request(&mut self) {
        match self.requests.next() {
            Some(request) => send(&self.dictionary, Query::Request { client: self.index, request }),
            None => send(&self.tally, Report(self.answers)),
        }
    }
}

impl Actor for Client {
    type Msg = Say;
    type State = ClientState;
    type Arguments = ClientState;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Say>, say: Say, state: &mut ClientState) -> Result<(), ActorProcessingErr> {
        if let Say::Answer(value) = say {
            std::hint::black_box(value);
            state.answers += 1;
        }
        state.request();
        Ok(())
    }
}

pub async fn dictionary(plan: &Plan) -> Outcome {
    let (finish, finished) = finish();
    let tally = start(Tally, TallyState::of(plan.width, finish)).await;
    let dictionary = DictionaryState { values: HashMap::new(), clients: nobody() };
    let dictionary = start(Dictionary, dictionary).await;
    let mut clients = Vec::new();
    for index in 0..plan.width {
        let client = ClientState {
            index: index as usize,
            requests: Requests::new(index, share(plan.size, plan.width, index)),
            answers: 0,
            dictionary: dictionary.clone(),
            tally: tally.clone(),
        };
        clients.push(start(Client, client).await);
    }
    let clients = Peers::from(clients);
    send(&dictionary, Query::Know(clients.clone()));
    let start = Instant::now();
    for client in clients.iter() {
        send(client, Say::Begin);
    }
    finished.outcome(start, plan.size).await
}
