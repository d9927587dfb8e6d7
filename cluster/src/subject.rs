//! The form of subjects, patterns and keys of the store, and how they identify a node.
//!
//! # The sender is part of the subject
//! ```text
//!  pr1.<cluster>.n.<name>.<id>.<lane>.<name>.<id>     a frame: its receiver, lane and sender
//!  pr1.<cluster>.p.<name>.<token>.<name>              the answer to a probe: its receiver and sender
//!  pr1.<cluster>.i.<name>.<token>                     an answer of the broker itself
//!  $KV.<cluster>_nodes.<name>.<id>.<name>             a record, and its writer
//!  $KV.<cluster>_leases.<name>.<id>                   a lease
//! ```
//! A node's **name** is what the broker can vouch for: the operators of the cluster set it, and the node's key is bound
//! to it. Its **ID** is drawn anew by each run, so no permission can contain it. The record binds the two together: its
//! key has both, and only the node of that name may write it. The sender ID in the subject of a frame is believed only
//! if the sender name in the subject is the one that the record of this ID has.

use crate::engine::Lane;
use postroom::NodeId;
use std::fmt;

/// The maximum length of a subject, a pattern or a key, in bytes.
const LONGEST: usize = 256;

/// The maximum length of a node's or a cluster's name. Two node names and one cluster name must fit into a subject.
pub const LONGEST_NAME: usize = 64;

/// Returns whether `text` can be the name of a node or of a cluster. Names are parts of subjects.
pub fn is_name(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(is_legal)
}

/// The identity of a node: the name that the broker vouches for, and the ID of this run of its program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The name of the node.
    pub name: String,
    /// The ID of this run.
    pub id: NodeId,
}

impl Identity {
    /// Parses `<name>.<id>`, exactly as written by [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let (name, id) = text.split_once('.')?;
        Self::of_parts(name, id)
    }

    fn of_parts(name: &str, id: &str) -> Option<Self> {
        let node = u64::from_str_radix(id, 16).ok().and_then(NodeId::new)?;
        (is_name(name) && node.to_string() == id).then(|| Self { name: name.into(), id: node })
    }
}

/// Writes `<name>.<id>`: the key of the node's record and of its lease.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.name, self.id)
    }
}

/// The subjects of one cluster.
#[derive(Clone, Debug)]
pub struct Subjects {
    cluster: String,
}

impl Subjects {
    /// Returns the subjects of the cluster of this name.
    pub fn of(cluster: impl Into<String>) -> Self {
        Self { cluster: cluster.into() }
    }

    /// Returns the subject on which `from` sends to `to`.
    pub fn frame(&self, to: &Identity, lane: Lane, from: &Identity) -> String {
        format!("pr1.{}.n.{to}.{}.{from}", self.cluster, letter(lane))
    }

    /// Returns the pattern of the subjects on which others send to `to`.
    pub fn frames_to(&self, to: &Identity, lane: Lane) -> String {
        format!("pr1.{}.n.{to}.{}.*.*", self.cluster, letter(lane))
    }

    /// Returns the prefix of the inboxes of the node with this name. Only that node may subscribe to subjects with this
    /// prefix.
    pub fn inbox(&self, name: &str) -> String {
        format!("pr1.{}.i.{name}", self.cluster)
    }

    /// Returns the subject on which the node `from` answers a probe that the node `to` has sent.
    pub fn probe_answer(&self, to: &str, token: &str, from: &str) -> String {
        format!("pr1.{}.p.{to}.{token}.{from}", self.cluster)
    }

    /// Returns whether a probe on `subject` may be answered on `reply`: `reply` must be a subject from this node to the
    /// node that sent the probe. Without this check, other nodes could make this one publish on any subject that it has
    /// permission for.
    pub fn is_probe_answer(&self, subject: &str, reply: &str, own: &str) -> bool {
        let asks = self.parse_frame(subject).map_or_else(|| "*".into(), |(_, from)| from.name);
        is_subject(reply) && matches(&self.probe_answer(&asks, "*", own), reply)
    }

    /// Returns the receiver and the sender of a frame; `None` if this is not the subject of a frame. The whole
    /// subject is checked: subjects of another kind may end in the same way.
    pub fn parse_frame(&self, subject: &str) -> Option<(Identity, Identity)> {
        let rest = subject.strip_prefix("pr1.")?.strip_prefix(&self.cluster)?.strip_prefix(".n.")?;
        let parts: Vec<_> = rest.split('.').collect();
        let [to, to_id, "d" | "c", from, from_id] = parts[..] else { return None };
        Some((Identity::of_parts(to, to_id)?, Identity::of_parts(from, from_id)?))
    }
}

fn letter(lane: Lane) -> char {
    match lane {
        Lane::Data => 'd',
        Lane::Control => 'c',
    }
}

/// Returns whether `text` is a subject to publish on: parts without spaces and wildcards, joined by dots.
pub fn is_subject(text: &str) -> bool {
    text.len() <= LONGEST && text.split('.').all(is_part)
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && c != '*' && c != '>')
}

/// Returns whether `text` is a pattern of subjects: any part may be `*`, and the last part may be `>`.
pub fn is_pattern(text: &str) -> bool {
    let parts = text.strip_suffix(".>").unwrap_or(text);
    text.len() <= LONGEST && (text == ">" || parts.split('.').all(|part| part == "*" || is_part(part)))
}

