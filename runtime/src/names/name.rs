//! Valid names: of processes, groups and topics.

use crate::errors::BadName;
use std::{fmt, sync::Arc};

/// Maximum length of a name, in bytes. It bounds the cost of untrusted text. The value is a guess that leaves room for
/// a path or a URL.
pub(crate) const LONGEST: usize = 1024;

/// A name: text of 1 to [`LONGEST`] bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<str>);

impl Name {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
        let text = text.into();
        match text.len() {
            0 => Err(BadName::Empty),
            bytes if bytes > LONGEST => Err(BadName::TooLong { bytes, longest: LONGEST }),
            _ => Ok(Self(text)),
        }
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0
    }
}

/// Lets a map keyed by names be searched with a `str`.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_byte_to_a_thousand_and_twenty_four() {
        assert_eq!(Name::new(""), Err(BadName::Empty));
        for text in ["x".repeat(LONGEST), "x".to_string(), "ä\0".to_string()] {
            assert_eq!(Name::new(text.clone()).map(|name| name.text().to_string()), Ok(text));
        }
        let bytes = LONGEST + 1;
        assert_eq!(Name::new("x".repeat(bytes)), Err(BadName::TooLong { bytes, longest: LONGEST }));
    }
}
