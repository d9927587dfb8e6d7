//! What subjects, patterns and keys of the store look like, for engines.

/// The longest of each.
const LONGEST: usize = 256;

/// Returns whether messages can be published on it: parts without spaces and wildcards, joined by dots.
pub(crate) fn is_subject(text: &str) -> bool {
    text.len() <= LONGEST && text.split('.').all(is_part)
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && c != '*' && c != '>')
}

/// Returns whether it is a pattern of subjects: a part may be `*`, and the last one `>`.
pub(crate) fn is_pattern(text: &str) -> bool {
    let parts = text.strip_suffix(".>").unwrap_or(text);
    text.len() <= LONGEST && (text == ">" || parts.split('.').all(|part| part == "*" || is_part(part)))
}

/// Returns whether a pattern has this subject.
pub(crate) fn matches(pattern: &str, subject: &str) -> bool {
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

/// Returns whether it can be a key of the store.
pub(crate) fn is_key(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | '.' | '/');
    text.len() <= LONGEST
        && !text.is_empty()
        && text.chars().all(is_legal)
        && !text.starts_with('.')
        && !text.ends_with('.')
        && !text.contains("..")
}

/// Returns the text as an error repeats it.
pub(crate) fn shortened(text: &str) -> String {
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
