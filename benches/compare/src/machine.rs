//! The environment of the measurements. The figures mean nothing without it.

use crate::system::System;
use std::fs;
use std::process::Command;

/// The lock file, with the versions that were built.
const LOCK: &str = include_str!("../Cargo.lock");

/// Returns the environment of the measurements, a line for each item.
pub fn describe(systems: &[System]) -> Vec<String> {
    let processor = proc_value("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_string());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = proc_value("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)).unwrap_or(0);
    let versions: Vec<_> =
        systems.iter().map(|system| format!("{system} {}", version(LOCK, system.name()).unwrap_or("?"))).collect();
    vec![
        format!("Measured: {}", today().unwrap_or_else(|| "on an unknown day".to_string())),
        format!(
            "Machine: {processor}, {cores} cores, {:.0} GiB, {}",
            memory as f64 / f64::from(1 << 20),
            std::env::consts::OS
        ),
        format!("Compiler: {}", env!("POSTROOM_COMPARE_RUSTC")),
        format!("Versions: {}", versions.join(", ")),
    ]
}

/// Returns the date, or `None` if the system does not tell it.
fn today() -> Option<String> {
    let printed = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().ok()?;
    Some(String::from_utf8(printed.stdout).ok()?.trim().to_string())
}

/// Returns a size in KiB from what the system reports about this process, such as `VmHWM`, or `None` if it does not
/// report it.
pub fn own_status_kib(key: &str) -> Option<u64> {
    kib(&proc_value("/proc/self/status", key)?)
}

/// Returns the memory that is available to programs, in KiB, or `None` if the system does not report it.
pub fn available_kib() -> Option<u64> {
    kib(&proc_value("/proc/meminfo", "MemAvailable")?)
}

/// Returns the value after the first `key:` in a file.
fn proc_value(file: &str, key: &str) -> Option<String> {
    value_in(&fs::read_to_string(file).ok()?, key).map(str::to_string)
}

fn value_in<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

/// Returns the version of a package in a lock file.
fn version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| **line != *name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_version() {
        for system in System::ALL {
            assert!(version(LOCK, system.name()).is_some_and(|version| version.contains('.')), "{system}");
        }
        assert_eq!(version(LOCK, "no-such-crate"), None);
    }

    #[test]
    fn values_are_found_behind_their_keys() {
        let text = "Name:\tcompare\nVmHWM:\t    1234 kB\nVmRSS:\t 99 kB\n";
        assert_eq!(value_in(text, "VmHWM").and_then(kib), Some(1_234));
        assert_eq!(value_in(text, "Vm"), None);
    }
}
