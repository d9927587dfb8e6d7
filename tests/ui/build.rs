//! Writes the programs that `corrected.rs` and `names.rs` include.

use std::path::Path;
use std::{env, fs};

// The macros' own modules, used to collect the words in their expansions.
#[allow(dead_code)]
#[path = "../../macros/src/check/mod.rs"]
mod check;
#[allow(dead_code)]
#[path = "../../macros/src/expand/mod.rs"]
mod expand;
#[allow(dead_code)]
#[path = "../../macros/src/parse/mod.rs"]
mod parse;
#[path = "paste.rs"]
mod paste;
#[path = "names/programs.rs"]
mod programs;

fn main() {
    for read in ["cases", "fixed", "paste.rs", "names", "../../macros/src"] {
        println!("cargo::rerun-if-changed={read}");
    }
    let (here, out) = (Path::new(env!("CARGO_MANIFEST_DIR")), env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let write = |name: &str, program: String| {
        fs::write(Path::new(&out).join(name), program).expect("OUT_DIR can be written to");
    };
    // `main.rs` fails if a case cannot be corrected.
    let (program, _) = paste::correct_all(here);
    write("corrected.rs", program);
    let read = |name: &str| fs::read_to_string(here.join("names").join(name)).expect("a sample can be read");
    write("names.rs", programs::all(&read("sample.rs"), &read("remote.rs")));
}
