//! "Did you mean": the nearest of a few known words.

/// Returns the word in `known` that `wrong` was probably meant to be, with at most one error per three letters.
pub(crate) fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|word| (distance(&wrong.to_lowercase(), &word.to_lowercase()), *word))
        .filter(|(slips, word)| *slips <= word.len().max(3) / 3)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, word)| word)
}

/// Formats a list as "`a`, `b` or `c`".
pub(crate) fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [init @ .., last] => {
            let init: Vec<String> = init.iter().map(|word| format!("`{word}`")).collect();
            format!("{} or `{last}`", init.join(", "))
        }
    }
}

/// Returns the number of edits (insert, delete, replace, swap of neighbours) between two words: optimal string
/// alignment.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_slip_and_leaves_the_rest() {
        assert_eq!(nearest("on_eror", &["crate", "name", "on_error"]), Some("on_error"));
        assert_eq!(nearest("Donw", &["Cancel", "Down", "Exit"]), Some("Down"));
        assert_eq!(nearest("cancel", &["Cancel", "Down", "Exit"]), Some("Cancel"));
        assert_eq!(nearest("workers", &["crate", "name", "on_error"]), None);
    }

    #[test]
    fn counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("acb", "abc"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn lists_words() {
        assert_eq!(list(&["crate"]), "`crate`");
        assert_eq!(list(&["crate", "name", "on_error"]), "`crate`, `name` or `on_error`");
    }
}
