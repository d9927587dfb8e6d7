//! Code that must compile and work: every shape of process, entry, message and signal, under strict lints. Names are
//! chosen to clash with those in generated code.

#![forbid(unsafe_code)]
#![deny(missing_docs, warnings, unreachable_pub, private_interfaces)]

use postroom::prelude::*;
use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

type Result<T, E = BankError> = std::result::Result<T, E>;

/// Error.
#[derive(Debug)]
pub enum BankError {
    /// Down.
    Down,
}
impl std::fmt::Display for BankError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("down")
    }
}
impl std::error::Error for BankError {}

/// A report.
#[derive(Debug, Clone)]
pub struct Report;
/// A tick.
pub struct Tick;
/// A line.
pub struct Line;
struct Secret;

/// Bank.
#[process]
pub enum Bank {
    /// Open.
    Open,
    /// Shut.
    Shut,
}
#[process]
impl Bank {
    #[entry]
    fn open(&mut self) {
        *self = Bank::Open;
    }
    /// Shuts.
    #[entry]
    pub async fn forever(&mut self) -> ! {
        *self = Bank::Shut;
        loop {
            std::future::pending::<()>().await
        }
    }
}

/// Account.
#[process(name = "acct", on_error = "end", crate = postroom)]
#[derive(Debug, Default)]
pub struct Account {
    balance: i64,
    peer: Option<Pid>,
}

#[process]
impl Account {
    /// Constant.
    pub const SIZE: usize = 4;
    /// Serves.
    #[entry]
    pub fn serve(&mut self, opening: i64) {
        self.balance = opening;
    }
    #[entry]
    fn checked(&mut self, ctx: &mut Context<Self>, mut opening: i64) -> Result<()> {
        let _ = ctx;
        opening += 1;
        self.balance = opening;
        Ok(())
    }
    /// Accrues.
    #[entry]
    pub async fn accrue(&mut self, ctx: &mut Context<Self>, rate: f64) -> Result<i64, BankError> {
        ctx.sleep(Duration::from_millis(1)).await;
        let _ = rate;
        Ok(self.balance)
    }
    #[entry]
    async fn aliased(&mut self) -> Result<i64> {
        Ok(self.balance)
    }
    #[entry]
    #[cfg(any())]
    async fn gone(&mut self, missing: Missing) {}
    #[entry]
    async fn plain(&mut self, ctx: &mut Context<Account>, r#type: String, this: u8, package: u8) -> Vec<u8> {
        let _ = (ctx, r#type, this, package);
        vec![]
    }

    /// Puts money in.
    ///
    /// ```
    /// assert_eq!(1, 1);
    /// ```
    #[message]
    #[derive(Debug, Clone)]
    pub fn deposit(
        &mut self,
        /// in cents
        amount: i64,
    ) -> i64 {
        self.balance += amount;
        self.balance
    }
    /// Balance.
    #[message]
    #[must_use]
    pub fn balance(&self) -> i64 {
        self.balance
    }
    #[message]
    /// Doc.
    pub async fn audit(&mut self, ctx: &mut Context<Self>, bank: Address<Bank>) -> Result<Report, BankError> {
        ctx.sleep(Duration::from_millis(1)).await;
        let _ = bank;
        Ok(Report)
    }
    #[message]
    fn io(&mut self) -> std::io::Result<u8> {
        Ok(1)
    }
    #[message]
    /// Doc.
    pub fn fetch(&mut self, key: String, reply: Reply<Result<Vec<u8>, BankError>>) {
        reply.send(Ok(key.into_bytes()));
    }
    #[message]
    async fn fetch_later(&mut self, reply: Reply<std::io::Result<u8>>) {
        std::future::ready(()).await;
        reply.send(Ok(1));
    }
    #[message]
    fn pass(&mut self, reply: Reply<u8>) {
        reply.send(1);
    }
    #[message]
    /// Doc.
    pub fn tail(&mut self, from: u64, replies: Replies<Line>) {
        let _ = from;
        let _ = replies.send(Line);
    }
    #[message(Tick)]
    /// Doc.
    pub fn tick(&mut self, tick: Tick) {
        let _ = tick;
    }
    #[message]
    fn peer(&mut self, peer: Address<Self>, other: Vec<Self>, bytes: [u8; Self::SIZE]) -> Option<Address<Self>> {
        let _ = (other, bytes);
        self.peer = Some(peer.pid());
        Some(peer)
    }
    #[message]
    fn secret(&mut self, secret: Secret) -> Secret {
        secret
    }
    #[message]
    fn r#move(&mut self, r#fn: u8, caller: u8, package: u8, ctx: u8, out: u8) -> u8 {
        r#fn + caller + package + ctx + out
    }
    #[message]
    /// Doc.
    pub fn entries(&mut self) {}
    #[message]
    fn client(&mut self) {}
    #[message]
    #[deprecated]
    fn old(&mut self) {}
    #[message]
    #[cfg(any())]
    fn never(&mut self, missing: Missing) {}
    #[cfg(any())]
    #[message]
    fn either(&mut self, missing: Missing) {}
    #[cfg(not(any()))]
    #[message]
    fn either(&mut self, here: u8) {
        let _ = here;
    }
    #[message]
    pub(crate) fn signal(&mut self, mut a: u8) -> u8 {
        a += 1;
        a
    }
    #[message]
    pub(self) fn deliver(&self) {}

