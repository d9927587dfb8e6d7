//! Faults that are switched on by a number in the environment. So all faults of a crate can be compiled at once, and
//! each test program runs with one of them.
//!
//! A fault replaces one line with another. If both lines have the same shape, they are combined into `if planted::on(7)
//! { wrong } else { right }`, which encloses only the part that differs. If that does not compile (in a constant, or in
//! the argument of a macro), the fault is planted alone.

/// The module that is appended to the crate root.
pub const MODULE: &str = r#"
#[doc(hidden)]
pub mod planted {
    static NUMBER: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    #[inline]
    pub fn on(number: usize) -> bool {
        *NUMBER.get_or_init(|| std::env::var("POSTROOM_FAULT").ok().and_then(|text| text.parse().ok()).unwrap_or(0))
            == number
    }
}
"#;

/// Combines the line `before` with the `faults` (their numbers and lines). Returns `None` if the shapes of the lines
/// differ.
pub fn line(before: &str, faults: &[(usize, &str)]) -> Option<String> {
    let before = before.trim();
    SHAPES.iter().find_map(|shape| {
        let (start, right, end) = shape(before)?;
        let mut code = right.to_string();
        for (number, after) in faults {
            let wrong = if is_statement(start, end) {
                after.trim()
            } else {
                let (wrong_start, wrong, wrong_end) = shape(after.trim())?;
                if (wrong_start, wrong_end) != (start, end) {
                    return None;
                }
                wrong
            };
            code = format!("if crate::planted::on({number}) {{ {wrong} }} else {{ {code} }}");
        }
        let is_part = !is_statement(start, end);
        Some(if is_part { format!("{start}({code}){end}") } else { code })
    })
}

/// Returns true if the shape is a whole statement or expression. Then the two lines need no common parts.
fn is_statement(start: &str, end: &str) -> bool {
    start.is_empty() && end.is_empty()
}

/// Splits a line into the text before the part that may differ, that part, and the text after it.
type Shape = fn(&str) -> Option<(&str, &str, &str)>;

const SHAPES: &[Shape] = &[condition, guard, arm, binding, continued, closure, field, whole];

/// Splits `text` after the first `mark`.
fn behind<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let at = text.find(mark)? + mark.len();
    Some((&text[..at], &text[at..]))
}

/// `if CONDITION {`, `while CONDITION {`
fn condition(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_suffix('{')?;
    let (start, rest) =
        ["if ", "while ", "} else if "].iter().find_map(|word| Some((*word, rest.strip_prefix(word)?)))?;
    (!rest.starts_with("let ") && !rest.contains(" && let ")).then_some((start, rest.trim_end(), " {"))
}

/// `PATTERN if GUARD => …`
fn guard(line: &str) -> Option<(&str, &str, &str)> {
    let arrow = line.find(" => ")?;
    let (start, guard) = behind(&line[..arrow], " if ")?;
    Some((start, guard, &line[arrow..]))
}

/// `PATTERN => VALUE,`
fn arm(line: &str) -> Option<(&str, &str, &str)> {
    let (start, rest) = behind(line, " => ")?;
    Some((start, rest.strip_suffix(',')?, ","))
}

/// `let NAME = VALUE;`
fn binding(line: &str) -> Option<(&str, &str, &str)> {
    let (start, rest) = line.starts_with("let ").then(|| behind(line, " = "))??;
    Some((start, rest.strip_suffix(';')?, ";"))
}

/// `&& CONDITION`, `+ VALUE` and `+ VALUE,`
fn continued(line: &str) -> Option<(&str, &str, &str)> {
    let (start, rest) = ["&& ", "|| ", "+ "].iter().find_map(|word| Some((*word, line.strip_prefix(word)?)))?;
    Some(match rest.strip_suffix(',') {
        Some(value) => (start, value, ","),
        None => (start, rest, ""),
    })
}

/// `.filter(|x| VALUE)`
fn closure(line: &str) -> Option<(&str, &str, &str)> {
    let (start, rest) = line.starts_with('.').then(|| behind(line, "| "))??;
    Some((start, rest.strip_suffix(')')?, ")"))
}

/// `NAME: VALUE,` and `NAME,` in a struct expression.
fn field(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_suffix(',')?;
    let (start, value) = behind(rest, ": ")?;
    let is_name = start[..start.len() - 2].chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some((start, value, ","))
}

/// A statement, or the value of a block.
fn whole(line: &str) -> Option<(&str, &str, &str)> {
    let ends = line.ends_with([',', '{', '}']) || line.starts_with(['.', '|', '&', '+']);
    let names = ["let ", "const ", "static ", "fn "].iter().any(|word| line.starts_with(word));
    (!ends && !names).then_some(("", line, ""))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn each_shape_keeps_what_both_have_in_common() {
        let cases = [
            ("if a > b {", "if a >= b {", "if (if crate::planted::on(1) { a >= b } else { a > b }) {"),
            ("let x = a;", "let x = b;", "let x = (if crate::planted::on(1) { b } else { a });"),
            (
                "A(x) if x > 0 => y,",
                "A(x) if x > 1 => y,",
                "A(x) if (if crate::planted::on(1) { x > 1 } else { x > 0 }) => y,",
            ),
            ("self.n -= 1;", "", "if crate::planted::on(1) {  } else { self.n -= 1; }"),
            ("live: a - b,", "live: a,", "live: (if crate::planted::on(1) { a } else { a - b }),"),
        ];
        for (before, after, expected) in cases {
            assert_eq!(line(before, &[(1, after)]).as_deref(), Some(expected));
        }
    }

    #[test]
    fn lines_of_two_shapes_are_planted_by_themselves() {
        assert_eq!(line("let x = a;", &[(1, "drop(a);")]), None);
        assert_eq!(line("const N: usize = 64;", &[(1, "const N: usize = 2;")]), None);
        assert_eq!(line("if let Some(x) = y {", &[(1, "if false {")]), None);
    }
}
