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
    /// The holder has given the name up, has ended, or is of a node that leaves or has met a fault. The name is free at
    /// some time after this, or never: it has no return.
    Free(Pid, Option<Token>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Token(Token),
    Taken(Pid),
    /// Whether it had the name.
    Released(bool),
    /// An error that says that nothing was done.
    Nothing,
}

impl SequentialSpec for Name {
    type Op = Act;
    type Ret = Answer;

    /// Of what never returns: it has happened, with an unknown result.
    fn invoke(&mut self, act: &Act) -> Answer {
        match (act, self.holder) {
            (Act::Register(pid), None) => self.holder = Some((*pid, None)),
            (Act::Free(pid, token), Some((holder, known))) => {
                if *pid == holder && (token.is_none() || known.is_none() || *token == known) {
                    self.holder = None;
                }
            }
            _ => {}
        }
        Answer::Nothing
    }

    fn is_valid_step(&mut self, act: &Act, answer: &Answer) -> bool {
        match (act, answer) {
            (_, Answer::Nothing) => true,
            (Act::Register(pid), Answer::Token(token)) => {
                if self.holder == Some((*pid, Some(*token))) {
                    // Registered again: it finds what it has.
                    return true;
                }
                let is_free = self.holder.is_none_or(|(holder, known)| holder == *pid && known.is_none());
                let is_greater = self.last.is_none_or(|last| last < *token);
                (self.holder, self.last) = (Some((*pid, Some(*token))), Some(*token));
                is_free && is_greater
            }
            (Act::Register(_), Answer::Taken(holder)) => self.holder.is_some_and(|(pid, _)| pid == *holder),
            (Act::Release(pid), Answer::Released(had)) => self.holder.is_some_and(|(holder, _)| holder == *pid) == *had,
            _ => false,
        }
    }
}
