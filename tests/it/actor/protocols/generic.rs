//! Generic protocols and processes.

use super::*;

/// A generic protocol.
#[protocol]
pub trait Map<K, V: Clone>
where
    K: Ord,
{
    fn insert(&mut self, key: K, value: V) -> Option<V>;
    fn lookup(&self, key: K) -> Option<V>;
    fn size(&self) -> usize;
}

/// A generic process that implements [`Map`] for all parameters.
#[process]
struct Tree<K: Ord + Send + 'static, V: Clone + Send + 'static> {
    kept: BTreeMap<K, V>,
}

#[process(protocols(Map<K, V>, Audit))]
impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Tree<K, V> {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Map<K, V> for Tree<K, V> {
    fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.kept.insert(key, value)
    }

    fn lookup(&self, key: K) -> Option<V> {
        self.kept.get(&key).cloned()
    }

    fn size(&self) -> usize {
        self.kept.len()
    }
}

#[process]
impl<K: Ord + Send + 'static, V: Clone + Send + 'static> Audit for Tree<K, V> {
    async fn count(&mut self) -> usize {
        self.kept.len()
    }
}

/// A process that implements [`Map`] for one choice of parameters.
#[process]
struct Squares;

#[process(protocols(self::Map<u8, u32>))]
impl Squares {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Map<u8, u32> for Squares {
    fn insert(&mut self, _key: u8, value: u32) -> Option<u32> {
        Some(value)
    }

    fn lookup(&self, key: u8) -> Option<u32> {
        Some(u32::from(key) * u32::from(key))
    }

    async fn size(&self, ctx: &mut Context<Self>) -> usize {
        ctx.sleep(std::time::Duration::ZERO).await;
        256
    }
}

#[test]
fn protocols_and_processes_may_be_generic() {
    soon(|| {
        let runtime = Runtime::new().unwrap();
        let tree = runtime.spawn(Tree { kept: BTreeMap::new() }).serve().unwrap();
        tree.insert(3_u8, 9_u32).wait().unwrap();
        let squares = runtime.spawn(Squares).serve().unwrap();
        for map in [tree.narrow::<Address<dyn Map<u8, u32>>>(), squares.narrow()] {
            assert_eq!(map.lookup(3).wait(), Ok(Some(9)));
        }
        assert_eq!(tree.count().wait(), Ok(1));
        assert_eq!(squares.size().wait(), Ok(256));
        assert_eq!(runtime.address::<dyn Map<u8, u32>>(tree.pid()), Ok(tree.narrow()));
        assert!(runtime.address::<dyn Map<u8, u64>>(tree.pid()).is_err());
        runtime.send(tree, MapInsert { key: 1_u8, value: 1_u32 }).unwrap();
    });
}
