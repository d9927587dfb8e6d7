//! The registration of cluster names for the processes of a node. The head of [`names`](crate::names) describes the
//! protocol.

use super::Driver;
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::names::{NameRequest, Registered};
use crate::node::inbox::Input;
use crate::node::view::Outage;
use crate::store::{Bucket, Entry, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Driver {
    pub(super) fn advance_names(&mut self, now: Moment) {
        self.sweep(now);
        let (mut requests, mut answers, mut lost) = (Vec::new(), Vec::new(), BTreeSet::new());
        {
            let mut names = self.setup.view.names();
            names.handle_timeout(now);
            requests.extend(std::iter::from_fn(|| names.poll_request()));
            answers.extend(std::iter::from_fn(|| names.poll_registered()));
            lost.extend(std::iter::from_fn(|| names.poll_lost()));
        }
        let fence = self.fence(now);
        let why = "its name is gone from the store, and may pass to others";
        self.condemn(lost, why, fence, fence + self.setup.timing.grace);
        for request in requests {
            self.ask_of_name(request);
        }
        for Registered { number, result, holder } in answers {
            if let Some(then) = self.registering.remove(&number) {
                then.complete(match (result, holder) {
                    (Err(error), Some(holder)) => Err(self.taken(now, error, holder)),
                    (result, _) => result,
                });
            }
        }
    }

    /// Answers the remaining registrations when the node ends.
    pub(super) fn give_registrations_up(&mut self) {
        let mut names = self.setup.view.names();
        names.give_up();
        let answers: Vec<_> = std::iter::from_fn(|| names.poll_registered()).collect();
        drop(names);
        for Registered { number, result, .. } in answers {
            if let Some(then) = self.registering.remove(&number) {
                then.complete(result);
            }
        }
    }

    /// Performs an access to the entry of a name. If the access finds or writes an entry, this node's record is read
    /// afterwards: only a store that has the record confirms the answer.
    fn ask_of_name(&self, NameRequest { number, key, access }: NameRequest) {
        // Weak, since the engine owns the request until it is answered. Without the engine there is no driver either.
        let (inbox, engine) = (Arc::clone(&self.setup.inbox), Arc::downgrade(&self.setup.engine));
        let (own, is_deletion) = (self.own.to_string(), matches!(access, Access::Delete(_)));
        let membership = self.attempt.as_ref().and_then(|attempt| Some((attempt.number, attempt.epoch?)));
        let answered = move |answer: Answer| {
            let has_found = matches!(answer, Answer::Written(Ok(_)) | Answer::Read(Ok(Some(_))));
            let Some((attempt, epoch)) = membership.filter(|_| has_found && !is_deletion) else {
                return inbox.push(Input::Named { number, answer, unconfirmed: None });
            };
            let confirmed = move |record: Result<Option<Entry>, StoreError>| {
                let (answer, unconfirmed) = match (record, answer) {
                    (Ok(Some(record)), answer) if record.revision == epoch => (answer, None),
                    (Ok(_), answer) => (answer, Some(attempt)),
                    // As if there had been no answer: the read is repeated, or the failure is reported.
                    (Err(_), Answer::Written(_)) => (Answer::Written(Err(StoreError::Unknown)), None),
                    (Err(_), Answer::Read(_)) => (Answer::Read(Err(StoreError::Unavailable)), None),
                };
                inbox.push(Input::Named { number, answer, unconfirmed });
            };
            if let Some(engine) = engine.upgrade() {
                engine.get(Bucket::Nodes, &own, Box::new(confirmed));
            }
        };
        access.perform(&*self.setup.engine, Bucket::Names, &key, answered);
    }

    /// Handles the answer to an access to the entry of a name. If `unconfirmed` names an attempt to join, the store
    /// does not have the record of that attempt.
    pub(super) fn name_answered(&mut self, now: Moment, number: u64, answer: Answer, unconfirmed: Option<u64>) {
        if unconfirmed.is_some() && unconfirmed == self.attempt.as_ref().map(|attempt| attempt.number) {
            // The membership ends first, so that the answer is handled as that of a node that is not a member.
            self.store_is_another(now, Outage::Evicted);
        }
        self.setup.view.names().handle(now, number, answer);
    }
}
