//! Names of processes.

use crate::driver::{Food, fuzz};
use postroom::prelude::*;
use std::sync::OnceLock;

#[process]
struct Holder;

#[process]
impl Holder {
    #[entry]
    fn serve(&mut self) {}
}

/// The longest name, in bytes.
const LONGEST: usize = 1024;

pub fn target(data: &[u8]) -> u64 {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::builder().workers(1).build().expect("one worker"));
    let name = String::from_utf8_lossy(data).into_owned();
    let is_good = (1..=LONGEST).contains(&name.len());
    assert_eq!(runtime.whereis(&name), None);
    match runtime.spawn(Holder).named(name.clone()).serve() {
        Ok(holder) => {
            assert!(is_good, "{} bytes", name.len());
            let pid = holder.pid();
            assert_eq!(runtime.whereis(&name), Some(pid));
            let second = runtime.spawn(Holder).named(name.clone()).serve().map(|second| second.pid());
            let error = second.expect_err("it is taken").to_string();
            assert!(error.len() < 2 * LONGEST, "{error}");
            assert_eq!(runtime.unregister_name(&name), Some(pid));
            assert_eq!((runtime.whereis(&name), pid.is_alive()), (None, true));
            assert!(runtime.register_name(name.as_str(), pid).is_ok());
            let end = pid.join();
            pid.kill();
            end.wait();
            assert_eq!(runtime.whereis(&name), None, "the name ends with its process");
            1 + u64::from(name.len().ilog2()) + 16 * u64::from(name.is_ascii())
        }
        Err(error) => {
            assert!(!is_good, "{error}");
            assert!(error.to_string().len() < 600, "{error}");
            100 + u64::from(name.is_empty())
        }
    }
}

#[test]
fn names() {
    let long = [b'x'; LONGEST + 1];
    let corpus: &[&[u8]] = &[b"counter", b"a/b c\0\n", "ä€".as_bytes(), &long[..LONGEST], &long];
    let words: &[&[u8]] = &[b"\0", b"\xff", b"<1.0.0.0>", b"/", "\u{1f980}".as_bytes()];
    fuzz("names", &Food { corpus, words }, target);
}
