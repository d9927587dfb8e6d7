//! Writes the corrected cases into one program, which `corrected.rs` includes.

use std::path::Path;
use std::{env, fs};

#[path = "paste.rs"]
mod paste;

fn main() {
    for read in ["cases", "fixed", "paste.rs"] {
        println!("cargo::rerun-if-changed={read}");
    }
    // `main.rs` fails if a case cannot be corrected.
    let (program, _) = paste::correct_all(Path::new(env!("CARGO_MANIFEST_DIR")));
    let out = env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("corrected.rs"), program).expect("OUT_DIR can be written to");
}
