//! Callgrind's profile, by address, and the recognition of atomic instructions.

use std::collections::HashMap;

/// The execution count of each instruction, by object file and address.
#[derive(Debug, Default, PartialEq)]
pub struct Profile {
    pub objects: HashMap<String, HashMap<u64, u64>>,
}

impl Profile {
    /// Parses a profile with addresses and without abbreviations. The error has the number and the text of a line that
    /// cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut profile = Self::default();
        let mut object = "???";
        // The line after a call has the cost of the callee. The line is skipped, since that cost is also counted where
        // the callee ran.
        let mut is_call = false;
        let mut has_addresses = false;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(name) = line.strip_prefix("ob=") {
                object = name;
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line == "positions: instr line" {
                has_addresses = true;
            } else if line.starts_with("0x") {
                let read = if has_addresses { read(line) } else { None };
                let (address, count) = read.ok_or_else(|| (number, line.to_owned()))?;
                if !std::mem::take(&mut is_call) {
                    *profile.objects.entry(object.to_owned()).or_default().entry(address).or_default() += count;
                }
            }
        }
        if has_addresses { Ok(profile) } else { Err((text.lines().count(), "(end of file)".to_owned())) }
    }
}

/// Reads `ADDRESS LINE COUNT`.
fn read(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

/// Returns true if an instruction, as `objdump` prints it, takes a cache line for itself or waits until all stores are
/// visible. These are instructions with `lock`, exchanges with memory (which imply it), and the full fence.
pub fn is_exclusive(instruction: &str) -> bool {
    let instruction = instruction.trim_start();
    instruction.starts_with("lock ")
        || instruction.starts_with("mfence")
        || (instruction.starts_with("xchg") && instruction.contains('('))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_belongs_to_its_object_and_that_of_a_call_to_what_was_called() {
        let text = "# callgrind format\npositions: instr line\nevents: Ir\n\nob=/a\nfn=f\n0x10 0 3\n0x14 7 1\ncob=/b\n\
                    calls=1 0x20 0\n0x14 7 50\n\nob=/b\n0x20 0 50\n0x10 0 2\nob=/a\n0x10 0 1\n";
        let profile = Profile::parse(text).expect("it is right");
        assert_eq!(profile.objects["/a"], HashMap::from([(0x10, 4), (0x14, 1)]));
        assert_eq!(profile.objects["/b"], HashMap::from([(0x20, 50), (0x10, 2)]));
        assert_eq!(profile.objects.len(), 2);
    }

    #[test]
    fn a_profile_without_addresses_is_refused() {
        assert!(Profile::parse("positions: line\n7 1\n").is_err());
        assert_eq!(Profile::parse("positions: instr line\n0x10 0\n"), Err((2, "0x10 0".to_owned())));
    }

    #[test]
    fn exchanges_with_memory_and_locked_instructions_are_atomic() {
        for atomic in ["lock cmpxchg %rcx,(%rdx)", "xchg   %rax,0x8(%rdi)", "lock orl $0x0,(%rsp)", "mfence"] {
            assert!(is_exclusive(atomic), "{atomic}");
        }
        for plain in ["xchg   %ax,%ax", "mov    %rax,(%rdi)", "sfence", "cmpxchg %rcx,(%rdx)"] {
            assert!(!is_exclusive(plain), "{plain}");
        }
    }
}
