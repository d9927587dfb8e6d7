//! Differences of two builds about a message, as the errors of sends and calls hold them: without owning them.

use super::Codecs;
use super::error::CodecError;
use postroom::Pid;
use postroom::error::{SendFailure, Skew};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// How many differences are kept: what hash a message has elsewhere is for a peer to say.
const MAX_SKEWS: usize = 1_024;

impl Codecs {
    /// Returns why a message to `to` was refused that could not be encoded.
    pub(crate) fn failure(&self, error: &CodecError, to: Pid) -> SendFailure {
        let (name, there) = match error {
            CodecError::Unknown { name, here: false } => (name, None),
            CodecError::Incompatible { name, there, .. } => (name, Some(*there)),
            _ => return SendFailure::NotRemote(to),
        };
        let forms = &self.0.forms;
        let Ok(at) = forms.binary_search_by(|form| form.name.cmp(name)) else { return SendFailure::NotRemote(to) };
        let skew = Skew { message: forms[at].name, here: forms[at].hash, there };
        kept(skew).map_or(SendFailure::NotRemote(to), SendFailure::OtherBuild)
    }
}

/// Returns the difference for the rest of the program's life; `None` if there are too many.
fn kept(skew: Skew) -> Option<&'static Skew> {
    static SKEWS: Mutex<Option<HashSet<&'static Skew>>> = Mutex::new(None);
    let mut skews = SKEWS.lock().unwrap_or_else(PoisonError::into_inner);
    let skews = skews.get_or_insert_default();
    if let Some(kept) = skews.get(&skew) {
        return Some(kept);
    }
    if skews.len() == MAX_SKEWS {
        return None;
    }
    let skew: &'static Skew = Box::leak(Box::new(skew));
    skews.insert(skew);
    Some(skew)
}
