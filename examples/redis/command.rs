//! The commands.

use crate::batch::Operation;
use crate::resp::{Words, number};

#[derive(Debug)]
pub enum Command<'a> {
    /// An operation on one key.
    Key(&'a [u8], Operation),
    GetMany(Words<'a>),
    Delete(Words<'a>),
    Exists(Words<'a>),
    Publish(&'a [u8], &'a [u8]),
    Subscribe(Words<'a>),
    /// Unsubscribes from all channels if it names none.
    Unsubscribe(Words<'a>),
    Ping(Option<&'a [u8]>),
    Quit,
}

/// The error reply to a command. The connection stays usable.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    #[error("unknown command '{name}', with args beginning with: {arguments}")]
    Unknown { name: String, arguments: String },
    #[error("wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    #[error("value is not an integer or out of range")]
    NotANumber,
    #[error("syntax error")]
    Syntax,
}

impl<'a> Command<'a> {
    pub fn of(request: Words<'a>) -> Result<Self, CommandError> {
        let (name, words) = request.split_first().ok_or(CommandError::Syntax)?;
        let is = |command: &str| name.eq_ignore_ascii_case(command.as_bytes());
        let one = |command| words.exactly().map(|[word]: [_; 1]| word).ok_or(CommandError::Arity(command));
        let two = |command| words.exactly::<2>().ok_or(CommandError::Arity(command));
        let some = |command| if words.len() > 0 { Ok(words) } else { Err(CommandError::Arity(command)) };
        Ok(match name {
            _ if is("get") => Self::Key(one("get")?, Operation::Get),
            _ if is("set") => match words.exactly() {
                Some([key, value]) => Self::Key(key, Operation::Set(value.into())),
                None if words.len() > 2 => return Err(CommandError::Syntax),
                None => return Err(CommandError::Arity("set")),
            },
            _ if is("incr") => Self::Key(one("incr")?, Operation::Increment),
            _ if is("mget") => Self::GetMany(some("mget")?),
            _ if is("del") => Self::Delete(some("del")?),
            _ if is("exists") => Self::Exists(some("exists")?),
            _ if is("expire") => {
                let [key, seconds] = two("expire")?;
                let seconds = number(seconds).ok_or(CommandError::NotANumber)?;
                Self::Key(key, Operation::Expire(seconds))
            }
            _ if is("ttl") => Self::Key(one("ttl")?, Operation::TimeToLive),
            _ if is("publish") => {
                let [channel, text] = two("publish")?;
                Self::Publish(channel, text)
            }
            _ if is("subscribe") => Self::Subscribe(some("subscribe")?),
            _ if is("unsubscribe") => Self::Unsubscribe(words),
            _ if is("ping") => match words.len() {
                0 => Self::Ping(None),
                _ => Self::Ping(Some(one("ping")?)),
            },
            _ if is("quit") => Self::Quit,
            _ => return Err(CommandError::unknown(name, words)),
        })
    }

    /// Returns whether a subscribed client may use the command.
    pub fn is_for_subscribers(&self) -> bool {
        matches!(self, Self::Ping(_) | Self::Subscribe(_) | Self::Unsubscribe(_) | Self::Quit)
    }
}

impl CommandError {
    /// Quotes the request up to the same length as Redis.
    fn unknown(name: &[u8], words: Words<'_>) -> Self {
        let quoted = |word: &[u8], most: usize| word[..word.len().min(most)].escape_ascii().to_string();
        let mut arguments = String::new();
        for word in words.iter() {
            if arguments.len() >= 128 {
                break;
            }
            arguments += &format!("'{}' ", quoted(word, 128 - arguments.len()));
        }
        Self::Unknown { name: quoted(name, 128), arguments }
    }
}
