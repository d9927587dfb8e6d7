//! The list of faults, `tests/faults/list`. The header of that file describes the format of a record.

use std::path::Path;

/// A line of the project, and the faulty line that replaces it.
pub struct Fault {
    pub name: String,
    /// The path relative to the root of the checkout.
    pub file: String,
    /// True if no program can tell the faulty line from the original. The comment above the record explains why.
    pub is_equivalent: bool,
    /// The original line, without its indentation.
    pub before: String,
    /// The faulty line. Empty if the fault removes the line.
    pub after: String,
    /// The tests to run. One of them must fail.
    pub tests: Vec<Tests>,
}

/// A word of a record's last line: a test program, and a filter for its tests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tests {
    /// The word, such as `lib=wheel`, `it=engine::bounds` or `leaks`.
    pub word: String,
}

impl Tests {
    /// Returns the arguments of `cargo test` that name the program.
    pub fn target(&self) -> Vec<String> {
        let words = |text: &str| text.split(' ').map(str::to_string).collect();
        match self.word.split('=').next().unwrap_or_default() {
            // The feature adds the tests of simulations.
            "lib" => words("-p postroom --lib --features test"),
            "macros" => words("-p postroom-macros --lib"),
            "models" => words("-p postroom-models --lib"),
            "ui" => words("-p postroom-ui --test ui"),
            "console" => words("-p postroom-console --lib"),
            program => match program.strip_prefix("console-") {
                Some(program) => words(&format!("-p postroom-console --test {program}")),
                None => words(&format!("-p postroom-tests --test {program}")),
            },
        }
    }

    /// Returns the filter that is passed to the program.
    pub fn filter(&self) -> Option<String> {
        let (program, filter) = self.word.split_once('=')?;
        Some(match program {
            "it" => format!("{filter}::"),
            "models" => format!("models::{filter}::"),
            _ => filter.to_string(),
        })
    }

    /// Returns true if the program links the whole crate in `folder`. If so, a fault in that crate can be switched on
    /// at run time.
    pub fn links(&self, folder: &str) -> bool {
        match folder {
            "console/src/" => self.is_of_the_console(),
            _ => !["macros", "models", "ui"].contains(&self.word.split('=').next().unwrap_or_default()),
        }
    }

    /// Returns the folder of the program's package, in which the program must run.
    pub fn folder(&self) -> &'static str {
        match self.word.split('=').next().unwrap_or_default() {
            "lib" => "runtime",
            "macros" => "macros",
            "models" => "tests/models",
            "ui" => "tests/ui",
            _ if self.is_of_the_console() => "console",
            _ => "tests",
        }
    }

    pub fn is_of_the_console(&self) -> bool {
        self.word.starts_with("console")
    }
}

/// Reads the list. An error names the line that cannot be parsed.
pub fn read(path: &Path) -> Result<Vec<Fault>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut faults, mut head, mut before, mut after) = (Vec::new(), None, None, None);
    for (index, line) in text.lines().enumerate() {
        let wrong = || format!("tests/faults/list:{}: the line cannot be parsed: {line}", index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        } else if let Some(words) = line.strip_prefix("fault ") {
            head = Some(words.split(' ').map(str::to_string).collect::<Vec<_>>());
        } else if let Some(text) = line.strip_prefix("- ").filter(|_| before.is_none()) {
            before = Some(text.to_string());
        } else if line == "+" {
            after = Some(String::new());
        } else if let Some(text) = line.strip_prefix("+ ") {
            after = Some(text.to_string());
        } else if let Some(tests) = line.strip_prefix(": ") {
            let (Some(words), Some(before), Some(after)) = (head.take(), before.take(), after.take()) else {
                return Err(wrong());
            };
            let [name, file, mark @ ..] = &words[..] else { return Err(wrong()) };
            if before == after {
                return Err(wrong());
            }
            faults.push(Fault {
                name: name.clone(),
                file: file.clone(),
                is_equivalent: mark == ["equivalent"],
                before,
                after,
                tests: tests.split(' ').map(|word| Tests { word: word.to_string() }).collect(),
            });
        } else {
            return Err(wrong());
        }
    }
    Ok(faults)
}