/// Returns whether a pattern matches a subject.
pub fn matches(pattern: &str, subject: &str) -> bool {
    let mut parts = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, parts.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// Returns whether `pattern` matches all subjects that the pattern `other` matches.
pub(crate) fn covers(pattern: &str, other: &str) -> bool {
    let mut parts = other.split('.');
    for wanted in pattern.split('.') {
        match (wanted, parts.next()) {
            (">", Some(_)) => return true,
            ("*", Some(part)) if part != ">" => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// Returns whether `text` is a valid key of the store.
pub fn is_key(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | '.' | '/');
    text.len() <= LONGEST
        && !text.is_empty()
        && text.chars().all(is_legal)
        && !text.starts_with('.')
        && !text.ends_with('.')
        && !text.contains("..")
}

/// Shortens a text for use in an error.
pub fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_subjects_that_they_say() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.b.c", "a.b", false),
            ("a.*.c", "a.b.c", true),
            ("a.*", "a.b.c", false),
            ("a.*", "a", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
        ] {
            assert!(is_pattern(pattern) && is_subject(subject));
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }

    #[test]
    fn patterns_cover_others() {
        for (pattern, other, expected) in [
            ("a.*", "a.b", true),
            ("a.*", "a.*", true),
            ("a.>", "a.*.>", true),
            (">", ">", true),
            ("a.*", "a.>", false),
            ("a.b", "a.*", false),
            ("a.>", ">", false),
            ("a.*.c", "a.*", false),
            ("a.*", "a.*.c", false),
        ] {
            assert_eq!(covers(pattern, other), expected, "{pattern} {other}");
        }
    }

    #[test]
    fn a_frame_has_its_sender_in_the_whole_subject() {
        let node = |name: &str, id| Identity { name: name.into(), id: NodeId::new(id).unwrap() };
        let (to, from, subjects) = (node("eu-1", 0x7f3a), node("eu-2", 0x21), Subjects::of("bank"));
        for lane in Lane::ALL {
            let subject = subjects.frame(&to, lane, &from);
            assert_eq!(subjects.parse_frame(&subject), Some((to.clone(), from.clone())), "{subject}");
            assert!(matches(&subjects.frames_to(&to, lane), &subject) && is_subject(&subject));
        }
        let longest = node(&"x".repeat(LONGEST_NAME), (1 << 48) - 1);
        let longest = Subjects::of("x".repeat(LONGEST_NAME)).frame(&longest, Lane::Data, &longest);
        assert!(is_subject(&longest), "{}", longest.len());
        for subject in [
            "",
            "pr1.bank.n.eu-1.7f3a.d.eu-2.21.x",
            "x.pr1.bank.n.eu-1.7f3a.d.eu-2.21",
            "pr1.other.n.eu-1.7f3a.d.eu-2.21",
            "pr1.bank2.n.eu-1.7f3a.d.eu-2.21",
            "pr1.bank.n.eu-1.7f3a.x.eu-2.21",
            "pr1.bank.n.eu-1.7f3a.d.eu-2.021",
            "pr1.bank.n.eu-1.7f3a.d.eu-2.0",
            "pr1.bank.n.eu-1.7f3a.d..21",
            "$KV.bank_nodes.eu-1.7f3a.d.eu-2.21",
        ] {
            assert_eq!(subjects.parse_frame(subject), None, "{subject}");
        }
    }

    #[test]
    fn a_probe_is_answered_to_the_node_that_asks() {
        let subjects = Subjects::of("bank");
        let (subject, own) = ("pr1.bank.n.eu-1.7f3a.c.eu-2.21", "eu-1");
        assert!(subjects.is_probe_answer(subject, &subjects.probe_answer("eu-2", "x", own), own));
        for reply in [
            "pr1.bank.p.eu-3.x.eu-1",
            "pr1.bank.p.eu-2.x.eu-3",
            "pr1.bank.p.eu-2.x.y.eu-1",
            "pr1.bank.p.*.x.eu-1",
            "pr1.bank.n.eu-3.5.d.eu-1.7f3a",
            "$KV.bank_leases.eu-1.7f3a",
            "$KV.bank_nodes.eu-1.7f3a.eu-1",
        ] {
            assert!(!subjects.is_probe_answer(subject, reply, own), "{reply}");
        }
    }

    #[test]
    fn an_identity_has_one_form() {
        let id = NodeId::new(0x7f3a).unwrap();
        let identity = Identity { name: "eu-1".into(), id };
        assert_eq!(identity.to_string(), "eu-1.7f3a");
        assert_eq!(Identity::parse("eu-1.7f3a"), Some(identity.clone()));
        assert!(is_key(&identity.to_string()));
        let long = format!("{}.7f3a", "x".repeat(LONGEST_NAME + 1));
        for text in ["", "7f3a", "eu-1", ".7f3a", "eu-1.", "eu-1.0", "eu-1.7F3A", "eu-1.07f3a", "eu-1.+7f3a", &long] {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
        for text in ["eu-1.1000000000000", "a.b.7f3a", "a b.7f3a", "a*.7f3a", "\u{fc}.7f3a"] {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = "x".repeat(LONGEST + 1);
        for text in ["", ".", "a.", ".a", "a..b", "a b", "a\n", "ü", &long] {
            assert!(!is_subject(text) && !is_pattern(text), "{text}");
        }
        assert!(!is_subject("a.*") && !is_subject("a.>"));
        for text in ["a.>.b", "a*", "a.b>", ">.a", ".>"] {
            assert!(!is_pattern(text), "{text}");
        }
        for text in ["", ".a", "a.", "a..b", "a b", "a*", "ü", &long] {
            assert!(!is_key(text), "{text}");
        }
        assert!(is_key("7f3a") && is_key("acct-7.of=eu/1_x"));
    }
}
