//! Process identifiers: sixteen bytes, never reused.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// The number of bits of a PID that identify a process among those that its slot has carried.
pub(crate) const GENERATION_BITS: u32 = 36;
/// The number of bits of a PID that identify a slot of a program.
pub(crate) const SLOT_BITS: u32 = 28;
const NODE_BITS: u32 = 48;
const HOST_BITS: u32 = 16;

/// Mask for the bits of a generation in a word.
pub(crate) const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// Marks a generation as that of an alias, whose slot is an entry of the alias table.
const POINTING: u64 = 1 << (GENERATION_BITS - 1);

/// The largest generation of a process, and the largest number of an alias. A slot that has used up its generations is
/// retired.
pub(crate) const LAST_GENERATION: u64 = POINTING - 1;

/// The identifier of a process: node, host, slot and generation in sixteen bytes.
///
/// A PID is `Copy`, compares and hashes as a number, and is never reused while its node lives: the slot of an ended
/// process gets a new generation before it is reused. Finding the process costs an index and two comparisons. All parts
/// are compared. So if any part of a PID is wrong, as can happen when one is parsed, it identifies no process.
///
/// | part | bits | meaning |
/// |---|---|---|
/// | node | 48 | one run of one program |
/// | host | 16 | one scheduler in that program |
/// | slot | 28 | the place in which the process is kept |
/// | generation | 36 | the number of the process among those kept in that place |
///
/// The upper half of the generations is reserved for [aliases](Pid::is_alias), each of which refers to the process that
/// currently serves, such as a supervised child or a member of a pool. They are used like any other PID.
///
/// The text form `<node.host.slot.generation>` (node in hexadecimal) parses back:
///
/// ```
/// use postroom::Pid;
///
/// let pid: Pid = "<7f3a.1.42.9>".parse()?;
/// assert_eq!(pid.to_string(), "<7f3a.1.42.9>");
/// assert!("<7f3a.1.42>".parse::<Pid>().is_err());
/// # Ok::<(), postroom::error::ParsePidError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid {
    /// Node and host; never zero, so that `Option<Pid>` also takes sixteen bytes.
    place: NonZeroU64,
    slot_and_generation: u64,
}

const _: () = assert!(size_of::<Pid>() == 16 && size_of::<Option<Pid>>() == 16);
const _: () = assert!(SLOT_BITS + GENERATION_BITS == 64 && NODE_BITS + HOST_BITS == 64);

/// Packs slot and generation, which identify a process of this program, into a word.
#[inline]
pub(crate) fn incarnation(slot: u32, generation: u64) -> u64 {
    u64::from(slot) << GENERATION_BITS | generation
}

impl Pid {
    /// Composes a PID. `node` is truncated to 48 bits, which must not be zero; `generation` is truncated to 36.
    pub(crate) fn new(node: NodeId, host: u16, slot: u32, generation: u64) -> Self {
        debug_assert!(slot < 1 << SLOT_BITS && generation <= GENERATION_MASK);
        let place = NonZeroU64::new(node.0.get() << HOST_BITS | u64::from(host)).expect("a node id is not zero");
        Self { place, slot_and_generation: incarnation(slot, generation & GENERATION_MASK) }
    }

    /// Composes an alias: the `number`th that entry `slot` of the alias table has held.
    pub(crate) fn of_alias(node: NodeId, host: u16, slot: u32, number: u64) -> Self {
        debug_assert!(number <= LAST_GENERATION);
        Self::new(node, host, slot, POINTING | number)
    }

    #[inline]
    pub(crate) fn of_words(place: NonZeroU64, incarnation: u64) -> Self {
        Self { place, slot_and_generation: incarnation }
    }

    /// Returns slot and generation as one word.
    #[inline]
    pub(crate) fn incarnation(self) -> u64 {
        self.slot_and_generation
    }

    /// Returns node and host as one word.
    pub(crate) fn place(self) -> NonZeroU64 {
        self.place
    }

    /// Returns the node that the process lives on. A node is one run of a program.
    #[inline]
    pub fn node(self) -> NodeId {
        NodeId(NonZeroU64::new(self.place.get() >> HOST_BITS).expect("a PID is made from a node id"))
    }

    /// Returns whether the process lives on `node`.
    #[inline]
    pub(crate) fn is_of(self, node: NodeId) -> bool {
        self.place.get() >> HOST_BITS == node.0.get()
    }

    /// Returns the number of the process's host on its node.
    #[inline]
    pub fn host_number(self) -> u16 {
        (self.place.get() & ((1 << HOST_BITS) - 1)) as u16
    }

    /// Returns the index of the process's slot.
    #[inline]
    pub fn slot(self) -> u32 {
        (self.slot_and_generation >> GENERATION_BITS) as u32
    }

    /// Returns the PID as bytes, for custom formats; all bits are kept.
    ///
    /// ```
    /// use postroom::Pid;
    ///
    /// let pid: Pid = "<7f3a.1.42.9>".parse()?;
    /// assert_eq!(Pid::from_bytes(pid.to_bytes()), Some(pid));
    /// assert_eq!(Pid::from_bytes([0; 16]), None);
    /// # Ok::<(), postroom::error::ParsePidError>(())
    /// ```
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.place.get()) << 64 | u128::from(self.slot_and_generation)).to_be_bytes()
    }

    /// Returns the PID with these [bytes](Self::to_bytes), or `None` if they name no node.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        let words = u128::from_be_bytes(bytes);
        let place = NonZeroU64::new((words >> 64) as u64)?;
        NodeId::new(place.get() >> HOST_BITS)?;
        Some(Self { place, slot_and_generation: words as u64 })
    }

    /// Returns the generation: the number of the process among those of its slot.
    #[inline]
    pub fn generation(self) -> u64 {
        self.slot_and_generation & GENERATION_MASK
    }

    /// Returns whether the PID is an alias of the process that currently serves, such as a restarted child or a member
    /// of a pool.
    ///
    /// Messages go to that process; [`stop`](Pid::stop), [`join`](Pid::join), [`info`](Pid::info) and similar
    /// operations apply to the child itself or, for a pool, to the pool's own process. The cost is one test of the
    /// PID.
    #[inline]
    pub fn is_alias(self) -> bool {
        self.slot_and_generation & POINTING != 0
    }

    /// Returns the number of an alias within its table entry.
    pub(crate) fn number(self) -> u64 {
        self.slot_and_generation & LAST_GENERATION
    }
}

