//! Fallible methods are recognized by their return type, not by its name: a `Result` behind an alias, from a macro or
//! in parentheses counts, and another type that is named `Result` does not.

use postroom::prelude::*;
use std::fmt::Debug;
use std::time::Duration;

/// An alias that hides the `Result` from the macro.
type Outcome<T = ()> = Result<T, String>;

macro_rules! outcome {
    ($ok:ty) => { Outcome<$ok> };
}

/// A type that is named `Result`, in a module of its own since it would shadow the standard one.
mod exam {
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct Result {
        pub(super) mark: u8,
    }
}

/// Defines a process whose methods spell `Result` in every possible way. Each method that returns one fails.
macro_rules! every_way {
    ($name:ident, $on_error:literal, $text:ty, $whole:ty, $reply:ty, $context:ty) => {
        #[process(on_error = $on_error)]
        #[derive(Default)]
        struct $name {
            waiting: Vec<Reply<Outcome<u8>>>,
        }
        every_way!(@ $name, $text, $whole, $reply, $context);
    };
    (@ $name:ident, $text:ty, $whole:ty, $reply:ty, $context:ty) => {
        #[process]
        impl $name {
            #[entry]
            fn serve(&mut self) {}
            #[entry]
            fn refuse(&mut self) -> $whole {
                Err("refused".to_string())
            }
            #[entry]
            async fn import(&mut self) -> Outcome<u8> {
                Err("import".to_string())
            }
            #[entry]
            async fn whole(&mut self, ctx: $context) -> $whole {
                ctx.stop();
                Err("whole".to_string())
            }
            #[entry]
            async fn made(&mut self) -> outcome!(u8) {
                Err("made".to_string())
            }
            #[message]
            fn alias(&mut self) -> Outcome {
                Err("alias".to_string())
            }
            #[message]
            async fn alias_later(&mut self) -> Outcome<u8> {
                std::future::ready(()).await;
                Err("alias later".to_string())
            }
            #[message]
            fn fragment(&mut self, ctx: $context) -> $whole {
                let _ = ctx.pid();
                Err("fragment".to_string())
            }
            #[message]
            fn expanded(&mut self) -> outcome!(u8) {
                Err("expanded".to_string())
            }
            #[message]
            #[expect(unused_parens, reason = "that they make no difference")]
            fn in_parentheses(&mut self) -> (Result<u8, String>) {
                Err("in parentheses".to_string())
            }
            #[message]
            fn by_reply(&mut self, reply: Reply<Outcome<u8>>) {
                reply.send(Err("by reply".to_string()));
            }
            #[message]
            fn by_fragment(&mut self, reply: $reply) {
                self.waiting.push(reply);
                self.waiting.drain(..).for_each(|reply| reply.send(Err("by fragment".to_string())));
            }
            #[message]
            fn inner_fragment(&mut self, reply: Reply<$whole>) {
                reply.send(Err("inner fragment".to_string()));
            }
            #[message]
            fn echo(&mut self, text: $text) -> $text {
                text
            }
            #[message]
            fn mark(&mut self) -> exam::Result {
                exam::Result { mark: 1 }
            }
        }
    };
}

every_way!(Patient, "report", String, Result<(), String>, Reply<Outcome<u8>>, &mut Context<Self>);
every_way!(Strict, "end", String, Result<(), String>, Reply<Outcome<u8>>, &mut Context<Self>);

fn failed<T: Debug + PartialEq>(answer: Result<T, CallError<String>>, text: &str) {
    assert_eq!(answer, Err(CallError::Failed(text.to_string())));
}

#[test]
fn an_error_is_known_however_its_type_is_written() {
    let runtime = Runtime::new().unwrap();
    let patient = runtime.spawn(Patient::default()).serve().unwrap();
    failed(patient.alias().wait(), "alias");
    failed(patient.alias_later().wait(), "alias later");
    failed(patient.fragment().wait(), "fragment");
    failed(patient.expanded().wait(), "expanded");
    failed(patient.in_parentheses().wait(), "in parentheses");
    failed(patient.by_reply().wait(), "by reply");
    failed(patient.by_fragment().wait(), "by fragment");
    failed(patient.inner_fragment().wait(), "inner fragment");
    assert_eq!(patient.echo("text".to_string()).wait(), Ok("text".to_string()));
    assert_eq!(patient.mark().wait(), Ok(exam::Result { mark: 1 }));
    assert!(patient.pid().is_alive());
}

