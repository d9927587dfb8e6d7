//! Rendezvous hashing: the same node for the same key, wherever it is asked for.

use postroom::NodeId;

/// Returns the node that a key belongs to: the one with the greatest hash of the key and its ID (highest random weight;
/// Thaler and Ravishankar, 1998). When a node comes or goes, only the keys move that it gets or had.
pub(crate) fn choose(key: &str, nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    nodes.into_iter().max_by_key(|node| (weight(key, *node), *node))
}

/// FNV-1a, which is the same in all builds, over the key and the ID; its last bytes reach the upper bits by the
/// finalizer of `MurmurHash3`.
fn weight(key: &str, node: NodeId) -> u64 {
    let bytes = key.bytes().chain(node.get().to_be_bytes());
    let mut hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes whose IDs differ in one bit, as badly spread as can be.
    fn nodes(count: u64) -> Vec<NodeId> {
        (1..=count).map(|id| NodeId::new(id).unwrap()).collect()
    }

    fn keys() -> impl Iterator<Item = String> {
        (0..10_000).map(|number| format!("order-{number}"))
    }

    #[test]
    fn each_node_gets_its_share() {
        let mut counts = [0; 8];
        keys().for_each(|key| counts[choose(&key, nodes(8)).unwrap().get() as usize - 1] += 1);
        assert!(counts.iter().all(|count| (1_000..1_500).contains(count)), "{counts:?}");
        assert_eq!(choose("order-1", []), None);
    }

    #[test]
    fn only_the_keys_of_a_node_that_goes_move() {
        let (all, gone) = (nodes(8), NodeId::new(3).unwrap());
        for key in keys() {
            let before = choose(&key, all.iter().copied()).unwrap();
            let after = choose(&key, all.iter().copied().rev().filter(|node| *node != gone)).unwrap();
            assert!(after == before || before == gone, "{key}: {before} to {after}");
        }
    }

    /// Nodes of two builds have to agree, so the hash must not change.
    #[test]
    fn the_hash_is_that_of_all_builds() {
        // Computed apart from this code.
        assert_eq!(weight("order-17", NodeId::new(7).unwrap()), 5_255_222_826_755_951);
    }
}
