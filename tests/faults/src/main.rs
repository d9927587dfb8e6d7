//! Plants one fault at a time in a copy of the checkout and runs the tests that its record names, one of which must
//! fail.
//!
//! ```text
//! tests/faults/run [--list | --simulated] [--jobs N] [WORD ...]   only faults whose names contain one of the words
//! ```
//!
//! `--list` lists the faults and reports records that no longer match the code. `--simulated` takes the faults whose
//! records name a simulated test (`it=simulation…`), and counts how many seeds each strategy needs to find them. It
//! writes the table of the guide, unless words select only some faults. `--jobs` is the number of concurrent tests
//! (default 1). All faults take about an hour, most of it in tests that hang, as expected. Concurrent runs of this
//! program would overwrite each other's copy.
//!
//! The exit status is 1 if at least a tenth of the faults that are not equivalent survive, or if a record is stale.

mod list;
mod simulated;
mod switch;

use list::{Fault, Tests};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};

/// The time limit of tests, as a multiple of their time without a fault. A test that hangs takes this long.
const PATIENCE: u32 = 8;
const SHORTEST_PATIENCE: Duration = Duration::from_secs(60);
/// The time limit of a build.
const BUILD: Duration = Duration::from_secs(1800);
/// The folders of the crates whose faults are switched on at run time, and the root files of these crates.
const CRATES: [(&str, &str); 2] = [("runtime/src/", "runtime/src/lib.rs"), ("console/src/", "console/src/lib.rs")];
/// The exit statuses of `timeout` when it has killed its command.
const TIMED_OUT: [i32; 2] = [124, 137];

/// The folders of a run.
struct Place {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    /// The contents of the files with faults, as they were at the start, since the checkout may change during the run.
    originals: BTreeMap<String, String>,
}