#[test]
fn an_error_of_a_sent_message_ends_its_process_however_its_type_is_written() {
    let runtime = Runtime::new().unwrap();
    let sends: [fn(Address<Strict>); 5] = [
        |strict| strict.alias().send().unwrap(),
        |strict| strict.alias_later().send().unwrap(),
        |strict| strict.fragment().send().unwrap(),
        |strict| strict.expanded().send().unwrap(),
        |strict| strict.in_parentheses().send().unwrap(),
    ];
    for (send, text) in sends.into_iter().zip(["alias", "alias later", "fragment", "expanded", "in parentheses"]) {
        let strict = runtime.spawn(Strict::default()).serve().unwrap();
        let end = strict.pid().join();
        send(strict);
        let reason = end.wait();
        assert!(matches!(reason, ExitReason::Error(_)) && reason.to_string().contains(text), "{reason}");
    }
}

#[test]
fn an_entry_that_fails_ends_its_process_with_the_error_however_its_type_is_written() {
    let runtime = Runtime::new().unwrap();
    let text = |text: &str| text.to_string();
    assert_eq!(runtime.spawn(Patient::default()).import().unwrap().wait(), Err(RunError::Failed(text("import"))));
    assert_eq!(runtime.spawn(Patient::default()).whole().unwrap().wait(), Err(RunError::Failed(text("whole"))));
    assert_eq!(runtime.spawn(Patient::default()).made().unwrap().wait(), Err(RunError::Failed(text("made"))));
    let refused = runtime.spawn(Patient::default()).refuse();
    assert!(matches!(refused, Err(SpawnError::Init(_))), "{refused:?}");

    let running = runtime.spawn(Patient::default()).import().unwrap();
    let end = running.address().pid().join();
    assert!(running.wait().is_err());
    let reason = end.wait();
    assert!(matches!(reason, ExitReason::Error(_) | ExitReason::NoProcess), "{reason}");
}

#[test]
fn a_transient_child_whose_entry_fails_under_another_name_is_restarted_until_its_supervisor_gives_up() {
    let runtime = Runtime::new().unwrap();
    let import = Child::new("import", |spawn| spawn.of(Patient::default()).import()).transient();
    let tree = Supervisor::one_for_one().intensity(1, Duration::MAX).add(import).spawn(&runtime).unwrap();
    // If the error were missed, the child would end normally, and its supervisor would go on without children.
    let reason = tree.pid().join().wait();
    assert!(!matches!(reason, ExitReason::Normal), "{reason}");
}

type Stored<K> = Result<Vec<K>, String>;
type Of<K> = <K as Keyed>::Key;

trait Keyed: Send + 'static {
    type Key: Send + 'static;
}

impl Keyed for u8 {
    type Key = Result<u8, String>;
}

/// A type with a bound on its parameter, which a generated constant cannot mention.
#[derive(Debug, PartialEq)]
struct Page<K: Keyed, const N: usize>([K; N]);

trait Family: Send + 'static {
    type Of<T: Send + 'static>: Send + 'static;
}

impl Family for Vec<()> {
    type Of<T: Send + 'static> = Vec<T>;
}

/// A trait whose associated type has the name of the process's parameter.
trait Named: Send {
    type F;
}

#[process]
struct Cellar<F: Family>(Option<F::Of<u8>>);

#[process]
impl<F: Family> Cellar<F> {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn get(&mut self) -> Option<F::Of<u8>> {
        self.0.take()
    }
    #[message]
    fn find(&mut self) -> Result<<F as Family>::Of<u8>, String> {
        self.0.take().ok_or_else(|| "nothing".to_string())
    }
    #[message]
    fn later(&mut self, reply: Reply<Result<F::Of<u8>, String>>) {
        reply.send(self.find());
    }
    #[message]
    fn named(&mut self) -> Option<Box<dyn Named<F = u8>>> {
        None
    }
}

#[test]
fn a_generic_associated_type_may_be_an_answer() {
    let runtime = Runtime::new().unwrap();
    let cellar = runtime.spawn(Cellar::<Vec<()>>(Some(vec![1]))).serve().unwrap();
    assert_eq!(cellar.get().wait(), Ok(Some(vec![1])));
    failed(cellar.find().wait(), "nothing");
    failed(cellar.later().wait(), "nothing");
    assert!(cellar.named().wait().unwrap().is_none());
}

#[process]
struct Store<K: Keyed, const N: usize> {
    keys: Vec<K>,
}

