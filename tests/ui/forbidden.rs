//! Processes in a crate that forbids lints: an expansion that allowed one would be an error there (E0453).

#![forbid(
    unused,
    dead_code,
    unused_imports,
    unused_variables,
    unused_mut,
    unused_parens,
    unused_qualifications,
    unreachable_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    deprecated,
    trivial_bounds,
    non_camel_case_types,
    nonstandard_style,
    rust_2018_idioms,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    single_use_lifetimes,
    unsafe_code,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    let_underscore_drop
)]

use postroom::prelude::*;

/// A tick.
#[derive(Debug, Clone, Copy)]
pub struct Tick;

/// A protocol for shelves.
#[protocol]
pub trait Shelf {
    /// Puts a book on the shelf.
    fn put(&mut self, book: String) -> Result<usize, String>;
    /// Counts the books.
    #[message(inspect)]
    fn count(&self, from: usize) -> usize;
}

/// A process with messages that are never sent, and methods that are never called.
#[process(inspect, on_error = "end")]
#[derive(Debug)]
pub struct Wood {
    books: Vec<String>,
    #[inspect(skip)]
    ticks: u64,
}

#[process(protocols(Shelf))]
impl Wood {
    /// Serves.
    #[entry]
    pub fn serve(&mut self) {}
    #[entry]
    fn never_started(&mut self, ctx: &mut Context<Self>, books: Vec<String>) -> Result<(), String> {
        self.books = books;
        if ctx.is_cancelled() { Err("too late".to_string()) } else { Ok(()) }
    }
    /// Clears the shelf.
    #[message]
    pub fn clear(&mut self, from: usize) -> Option<String> {
        self.books.drain(from..).next()
    }
    #[message(Tick)]
    fn tick(&mut self, tick: Tick) {
        let Tick = tick;
        self.ticks += 1;
    }
    #[message]
    async fn never_sent(&mut self, ctx: &mut Context<Self>) -> Result<Pid, String> {
        std::future::ready(()).await;
        Ok(ctx.pid())
    }
    #[message]
    fn never_called(&mut self, reply: Reply<u64>) {
        reply.send(self.ticks);
    }
    #[message]
    fn never_streamed(&mut self, replies: Replies<u64>) {
        drop(replies);
    }
    #[signal]
    fn on_cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        drop(cancel);
        ctx.stop();
    }
}

#[process]
impl Shelf for Wood {
    fn put(&mut self, book: String) -> Result<usize, String> {
        self.books.push(book);
        Ok(self.books.len())
    }
    fn count(&self, from: usize) -> usize {
        self.books.len() - from
    }
}

/// A process with async methods.
#[process]
#[derive(Debug)]
pub struct Steel<T> {
    last: Option<T>,
}

#[process(protocols(Shelf))]
impl<T: Send + Sync + 'static> Steel<T> {
    /// Serves.
    #[entry]
    pub fn serve(&mut self) {}
    #[message]
    fn take(&mut self) -> Option<T> {
        self.last.take()
    }
}

// The expansion makes this an inherent block with `pub` methods, under `allow(private_interfaces)`, which is not
// forbidden here.
#[process]
impl<T: Send + Sync + 'static> Shelf for Steel<T> {
    async fn put(&mut self, book: String) -> Result<usize, String> {
        Ok(book.len())
    }
    async fn count(&self, from: usize) -> usize {
        from
    }
}

#[postroom::test(seed = 1)]
async fn a_simulated_test(sim: postroom::test::Sim) {
    let shelf = sim.spawn(Wood { books: Vec::new(), ticks: 0 }).serve().expect("it starts");
    assert_eq!(shelf.put("book".to_string()).await, Ok(1));
    assert_eq!(shelf.clear(0).await, Ok(Some("book".to_string())));
    let shelf = sim.spawn(Steel::<u8> { last: None }).serve().expect("it starts");
    assert_eq!(shelf.count(1).await, Ok(1));
}
