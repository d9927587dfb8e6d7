//! Passes the compiler's version to the program, which prints it.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = Command::new(compiler).arg("--version").output().ok().filter(|output| output.status.success());
    let version = printed
        .map_or_else(|| "rustc".to_string(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    println!("cargo:rustc-env=POSTROOM_COMPARE_RUSTC={version}");
    println!("cargo:rerun-if-changed=build.rs");
}
