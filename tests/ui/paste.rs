//! Parses the compiler's output, and applies its help lines.

/// An error with the part of the source that it marks.
pub struct Error {
    /// The help line; empty if it has none.
    pub help: String,
    /// The line and column, from 1, and the number of underlined characters.
    line: usize,
    column: usize,
    width: usize,
}

/// Returns the errors in the compiler's output.
pub fn errors(output: &str) -> Vec<Error> {
    let mut errors: Vec<Error> = Vec::new();
    let mut open = false;
    for line in output.lines() {
        let trimmed = line.trim_start();
        if line.starts_with("error") {
            errors.push(Error { help: String::new(), line: 0, column: 0, width: 0 });
            open = true;
        } else if line.starts_with("warning") {
            open = false;
        }
        let Some(error) = errors.last_mut().filter(|_| open) else { continue };
        if error.line == 0 {
            if let Some(help) = trimmed.strip_prefix("help: ") {
                error.help = help.to_owned();
            } else if let Some(place) = trimmed.strip_prefix("--> ") {
                let mut numbers = place.rsplit(':').map(|number| number.parse().unwrap_or(0));
                error.column = numbers.next().unwrap_or(0);
                error.line = numbers.next().unwrap_or(0);
            }
        } else if error.width == 0 {
            error.width = trimmed.chars().skip_while(|sign| *sign != '^').take_while(|sign| *sign == '^').count();
        }
    }
    errors
}

/// Returns the source with every help line applied, or why pasting cannot do that.
pub fn over(source: &str, errors: &[Error]) -> Result<String, String> {
    let mut lines: Vec<Vec<char>> = source.lines().map(|line| line.chars().collect()).collect();
    let mut errors: Vec<&Error> = errors.iter().collect();
    // From the end, so that earlier positions stay valid.
    errors.sort_by_key(|error| std::cmp::Reverse((error.line, error.column)));
    for error in errors {
        let instead = instead(&error.help)?;
        let line = error.line.checked_sub(1).and_then(|line| lines.get_mut(line)).ok_or("an error without a place")?;
        let start = error.column.saturating_sub(1);
        let end = start + error.width;
        if error.width == 0 || end > line.len() {
            return Err("an error over several lines".to_owned());
        }
        line.splice(start..end, instead.chars());
    }
    Ok(lines.into_iter().map(|line| line.into_iter().collect::<String>() + "\n").collect())
}

/// Returns the replacement that the help line proposes for the marked tokens.
fn instead(help: &str) -> Result<&str, String> {
    if help.starts_with("remove it") {
        return Ok("");
    }
    ["write `", "rename it, for instance `"]
        .iter()
        .find_map(|start| help.strip_prefix(start)?.strip_suffix('`'))
        .filter(|code| !code.contains('`'))
        .ok_or_else(|| format!("{help:?} does not say what to write in this place"))
}

/// Returns the texts between backticks.
pub fn code(help: &str) -> impl Iterator<Item = &str> {
    help.split('`').skip(1).step_by(2)
}