    #[signal]
    fn on_cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        let _ = (ctx, cancel, &self);
    }
    #[signal]
    async fn on_down(&mut self, down: Down) {
        let _ = down;
        std::future::ready(()).await;
    }
    #[signal]
    fn on_exit(&self, exit: postroom::Exit) {
        let _ = exit;
    }

    fn helper(&self) -> i64 {
        self.balance
    }
}

/// Cache.
#[process]
pub struct Cache<K, V: ?Sized, const N: usize = 2>
where
    K: Eq,
{
    map: HashMap<K, Box<V>>,
    log: [u8; N],
}

#[process]
impl<K: Hash + Eq + Send + Into<String> + 'static, V: Send + ?Sized + 'static, const N: usize> Cache<K, V, N>
where
    Box<V>: Clone,
    Self: Sized,
{
    #[entry]
    fn serve(&mut self) {}
    #[entry]
    async fn run(&mut self, first: K) -> Option<Box<V>> {
        self.map.get(&first).cloned()
    }
    #[message]
    fn put(&mut self, key: K, value: Box<V>) -> Option<Box<V>> {
        self.map.insert(key, value)
    }
    #[message]
    fn get(&mut self, key: K) -> Option<Box<V>> {
        self.map.get(&key).cloned()
    }
    #[message]
    fn clear(&mut self) {
        self.map.clear();
    }
    #[message]
    async fn bytes(&mut self, bytes: [u8; N]) -> Result<(), String> {
        self.log = bytes;
        Ok(())
    }
    #[message]
    fn me(&mut self, me: Address<Self>) -> Pid {
        me.pid()
    }
    #[message(Wrapped<V>)]
    fn wrapped(&mut self, wrapped: Wrapped<V>) {
        let _ = wrapped;
    }
}
/// Wrapped.
pub struct Wrapped<V: ?Sized>(PhantomData<fn() -> V>);

mod deep {
    use postroom::prelude::*;
    struct Hidden;
    #[process]
    pub(super) struct Inner {
        peer: Option<Address<Inner>>,
        down: Option<Address<super::Account>>,
    }
    #[process]
    impl Inner {
        #[entry]
        pub(super) fn serve(&mut self) {}
        #[message]
        pub(super) fn poke(&mut self) {
            let _ = (self.peer, self.down, Hidden);
        }
        #[message]
        fn inner(&mut self, hidden: Hidden) {
            let _ = hidden;
        }
    }
    impl Inner {
        pub(super) fn new() -> Self {
            Inner { peer: None, down: None }
        }
    }
}

macro_rules! counter {
    ($name:ident, $method:ident, $arg:ident) => {
        #[process]
        struct $name {
            count: u64,
        }
        #[process]
        impl $name {
            #[entry]
            fn serve(&mut self) {
                self.count = 0;
            }
            #[message]
            fn $method(&mut self, $arg: u64) -> u64 {
                self.count += $arg;
                self.count
            }
            #[message]
            async fn later(&mut self, by: u64) -> u64 {
                self.count + by
            }
        }
    };
}
counter!(Counter, add, by);

/// Remote processes, under another name of the crate, and with names that clash with those in generated code.
mod remote {
    use actors::Pid;
    use actors::remote::{RemoteEntry, RemoteMessage, RemoteValue, RemoteVisitor};
    use postroom as actors;

    /// A type of the user.
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Payload(u8);
    /// Another type of the user.
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub(crate) enum Option<T> {
        /// Nothing.
        None,
        /// Something.
        Some(T),
    }

    #[actors::protocol(remote, crate = actors)]
    pub(crate) trait Named {
        fn name(&self, visitor: String) -> String;
    }

    #[actors::process(crate = actors)]
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Desk(pub(crate) u8);

    #[actors::process(remote, crate = actors, protocols(Named))]
    impl Desk {
        #[actors::entry]
        pub(crate) async fn serve(&mut self, ctx: &mut actors::Context<Self>, inputs: u8, payloads: Payload) {
            self.0 += inputs + payloads.0;
            ctx.serve(self).await;
        }
        #[actors::entry]
        pub(crate) fn idle(&mut self) {}
        #[actors::entry(local)]
        pub(crate) fn here(&mut self, r#fn: fn()) {
            r#fn();
        }
        #[actors::message]
        #[serde(rename_all = "UPPERCASE")]
        #[derive(Debug, Clone)]
        pub(crate) fn carry(
            &mut self,
            visitor: Pid,
            r#type: std::option::Option<u8>,
            #[serde(default)] serializer: Vec<u8>,
        ) -> Result<(), String> {
            let _ = (visitor, r#type, serializer);
            Err(String::new())
        }
        #[actors::message(name = "desk.hold")]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub(crate) async fn hold(&mut self, payload: Option<Payload>) -> Option<Self> {
            match payload {
                Option::None => Option::None,
                Option::Some(payload) => Option::Some(Desk(payload.0)),
            }
        }
        #[cfg(not(unix))]
        #[actors::message]
        pub(crate) fn elsewhere(&mut self, never: fn()) {}
        #[cfg(unix)]
        #[actors::message(local)]
        pub(crate) fn many(&mut self, replies: actors::Replies<Pid>) {
            drop(replies);
        }
    }