/// The outcome for a fault.
enum Verdict {
    Caught(String),
    Survived,
    /// The record no longer matches the code.
    Stale(String),
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let jobs = match arguments.iter().position(|word| word == "--jobs") {
        Some(at) if at + 1 < arguments.len() => {
            let number = arguments.drain(at..at + 2).nth(1).and_then(|text| text.parse().ok());
            number.filter(|&number| number > 0).unwrap_or(1)
        }
        _ => 1,
    };
    let simulated = arguments.iter().position(|word| word == "--simulated").map(|at| arguments.remove(at)).is_some();
    let only_list = arguments.first().is_some_and(|word| word == "--list");
    let words = &arguments[usize::from(only_list)..];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there");
    let home = root.join("target/faults");
    let faults = match list::read(&root.join("tests/faults/list")) {
        Ok(faults) => faults,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let files = faults.iter().map(|fault| fault.file.as_str()).chain(CRATES.map(|(_, root)| root));
    let originals = files.filter_map(|file| Some((file.to_string(), fs::read_to_string(root.join(file)).ok()?)));
    let originals = originals.collect();
    let place = Place { copy: home.join("copy"), target: home.join("target"), root, originals };
    let wanted = |fault: &Fault| words.is_empty() || words.iter().any(|word| fault.name.contains(word));
    let (faults, stale): (Vec<_>, Vec<_>) =
        faults.into_iter().filter(wanted).partition(|fault| place.line_of(fault).is_ok());
    let mut tally = Tally::default();
    for fault in &stale {
        tally.note(fault, &Verdict::Stale(place.line_of(fault).err().unwrap_or_default()));
    }
    if only_list {
        for fault in &faults {
            println!("{:<9} {:<44} {}", if fault.is_equivalent { "equal" } else { "fault" }, fault.name, fault.file);
        }
        return ExitCode::from(u8::from(!stale.is_empty()));
    }
    place.refresh();
    if simulated {
        let has_one = |fault: &Fault| fault.tests.iter().any(simulated::in_simulation);
        let faults: Vec<_> = faults.into_iter().filter(has_one).collect();
        let rows = simulated::rows(&place, &faults, &place.switch_on(&faults));
        let written = if words.is_empty() { simulated::write(&place.root, &rows) } else { Ok(()) };
        return match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let switched = place.switch_on(&faults);
    place.run_switched(&faults, &switched, jobs, &mut tally);
    for (_, fault) in faults.iter().enumerate().filter(|(index, _)| !switched.contains(index)) {
        tally.note(fault, &place.run_alone(fault, &faults, &switched));
    }
    tally.end()
}

#[derive(Default)]
struct Tally {
    caught: usize,
    survived: Vec<String>,
    equivalent: usize,
    stale: usize,
}

impl Tally {
    fn note(&mut self, fault: &Fault, verdict: &Verdict) {
        let (word, detail) = match verdict {
            Verdict::Caught(detail) => {
                self.caught += 1;
                ("caught", detail.as_str())
            }
            Verdict::Survived if fault.is_equivalent => {
                self.equivalent += 1;
                ("equal", "")
            }
            Verdict::Survived => {
                self.survived.push(fault.name.clone());
                ("SURVIVED", "")
            }
            Verdict::Stale(detail) => {
                self.stale += 1;
                ("STALE", detail.as_str())
            }
        };
        println!("{word:<9} {:<44} {detail}", fault.name);
    }

    fn end(self) -> ExitCode {
        let survived = self.survived.len();
        println!("{} caught, {survived} survived, {} equivalent, {} stale", self.caught, self.equivalent, self.stale);
        self.survived.iter().for_each(|name| println!("survived: {name}"));
        let counted = self.caught + survived;
        let is_good = self.stale == 0 && 10 * survived < counted;
        ExitCode::from(u8::from(!(is_good || self.stale + counted == 0)))
    }
}

impl Place {
    /// Returns the zero-based number of the fault's line in its file. The error says why the record is stale.
    fn line_of(&self, fault: &Fault) -> Result<usize, String> {
        let text = self.originals.get(&fault.file).ok_or_else(|| format!("there is no file {}", fault.file))?;
        let mut found = text.lines().enumerate().filter(|(_, line)| line.trim_start() == fault.before);
        match (found.next(), found.count()) {
            (Some((number, _)), 0) => Ok(number),
            (None, _) => Err(format!("the line is not in {}", fault.file)),
            (Some(_), more) => Err(format!("the line is {} times in {}", more + 1, fault.file)),
        }
    }

    /// Updates the copy from the checkout, without the files that git ignores. Unchanged files keep their modification
    /// time, so that they are not built again.
    fn refresh(&self) {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .expect("git lists the files");
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
            if let Ok(bytes) = fs::read(self.root.join(name)) {
                self.write(name, &bytes);
            }
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.copy.join(name);
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            return;
        }
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the copy's folders can be made");
        fs::write(&path, bytes).expect("the copy can be written");
    }

    /// Plants the faults that can be switched on at run time, builds, and removes those that do not compile. Returns
    /// the indices of the remaining ones.
    fn switch_on(&self, faults: &[Fault]) -> BTreeSet<usize> {
        let can_be = |fault: &Fault| {
            let folder = CRATES.iter().find(|(folder, _)| fault.file.starts_with(folder));
            folder.is_some_and(|(folder, _)| fault.tests.iter().all(|tests| tests.links(folder)))
        };
        let mut switched: BTreeSet<usize> = (0..faults.len()).filter(|&index| can_be(&faults[index])).collect();
        loop {
            let places = self.write_switched(faults, &mut switched);
            let targets: BTreeSet<_> =
                switched.iter().flat_map(|&index| faults[index].tests.iter().map(Tests::target)).collect();
            let failed = targets.iter().find_map(|target| self.build(target).err());
            let Some(log) = failed else { return switched };
            let wrong: BTreeSet<usize> =
                errors(&log).iter().filter_map(|place| places.get(place)).flatten().copied().collect();
            if wrong.is_empty() {
                println!("the copy with all faults does not build:\n{log}");
                std::process::exit(1);
            }
            switched.retain(|index| !wrong.contains(index));
        }
    }

    /// Writes all files that contain a fault, and the crate roots. Returns the indices of the faults at each line.
    fn write_switched(
        &self,
        faults: &[Fault],
        switched: &mut BTreeSet<usize>,
    ) -> BTreeMap<(String, usize), Vec<usize>> {
        let mut places: BTreeMap<(String, usize), Vec<usize>> = BTreeMap::new();
        for (index, fault) in faults.iter().enumerate() {
            let line = self.line_of(fault).expect("stale records are sorted out");
            places.entry((fault.file.clone(), line)).or_default().push(index);
        }
        let files = faults.iter().map(|fault| fault.file.as_str());
        let files: BTreeSet<&str> = files.chain(CRATES.map(|(_, root)| root)).collect();
        for file in files {
            let text = &self.originals[file];
            let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
            for ((_, number), here) in places.iter().filter(|((name, _), _)| name == file) {
                here.iter().filter(|index| switched.contains(index)).copied().collect::<Vec<_>>().iter().for_each(
                    |&index| {
                        if switch::line(&lines[*number], &[(index + 1, &faults[index].after)]).is_none() {
                            switched.remove(&index);
                        }
                    },
                );
                let planted: Vec<_> = here
                    .iter()
                    .filter(|index| switched.contains(index))
                    .map(|&index| (index + 1, faults[index].after.as_str()))
                    .collect();
                if !planted.is_empty() {
                    lines[*number] = switch::line(&lines[*number], &planted).expect("each has the line's shape");
                }
            }
            let mut text = lines.join("\n") + "\n";
            if CRATES.iter().any(|(_, root)| *root == file) {
                text += switch::MODULE;
            }
            self.write(file, text.as_bytes());
        }
        places
    }

    /// Builds a test program and returns its path. The error is the compiler's output.
    fn build(&self, target: &[String]) -> Result<PathBuf, String> {
        let mut cargo = self.command(BUILD, Path::new("cargo"));
        let output = cargo.args(["test", "--no-run"]).args(target).output().expect("cargo starts");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let program =
            log.lines().find_map(|line| line.trim().strip_prefix("Executable ")?.rsplit_once('(')?.1.strip_suffix(')'));
        match program {
            Some(program) if output.status.success() => Ok(self.copy.join(program)),
            _ => Err(log),
        }
    }

    /// Returns a command that runs in the copy and is killed, with all its children, after `within`.
    fn command(&self, within: Duration, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=5").arg(within.as_secs().to_string()).arg(program).current_dir(&self.copy);
        command.env("CARGO_TARGET_DIR", &self.target).env("RUST_BACKTRACE", "0").env("CARGO_TERM_COLOR", "never");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("POSTROOM_STRESS_SECONDS", "2").env("POSTROOM_LEAK_SECONDS", "2").stdin(Stdio::null());
        command
    }

    /// Runs the tests that `tests` selects with fault `number` switched on (0: none).
    fn run(&self, program: &Path, tests: &Tests, number: usize, within: Duration) -> Output {
        self.run_with(program, tests, number, within, |_| {})
    }

    /// Like [`run`](Self::run), with further arguments or environment variables, which `more` adds.
    fn run_with(
        &self,
        program: &Path,
        tests: &Tests,
        number: usize,
        within: Duration,
        more: impl FnOnce(&mut Command),
    ) -> Output {
        let mut command = self.command(within, program);
        command.current_dir(self.copy.join(tests.folder()));
        command.args(tests.filter()).env("POSTROOM_FAULT", number.to_string());
        more(&mut command);
        command.output().expect("the tests start")
    }

    fn run_switched(&self, faults: &[Fault], switched: &BTreeSet<usize>, jobs: usize, tally: &mut Tally) {
        let words: BTreeSet<&Tests> = switched.iter().flat_map(|&index| &faults[index].tests).collect();
        let mut known = BTreeMap::new();
        for tests in words {
            let program = self.build(&tests.target()).expect("it has been built");
            let began = Instant::now();
            let output = self.run(&program, tests, 0, BUILD);
            if let Err(wrong) = passed(&output) {
                println!("without any fault `{}` does not pass: {wrong}", tests.word);
                std::process::exit(1);
            }
            let within = SHORTEST_PATIENCE.max(began.elapsed() * PATIENCE);
            known.insert(tests.word.as_str(), (program, within));
        }
        let (next, tally) = (AtomicUsize::new(0), Mutex::new(tally));
        let order: Vec<usize> = switched.iter().copied().collect();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let fault = &faults[index];
                        let caught = fault.tests.iter().find_map(|tests| {
                            let (program, within) = &known[tests.word.as_str()];
                            judge(tests, &self.run(program, tests, index + 1, *within))
                        });
                        let verdict = caught.map_or(Verdict::Survived, Verdict::Caught);
                        tally.lock().expect("no thread panics with the tally").note(fault, &verdict);
                    }
                });
            }
        });
    }

    /// Plants a fault that cannot be switched on, builds, runs the tests, and removes the fault again.
    fn run_alone(&self, fault: &Fault, faults: &[Fault], switched: &BTreeSet<usize>) -> Verdict {
        if fault.tests.iter().any(|tests| tests.word.starts_with("models")) {
            // The models include the runtime's files without the crate root, which contains the switch.
            self.write_switched(faults, &mut BTreeSet::new());
        }
        let path = self.copy.join(&fault.file);
        let number = self.line_of(fault).expect("stale records are sorted out");
        let mut lines: Vec<&str> = self.originals[&fault.file].lines().collect();
        lines[number] = &fault.after;
        fs::write(&path, lines.join("\n") + "\n").expect("the copy can be written");
        let verdict = fault.tests.iter().find_map(|tests| match self.build(&tests.target()) {
            Err(log) => {
                let first = log.lines().find(|line| line.starts_with("error")).unwrap_or_default();
                Some(Verdict::Stale(format!("does not build: {first}")))
            }
            Ok(program) => {
                let mut command = self.command(Duration::from_secs(300), &program);
                command.current_dir(self.copy.join(tests.folder()));
                let output = command.args(tests.filter()).output().expect("the tests start");
                judge(tests, &output).map(Verdict::Caught)
            }
        });
        // This restores the file, including the faults that can be switched on.
        let mut still = switched.clone();
        self.write_switched(faults, &mut still);
        verdict.unwrap_or(Verdict::Survived)
    }
}