#[process]
impl<K: Keyed, const N: usize> Store<K, N> {
    #[entry]
    fn serve(&mut self) {}
    #[entry]
    async fn load(&mut self) -> Stored<K> {
        Err(format!("load {N}"))
    }
    /// Returns an alias that uses the parameter.
    #[message]
    fn alias(&mut self) -> Stored<K> {
        Err("alias".to_string())
    }
    #[message]
    fn page(&mut self, page: Page<K, N>) -> Outcome<Page<K, N>> {
        let _ = page;
        Err("page".to_string())
    }
    #[message]
    fn same_page(&mut self, page: Page<K, N>) -> Page<K, N> {
        page
    }
    #[message]
    fn alias_later(&mut self, reply: Reply<Stored<K>>) {
        reply.send(Err("alias later".to_string()));
    }
    #[message]
    fn qualified(&mut self) -> Result<K::Key, <K as Keyed>::Key> {
        Ok(unreachable_key::<K>())
    }
    /// A type that depends on a parameter is a plain value, even if it resolves to a `Result`.
    #[message]
    fn first(&mut self, key: K::Key) -> K::Key {
        key
    }
    #[message]
    fn back(&mut self, key: K) -> K {
        key
    }
    #[message]
    fn myself(&mut self, me: Address<Self>) -> Option<Address<Self>> {
        self.keys.clear();
        Some(me)
    }
}

fn unreachable_key<K: Keyed>() -> K::Key {
    panic!("never called: {}", std::any::type_name::<Of<K>>())
}

#[test]
fn an_alias_of_a_generic_process_may_use_its_parameters() {
    let runtime = Runtime::new().unwrap();
    let store = runtime.spawn(Store::<u8, 2> { keys: vec![1] }).serve().unwrap();
    failed(store.alias().wait(), "alias");
    failed(store.alias_later().wait(), "alias later");
    failed(store.page(Page([1, 2])).wait(), "page");
    assert_eq!(store.same_page(Page([1, 2])).wait(), Ok(Page([1, 2])));
    assert_eq!(store.first(Err("a value".to_string())).wait(), Ok(Err("a value".to_string())));
    assert_eq!(store.back(3).wait(), Ok(3));
    assert_eq!(store.myself(store).wait().unwrap().map(|me| me.pid()), Some(store.pid()));
    let loaded = runtime.spawn(Store::<u8, 2> { keys: vec![] }).load().unwrap().wait();
    assert_eq!(loaded, Err(RunError::Failed("load 2".to_string())));
}

/// A protocol that uses aliases for its answer types, which implementations may write out.
#[protocol]
trait Shelf {
    fn put(&mut self, book: String) -> Outcome<usize>;
    fn take(&mut self) -> outcome!(String);
    fn lend(&mut self) -> Outcome;
}

#[process]
struct Wood;

#[process(protocols(Shelf))]
impl Wood {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Shelf for Wood {
    fn put(&mut self, book: String) -> Result<usize, String> {
        Err(book)
    }
    fn take(&mut self) -> Outcome<String> {
        Err("take".to_string())
    }
    fn lend(&mut self) -> Outcome {
        Err("lend".to_string())
    }
}

#[process]
struct Steel;

#[process(protocols(Shelf))]
impl Steel {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Shelf for Steel {
    async fn put(&mut self, book: String) -> Result<usize, String> {
        Err(book)
    }
    fn take(&mut self, reply: Reply<Result<String, String>>) {
        reply.send(Err("take".to_string()));
    }
    fn lend(&mut self) -> Outcome {
        Err("lend".to_string())
    }
}

#[test]
fn a_protocol_and_those_who_answer_it_may_name_an_error_differently() {
    let runtime = Runtime::new().unwrap();
    let shelves: [Address<dyn Shelf>; 2] =
        [runtime.spawn(Wood).serve().unwrap().narrow(), runtime.spawn(Steel).serve().unwrap().narrow()];
    for shelf in shelves {
        failed(shelf.put("book".to_string()).wait(), "book");
        failed(shelf.take().wait(), "take");
        failed(shelf.lend().wait(), "lend");
    }
}

#[process]
struct Eight;

macro_rules! block {
    ($process:ty, $sum:ty) => {
        #[process]
        impl $process {
            #[entry]
            fn serve(self: &mut Self) {}
            /// The presence of a method, and the attributes of its message type, may depend on `cfg_attr`.
            #[message]
            #[cfg_attr(all(), derive(Clone, Debug, PartialEq), must_use)]
            #[cfg_attr(any(), derive(Default))]
            fn add(&mut self, #[cfg_attr(all(), doc = "The first.")] by: $sum, and: $sum) -> $sum {
                by + and
            }
            #[message]
            #[cfg_attr(all(), cfg(any()))]
            fn gone(&mut self, missing: Missing) {}
            #[cfg_attr(any(), cfg(any()))]
            #[message]
            fn here(&self) {}
        }
    };
}
block!(Eight, u64);

#[test]
fn fragments_and_conditional_attributes_are_understood() {
    let runtime = Runtime::new().unwrap();
    let eight = runtime.spawn(Eight).serve().unwrap();
    let add = EightAdd { by: 3, and: 5 };
    assert_eq!(add.clone(), add);
    assert_eq!(eight.add(3, 5).wait(), Ok(8));
    eight.here().wait().unwrap();
}