    #[actors::process(crate = actors)]
    impl Named for Desk {
        fn name(&self, visitor: String) -> String {
            visitor
        }
    }

    #[derive(Default)]
    pub(crate) struct Seen(pub(crate) Vec<&'static str>);

    impl RemoteVisitor for Seen {
        fn message<M: RemoteValue, T: RemoteValue>(&mut self, message: RemoteMessage) {
            self.0.push(message.name);
        }
        fn fallible_message<M: RemoteValue, T: RemoteValue, E: RemoteValue>(&mut self, message: RemoteMessage) {
            self.0.push(message.name);
        }
        fn entry<I: RemoteValue>(&mut self, entry: RemoteEntry<I>) {
            self.0.push(entry.name);
        }
    }
}

fn main() {
    let runtime = Runtime::new().unwrap();

    let account = runtime.spawn(Account { balance: 0, peer: None }).named("a").serve(100).unwrap();
    assert_eq!(account.deposit(20).wait().unwrap(), 120);
    assert_eq!(account.balance().wait().unwrap(), 120);
    assert_eq!(account.io().wait().unwrap(), 1);
    assert_eq!(account.fetch("key".to_owned()).wait().unwrap(), b"key");
    assert_eq!(account.fetch_later().wait().unwrap(), 1);
    assert_eq!(account.pass().wait().unwrap(), 1);
    assert_eq!(account.r#move(1, 2, 3, 4, 5).wait().unwrap(), 15);
    assert_eq!(account.signal(1).wait().unwrap(), 2);
    assert_eq!(
        account.peer(account, vec![], [0; Account::SIZE]).wait().unwrap().map(|peer| peer.pid()),
        Some(account.pid())
    );
    assert_eq!(Account::default().helper(), 0);
    assert_eq!(AccountDeposit { amount: 5 }.clone().amount, 5);
    let _ = (AccountEntries, AccountMove { r#fn: 1, caller: 2, package: 3, ctx: 4, out: 5 });
    account.entries().send().unwrap();
    account.client().wait().unwrap();
    account.either(1).wait().unwrap();
    account.deliver().wait().unwrap();
    let _ = account.narrow::<Recipient<Tick>>();

    let bank = runtime.spawn(Bank::Shut).open().unwrap();
    assert!(account.audit(bank).wait().is_ok());
    let ended = runtime.spawn(Account { balance: 7, peer: None }).aliased().unwrap();
    assert_eq!(ended.wait().unwrap(), 7);

    let inner = runtime.spawn(deep::Inner::new()).serve().unwrap();
    inner.poke().wait().unwrap();

    let cache = runtime.spawn(Cache::<String, str, 3> { map: HashMap::new(), log: [0; 3] }).serve().unwrap();
    assert_eq!(cache.put("a".to_owned(), "b".into()).wait().unwrap(), None);
    assert_eq!(cache.get("a".to_owned()).wait().unwrap().as_deref(), Some("b"));
    cache.bytes([1; 3]).wait().unwrap();
    assert_eq!(cache.me(cache).wait().unwrap(), cache.pid());
    cache.clear().wait().unwrap();

    let mut seen = remote::Seen::default();
    <remote::Desk as postroom::remote::Remote>::describe(&mut seen);
    let ends: Vec<_> = seen.0.iter().map(|name| name.rsplit("::").next().unwrap()).collect();
    assert_eq!(ends, ["serve", "idle", "carry", "desk.hold", "name"]);

    let counter = runtime.spawn(Counter { count: 0 }).serve().unwrap();
    assert_eq!(counter.add(3).wait().unwrap(), 3);
    assert_eq!(counter.later(4).wait().unwrap(), 7);

    #[process]
    struct Local {
        notes: Vec<Note>,
    }
    #[derive(Clone)]
    struct Note;
    #[process]
    impl Local {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        #[derive(Clone)]
        fn note(&mut self, note: Note) -> usize {
            self.notes.push(note);
            self.notes.len()
        }

        #[message]
        async fn slow(&mut self) -> usize {
            std::future::ready(()).await;
            self.notes.len()
        }
    }
    let local = runtime.spawn(Local { notes: vec![] }).serve().unwrap();
    assert_eq!(local.note(Note).wait().unwrap(), 1);
    assert_eq!(local.slow().wait().unwrap(), 1);
}