/// Returns the files and zero-based lines in which the compiler found errors.
fn errors(log: &str) -> BTreeSet<(String, usize)> {
    let places = log.split("\nerror").skip(1).flat_map(|error| error.lines().take_while(|line| !line.is_empty()));
    let places =
        places.filter_map(|line| line.trim().strip_prefix("--> ").or_else(|| line.trim().strip_prefix("::: ")));
    let parsed = places.filter_map(|place| {
        let mut parts = place.split(':');
        Some((parts.next()?.to_string(), parts.next()?.parse::<usize>().ok()? - 1))
    });
    parsed.collect()
}

/// Returns the tests that caught the fault, if any did.
fn judge(tests: &Tests, output: &Output) -> Option<String> {
    if output.status.code().is_some_and(|code| TIMED_OUT.contains(&code)) {
        return Some(format!("{} hangs", tests.word));
    }
    passed(output).err().map(|failed| format!("{}: {failed}", tests.word))
}

/// Returns an error that names the tests that failed. A program that ran no test counts as failed, too.
fn passed(output: &Output) -> Result<(), String> {
    let log = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        let ran = log.lines().any(|line| line.starts_with("test result: ok.") && !line.contains(" ok. 0 passed"));
        return if ran { Ok(()) } else { Err("no test runs".to_string()) };
    }
    let failed: BTreeSet<&str> =
        log.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| !line.contains(' ')).collect();
    let names: Vec<&str> = failed.into_iter().take(2).collect();
    Err(if names.is_empty() { "aborts".to_string() } else { names.join(" ") })
}