/// The place of a process, for modules that do not know about slots.
pub(crate) trait Resident: Sync {
    /// Returns the PID of the process in that place, or of the last process that was in it.
    fn resident(&self) -> Option<Pid>;
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}.{}.{}.{}>", self.node(), self.host_number(), self.slot(), self.generation())
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Identifies one run of one program: 48 bits, never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(NonZeroU64);

impl NodeId {
    /// Returns the node ID with this number, or `None` if the number is zero or not below 2^48.
    #[inline]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|number| number.get() < 1 << NODE_BITS).map(Self)
    }

    /// Returns the number.
    #[inline]
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Creates a node ID from random `bits`.
    pub(crate) fn from_random(bits: u64) -> Self {
        Self::new(bits >> HOST_BITS).unwrap_or(Self(NonZeroU64::MIN))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

/// The error for text that is not a PID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a PID: {what}; write it as `<node.host.slot.generation>`, as a PID prints itself")]
pub struct ParsePidError {
    text: String,
    what: &'static str,
}

impl FromStr for Pid {
    type Err = ParsePidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The error does not repeat long text, which may be a whole request.
        let fail = |what| ParsePidError { text: text.chars().take(80).collect(), what };
        let inner = text
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'))
            .ok_or_else(|| fail("it is not enclosed in `<` and `>`"))?;
        let mut parts = inner.split('.');
        let mut part = |what| parts.next().filter(|part| is_plain_number(part)).ok_or_else(|| fail(what));
        let node = part("the node is missing")?;
        let host = part("the host is missing or not a number")?;
        let slot = part("the slot is missing or not a number")?;
        let generation = part("the generation is missing or not a number")?;
        if parts.next().is_some() {
            return Err(fail("it has more than four parts"));
        }
        let node = u64::from_str_radix(node, 16).ok().and_then(NodeId::new).ok_or_else(|| fail("no such node"))?;
        let host = host.parse().map_err(|_| fail("the host is not a number below 65536"))?;
        let slot =
            slot.parse().ok().filter(|&slot| slot < 1 << SLOT_BITS).ok_or_else(|| fail("the slot is out of range"))?;
        let generation = generation
            .parse()
            .ok()
            .filter(|&generation| generation <= GENERATION_MASK)
            .ok_or_else(|| fail("the generation is out of range"))?;
        Ok(Self::new(node, host, slot, generation))
    }
}

/// Returns whether a part has only digits: `from_str` of the number types would accept a sign.
fn is_plain_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(feature = "serde")]
mod serde_forms {
    use super::Pid;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    /// Serialized as text in human-readable formats, and as sixteen bytes in others.
    impl Serialize for Pid {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if serializer.is_human_readable() {
                serializer.collect_str(self)
            } else {
                self.to_bytes().serialize(serializer)
            }
        }
    }

    impl<'de> Deserialize<'de> for Pid {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if deserializer.is_human_readable() {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            } else {
                Self::from_bytes(<[u8; 16]>::deserialize(deserializer)?)
                    .ok_or_else(|| D::Error::custom("a PID without a node"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_text_parses_back() {
        for (node, host, slot, generation) in
            [(1, 0, 0, 0), (0xffff_ffff_ffff, u16::MAX, (1 << SLOT_BITS) - 1, GENERATION_MASK), (77, 3, 4096, 1 << 35)]
        {
            let pid = Pid::new(NodeId::new(node).unwrap(), host, slot, generation);
            assert_eq!(
                (pid.node().get(), pid.host_number(), pid.slot(), pid.generation()),
                (node, host, slot, generation)
            );
            assert_eq!(pid.to_string().parse(), Ok(pid));
            assert_eq!(Pid::from_bytes(pid.to_bytes()), Some(pid));
        }
        // A PID with a host but no node.
        assert_eq!(Pid::from_bytes((1_u128 << 64).to_be_bytes()), None);
    }

    #[test]
    fn the_upper_half_of_the_generations_points_on() {
        let node = NodeId::new(1).unwrap();
        assert!(!Pid::new(node, 0, 5, LAST_GENERATION).is_alias());
        let pid = Pid::of_alias(node, 0, 5, LAST_GENERATION);
        assert!(pid.is_alias());
        assert_eq!((pid.slot(), pid.number(), pid.generation()), (5, LAST_GENERATION, GENERATION_MASK));
    }

    #[test]
    fn what_is_no_pid_is_refused_with_its_reason() {
        for text in
            ["", "<>", "<1.2.3>", "<1.2.3.4.5>", "<0.0.0.0>", "<1.70000.0.0>", "<1.0.268435456.0>", "<1.+0.0.0>"]
        {
            assert!(text.parse::<Pid>().is_err(), "{text}");
        }
        assert!("<1.2.3>".parse::<Pid>().unwrap_err().to_string().contains("generation is missing"));
    }
}
