//! The sequential specification of a name of the cluster, with which histories are compared.

use postroom::Pid;
use postroom_cluster::names::Token;
use stateright::semantics::SequentialSpec;
use std::sync::{Arc, OnceLock};

/// A name: its holder, and the greatest token so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name {
    /// The token is unknown if the answer to the registration was lost.
    holder: Option<(Pid, Option<Token>)>,
    last: Option<Token>,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A registration, with the holders that may have lost the name by the end of the history. It needs them because it
    /// is not known when a registration without an answer takes effect.
    Register(Pid, Arc<OnceLock<PerhapsFree>>),
    Release(Pid),
}

/// Holders that may have lost the name on their own: they have released it or ended, or their nodes have left or met
/// a fault. A token is unknown if the answer to the registration was lost.
pub(crate) type PerhapsFree = Vec<(Pid, Option<Token>)>;

/// The result of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// The holders that may have lost the name by the time of the answer.
    pub(crate) perhaps_free: PerhapsFree,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Token(Token),
    Taken(Pid),
    /// Whether the process had the name.
    Released(bool),
    /// An error that guarantees that nothing was done.
    Nothing,
}

impl Name {
    fn is_held_by(&self, pid: Pid) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == pid)
    }

    fn may_be_free(&self, perhaps_free: &[(Pid, Option<Token>)]) -> bool {
        self.holder.is_none_or(|(holder, known)| {
            let is_it = |(pid, token): &(Pid, Option<Token>)| {
                *pid == holder && (token.is_none() || known.is_none() || *token == known)
            };
            perhaps_free.iter().any(is_it)
        })
    }
}

impl SequentialSpec for Name {
    type Op = Act;
    type Ret = Answer;

    /// Applies an operation that never returns: it takes effect with an unknown result.
    fn invoke(&mut self, act: &Act) -> Answer {
        if let Act::Register(pid, at_end) = act
            && self.may_be_free(at_end.get().map_or(&[], Vec::as_slice))
        {
            self.holder = Some((*pid, None));
        }
        Answer { outcome: Outcome::Nothing, perhaps_free: Vec::new() }
    }

    fn is_valid_step(&mut self, act: &Act, answer: &Answer) -> bool {
        let Answer { outcome, perhaps_free } = answer;
        match (act, outcome) {
            (_, Outcome::Nothing) => true,
            (Act::Register(pid, _), Outcome::Token(token)) => {
                if self.holder == Some((*pid, Some(*token))) {
                    // A repeated registration returns the existing token.
                    return true;
                }
                let is_free = self.may_be_free(perhaps_free) || self.holder == Some((*pid, None));
                let is_greater = self.last.is_none_or(|last| last < *token);
                (self.holder, self.last) = (Some((*pid, Some(*token))), Some(*token));
                is_free && is_greater
            }
            (Act::Register(..), Outcome::Taken(holder)) => self.is_held_by(*holder),
            (Act::Release(pid), Outcome::Released(true)) => self.is_held_by(*pid),
            (Act::Release(pid), Outcome::Released(false)) => !self.is_held_by(*pid) || self.may_be_free(perhaps_free),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

    /// Checks this history: one process has the name and ends, the answer to the registration of a second one is
    /// lost, and a third one learns who has the name.
    fn taken_over(is_free_at_end: bool) -> bool {
        let [first, second, third]: [Pid; 3] = ["<1.0.1.1>", "<1.0.2.1>", "<1.0.3.1>"].map(|pid| pid.parse().unwrap());
        let (at_end, token) = (Arc::new(OnceLock::new()), Token(1));
        let register = |pid| Act::Register(pid, Arc::clone(&at_end));
        let answer = |outcome, perhaps_free| Answer { outcome, perhaps_free };
        let mut tester = LinearizabilityTester::new(Name::default());
        tester.on_invoke(1, register(first)).unwrap();
        tester.on_return(1, answer(Outcome::Token(token), Vec::new())).unwrap();
        tester.on_invoke(2, register(second)).unwrap();
        tester.on_invoke(3, register(third)).unwrap();
        let perhaps_free = if is_free_at_end { vec![(first, Some(token))] } else { Vec::new() };
        tester.on_return(3, answer(Outcome::Taken(second), perhaps_free.clone())).unwrap();
        at_end.set(perhaps_free).unwrap();
        tester.is_consistent()
    }

    /// Catches: a correct history that is rejected, and one that is accepted although the first holder never lost the
    /// name.
    #[test]
    fn a_registration_without_an_answer_takes_what_may_be_free_and_nothing_else() {
        assert!(taken_over(true));
        assert!(!taken_over(false));
    }
}
