//! Parses the compiler's output, and applies its help lines.

use std::fs;
use std::path::{Path, PathBuf};

/// An error with the part of the source that it marks.
pub struct Error {
    /// The help line; empty if it has none.
    pub help: String,
    /// The line, from 1.
    line: usize,
    /// The column, from 1.
    column: usize,
    /// The number of underlined characters.
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

/// Returns the source with every help line applied, or the reason why pasting cannot do that.
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

/// Returns one program with a module for each case below `folder`, as corrected by its help lines or by hand; this
/// builds faster than a program for each case. Also returns the name of each case that cannot be corrected, and the
/// reason.
pub fn correct_all(folder: &Path) -> (String, Vec<String>) {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder.join("cases"))
        .expect("there are cases")
        .map(|entry| entry.expect("a case can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    cases.sort();
    let mut program = String::new();
    let mut wrong = Vec::new();
    for case in cases {
        let name = case.file_stem().and_then(|name| name.to_str()).expect("cases have plain names").to_owned();
        let source = fs::read_to_string(&case).expect("a case can be read");
        let corrected = fs::read_to_string(case.with_extension("stderr"))
            .map_err(|_| "`TRYBUILD=overwrite` records what the compiler says of a new case".to_owned())
            .and_then(|output| correct(&source, &output, &folder.join("fixed").join(format!("{name}.rs"))));
        match corrected {
            Ok(corrected) => program.push_str(&format!("mod {name} {{\n{corrected}}}\n")),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    (program, wrong)
}

/// Returns the case as corrected by its help lines, or by hand.
fn correct(source: &str, output: &str, by_hand: &Path) -> Result<String, String> {
    let errors = errors(output);
    let pasted = over(source, &errors);
    match (pasted, fs::read_to_string(by_hand)) {
        (Ok(corrected), Err(_)) => Ok(corrected),
        (Ok(_), Ok(_)) => Err("its help can be pasted: no need for a file in `fixed`".to_owned()),
        (Err(why), Err(_)) => Err(format!("{why}; correct it by hand in `{}`", by_hand.display())),
        (Err(_), Ok(corrected)) => {
            for code in errors.iter().flat_map(|error| code(&error.help)) {
                // An ellipsis stands for text that only the user knows.
                if !code.contains('…') && !corrected.contains(code) {
                    return Err(format!("the file in `fixed` does not do what the help says: `{code}`"));
                }
            }
            Ok(corrected)
        }
    }
}
