//! Wording of errors: values, types and suggestions.

use crate::mailbox::payload::Payload;

/// Describes a payload by its value, if its type can be formatted, and otherwise by its type.
pub(crate) fn describe(payload: &mut Payload) -> String {
    macro_rules! shown {
        ($($type:ty)*) => {
            $(if let Some(value) = payload.get_mut::<$type>() {
                return format!("`{value:?}` of type `{}`", stringify!($type));
            })*
        };
    }
    shown!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char);
    format!("a value of type `{}`", payload.type_name())
}

pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_string(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

pub(super) fn are(names: &[String]) -> String {
    match names {
        [] => "are no types yet; register it with `runtime.register_type::<Type>()`".to_string(),
        [name] => format!("is `{name}`"),
        names => format!("are {}", list(names)),
    }
}

pub(super) fn count(inputs: usize) -> String {
    match inputs {
        0 => "no input".to_string(),
        1 => "1 input".to_string(),
        inputs => format!("{inputs} inputs"),
    }
}

/// Returns `; did you mean …?`, or nothing.
pub(crate) fn did_you_mean(name: &str, names: &[String]) -> String {
    if names.len() < 2 {
        // The error has already named the only candidate.
        return String::new();
    }
    let near = names.iter().map(|known| (distance(name, known), known)).min();
    match near {
        // Short names are often similar by chance.
        Some((distance, known)) if distance == 0 || name.len() > 2 && distance <= 1 + name.len() / 4 => {
            format!("; did you mean `{known}`?")
        }
        _ => String::new(),
    }
}

/// Returns the Levenshtein distance between two names, or `usize::MAX` if a name is long or their lengths differ much.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 8 || one.len() > 64 {
        return usize::MAX;
    }
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, envelope) in one.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, &there) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(envelope != there);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a suggestion of `a` for `c`, although any other letter would be as near; or no suggestion for a typo.
    #[test]
    fn short_names_are_suggested_only_in_another_case() {
        let suggested =
            |name: &str, names: &[&str]| did_you_mean(name, &names.iter().map(|&name| name.into()).collect::<Vec<_>>());
        assert_eq!(suggested("c", &["a", "b"]), "");
        assert_eq!(suggested("ab", &["ac", "x"]), "");
        assert_eq!(suggested("A", &["a", "b"]), "; did you mean `a`?");
        assert_eq!(suggested("run", &["ran", "stop"]), "; did you mean `ran`?");
    }
}
