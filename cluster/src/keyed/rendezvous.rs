//! The choice of a key's home node.

use postroom::NodeId;

/// Returns the home node of a key of a process type, among the nodes that export the type. All nodes, in any build, get
/// the same result.
///
/// ```
/// use postroom::NodeId;
/// use postroom_cluster::keyed::home;
///
/// let nodes = [1, 2, 3].map(|number| NodeId::new(number).unwrap());
/// let before = home("Account", "acct-7", nodes).unwrap();
/// // Removing another node does not move the key.
/// let others = nodes.into_iter().filter(|node| *node == before || *node != nodes[0]);
/// assert_eq!(home("Account", "acct-7", others), Some(before));
/// ```
pub fn home(process: &str, key: &str, exporters: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    let hash = KeyHash::of(process, key);
    exporters.into_iter().max_by_key(|node| hash.weight(*node))
}

/// The hash of a key and its process type, from which the weights of nodes are computed.
#[derive(Clone, Copy)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    pub(super) fn of(process: &str, key: &str) -> Self {
        // The two are separated by a byte that cannot occur in UTF-8.
        let start = 0xcbf2_9ce4_8422_2325;
        let bytes = process.bytes().chain([0xff]).chain(key.bytes());
        Self(bytes.fold(start, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// Returns the weight of a node. The home of the key is the node with the greatest weight.
    pub(super) fn weight(self, node: NodeId) -> (u64, NodeId) {
        #[cfg(test)]
        WEIGHTS.set(WEIGHTS.get() + 1);
        (mix(self.0 ^ mix(node.get())), node)
    }
}

#[cfg(test)]
thread_local! {
    /// Number of weights that this thread has computed.
    pub(super) static WEIGHTS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Spreads each bit over all others (the finalizer of SplitMix64, Steele et al. 2014). With FNV alone, the high bits of
/// similar keys would be alike.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u64) -> Vec<NodeId> {
        (1..=count).map(|number| NodeId::new(number).unwrap()).collect()
    }

    /// All builds must compute the same homes: a change here moves every key of a cluster.
    #[test]
    fn homes_are_those_of_every_build() {
        let homes: Vec<_> =
            (0..8).map(|key| home("Account", &format!("acct-{key}"), nodes(5)).unwrap().get()).collect();
        assert_eq!(homes, [5, 1, 3, 3, 5, 5, 2, 2]);
        assert_eq!(home("Account", "acct-7", []), None);
    }

    #[test]
    fn keys_are_spread_and_only_those_of_a_node_that_goes_move() {
        let (all, keys) = (nodes(10), 10_000);
        let mut count = [0; 11];
        let mut moved = 0;
        for key in 0..keys {
            let key = key.to_string();
            let before = home("Account", &key, all.iter().copied()).unwrap();
            count[before.get() as usize] += 1;
            let after = home("Account", &key, all.iter().copied().filter(|node| node.get() != 4)).unwrap();
            assert!(after == before || before.get() == 4);
            moved += u32::from(after != before);
        }
        assert!(count[1..].iter().all(|count| (850..1_150).contains(count)), "{count:?}");
        assert_eq!(moved, count[4]);
        let one = (0..1_000).filter(|key| {
            let key = key.to_string();
            home("Account", &key, all.iter().copied()) == home("Teller", &key, all.iter().copied())
        });
        assert!((50..150).contains(&one.count()), "keys of different types are apart");
    }
}
