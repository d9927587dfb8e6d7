//! Sets `cfg(loom)` for this package alone: production modules leave out what only holds for the real atomics (sizes).

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"futures\", \"serde\", \"tokio\"))");
    println!("cargo::rerun-if-changed=build.rs");
}
