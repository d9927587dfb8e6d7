//! Cuts a stream of text into words: runs of ASCII letters, in lower case. The stream comes in chunks. A word that is
//! cut by the end of a chunk is carried over to the next chunk.

const GAP: u8 = b' ';

#[derive(Default)]
pub struct Splitter {
    carry: Vec<u8>,
}

impl Splitter {
    /// Calls `with` for every word that ends in this chunk. Uses the chunk as working space.
    pub fn each(&mut self, chunk: &mut [u8], mut with: impl FnMut(&[u8])) {
        // The first loop goes over all bytes without branches, so the compiler turns it into vector instructions.
        for byte in &mut *chunk {
            let lower = *byte | 0x20;
            *byte = if lower.is_ascii_lowercase() { lower } else { GAP };
        }
        let mut text = &*chunk;
        if !self.carry.is_empty() {
            let end = text.iter().position(|byte| *byte == GAP);
            let (head, tail) = text.split_at(end.unwrap_or(text.len()));
            self.carry.extend_from_slice(head);
            if end.is_none() {
                return;
            }
            with(&self.carry);
            self.carry.clear();
            text = tail;
        }
        let last = text.iter().rposition(|byte| *byte == GAP).map_or(0, |at| at + 1);
        let (whole, carry) = text.split_at(last);
        whole.split(|byte| *byte == GAP).filter(|word| !word.is_empty()).for_each(with);
        self.carry.extend_from_slice(carry);
    }
}
