//! What a name of the cluster is, in sequence: the specification that histories are compared with.

use postroom::Pid;
use postroom_cluster::names::Token;
use stateright::semantics::SequentialSpec;

/// A name: who holds it, and the greatest token that was given out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name {
    /// The token is unknown if the answer to the registration was lost.
    holder: Option<(Pid, Option<Token>)>,
    last: Option<Token>,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Register(Pid),
    Release(Pid),
}

/// What came of an act.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Which holders may have lost the name by themselves before the answer came: they have given it up or ended, or
    /// their nodes have left or met a fault. A token is unknown if the answer to the registration was lost.
    pub(crate) perhaps_free: Vec<(Pid, Option<Token>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Token(Token),
    Taken(Pid),
    /// Whether it had the name.
    Released(bool),
    /// An error that says that nothing was done.
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

    /// Of what never returns: it has happened, with an unknown result.
    fn invoke(&mut self, act: &Act) -> Answer {
        if let (Act::Register(pid), None) = (act, self.holder) {
            self.holder = Some((*pid, None));
        }
        Answer { outcome: Outcome::Nothing, perhaps_free: Vec::new() }
    }

    fn is_valid_step(&mut self, act: &Act, answer: &Answer) -> bool {
        let Answer { outcome, perhaps_free } = answer;
        match (act, outcome) {
            (_, Outcome::Nothing) => true,
            (Act::Register(pid), Outcome::Token(token)) => {
                if self.holder == Some((*pid, Some(*token))) {
                    // Registered again: it finds what it has.
                    return true;
                }
                let is_free = self.may_be_free(perhaps_free) || self.holder == Some((*pid, None));
                let is_greater = self.last.is_none_or(|last| last < *token);
                (self.holder, self.last) = (Some((*pid, Some(*token))), Some(*token));
                is_free && is_greater
            }
            (Act::Register(_), Outcome::Taken(holder)) => self.is_held_by(*holder),
            (Act::Release(pid), Outcome::Released(true)) => self.is_held_by(*pid),
            (Act::Release(pid), Outcome::Released(false)) => !self.is_held_by(*pid) || self.may_be_free(perhaps_free),
            _ => false,
        }
    }
}
