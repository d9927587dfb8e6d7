//! Sets `cfg(loom)` for this package alone. Under it, production modules leave out checks that hold only for the real
//! atomics (of their sizes).

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"futures\", \"serde\", \"tokio\"))");
    println!("cargo::rerun-if-changed=build.rs");
}
