//! Messages: their shapes, their order, and those that no process handles.

use postroom::error::SendFailure;
use postroom::future::ReplyStream;
use postroom::inspect::DeadLetterReason;
use postroom::prelude::*;
use postroom_tests::face::{End, Log, builder, poll_once, until, watched, with_dead_letters, with_runtime};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

mod dead_letters;

#[derive(Clone, Debug, PartialEq)]
struct Tick {
    number: u32,
}

/// A process with messages of many shapes.
#[process]
#[derive(Default)]
struct Desk {
    seen: Log<u32>,
    text: String,
    replies: Vec<Reply<u32>>,
    streams: Vec<Replies<u32>>,
}

#[process]
impl Desk {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn nothing(&mut self) -> usize {
        self.seen.add(0);
        self.seen.len()
    }

    #[message]
    #[allow(clippy::too_many_arguments)]
    fn many(&mut self, a: u8, b: u16, c: u32, d: u64, e: String, f: [u8; 4], g: Option<bool>, h: (i8, char)) -> String {
        format!("{a} {b} {c} {d} {e} {f:?} {g:?} {h:?}")
    }

    #[message]
    fn large(&mut self, block: [u8; 1024]) -> [u8; 1024] {
        block.map(|byte| byte.wrapping_add(1))
    }

    #[message]
    fn run(&mut self, job: Box<dyn FnOnce(&str) -> String + Send>) -> String {
        job("called")
    }

    #[message(Tick)]
    fn tick(&mut self, tick: Tick) {
        self.seen.add(tick.number);
    }

    #[message]
    fn parse(&mut self, text: String) -> Result<u32, std::num::ParseIntError> {
        text.parse()
    }

    #[message]
    fn read(&self, fine: bool) -> io::Result<u32> {
        if fine { Ok(1) } else { Err(io::Error::other("not fine")) }
    }

    #[message]
    fn later(&mut self, value: u32, reply: Reply<u32>) {
        thread::spawn(move || reply.send(value));
    }

    #[message]
    fn later_or_not(&mut self, value: u32, reply: Reply<Result<u32, String>>) {
        reply.send(if value > 9 { Err(format!("{value} is too much")) } else { Ok(value) });
    }

    #[message]
    fn keep(&mut self, reply: Reply<u32>) {
        self.replies.push(reply);
    }

    #[message]
    fn answer_kept(&mut self, value: u32) -> usize {
        self.replies.drain(..).map(|reply| reply.send(value)).count()
    }

    #[message]
    fn count_to(&mut self, last: u32, replies: Replies<u32>) {
        for number in 1..=last {
            if replies.send(number).is_err() {
                self.seen.add(number);
                return;
            }
        }
    }

    #[message]
    fn subscribe(&mut self, replies: Replies<u32>) {
        self.streams.push(replies);
    }

    #[message]
    fn publish(&mut self, number: u32) -> usize {
        self.streams.retain(|stream| stream.send(number).is_ok());
        self.streams.len()
    }

    #[message]
    fn note(&mut self, number: u32) {
        self.seen.add(number);
    }

    #[message]
    #[derive(Clone, Debug, PartialEq)]
    fn write(&mut self, text: String) -> usize {
        self.text.push_str(&text);
        self.text.len()
    }
}

/// A process that handles the same message type as [`Desk`].
#[process]
struct Clock {
    log: Log<u32>,
}

#[process]
impl Clock {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn on_tick(&mut self, tick: Tick) {
        self.log.add(100 + tick.number);
    }
}

/// A process that is generic over its items.
#[process]
struct Store<T, const N: usize>
where
    T: Clone + Send + 'static,
{
    items: Vec<T>,
}

#[process]
impl<T: Clone + Send + 'static, const N: usize> Store<T, N> {
    #[entry]
    fn serve(&mut self, first: T) {
        self.items.push(first);
    }

    #[message]
    fn put(&mut self, item: T) -> Result<usize, T> {
        if self.items.len() == N {
            return Err(item);
        }
        self.items.push(item);
        Ok(self.items.len())
    }

    #[message]
    fn all(&self) -> Vec<T> {
        self.items.clone()
    }
}

#[test]
fn messages_of_every_shape_arrive_whole() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        assert_eq!(desk.nothing().wait(), Ok(1));
        let many = desk.many(1, 2, 3, 4, "five".into(), [6; 4], Some(true), (-8, 'h'));
        assert_eq!(many.wait().as_deref(), Ok("1 2 3 4 five [6, 6, 6, 6] Some(true) (-8, 'h')"));
        let block = std::array::from_fn(|index| index as u8);
        assert_eq!(desk.large(block).wait(), Ok(block.map(|byte| byte.wrapping_add(1))));
        let (owned, job) = ("by a box".to_string(), ());
        let job = Box::new(move |text: &str| {
            let () = job;
            format!("{text} {owned}")
        });
        assert_eq!(desk.run(job).wait().as_deref(), Ok("called by a box"));
    });
}

#[test]
fn a_generic_process_keeps_its_types_apart() {
    with_runtime(|runtime| {
        let texts = runtime.spawn(Store::<String, 2> { items: vec![] }).serve("a".to_string()).unwrap();
        let bytes = runtime.spawn(Store::<u8, 3> { items: vec![] }).serve(1).unwrap();
        assert_eq!(texts.put("b".to_string()).wait(), Ok(2));
        assert_eq!(texts.put("c".to_string()).wait(), Err(CallError::Failed("c".to_string())));
        assert_eq!(bytes.put(2).wait(), Ok(2));
        assert_eq!((texts.all().wait(), bytes.all().wait()), (Ok(vec!["a".into(), "b".into()]), Ok(vec![1, 2])));
        runtime.send(bytes.pid(), StorePut { item: 3_u8 }).unwrap();
        assert_eq!(bytes.all().wait(), Ok(vec![1, 2, 3]));
        assert!(runtime.address::<Store<u8, 2>>(bytes.pid()).is_err());
    });
}

#[test]
fn a_type_of_message_is_understood_by_several_kinds_of_process() {
    with_runtime(|runtime| {
        let (seen, log) = (Log::new(), Log::new());
        let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
        let clock = runtime.spawn(Clock { log: log.clone() }).serve().unwrap();
        let all: [Recipient<Tick>; 2] = [desk.narrow(), clock.into()];
        for recipient in all {
            recipient.send(Tick { number: 1 }).unwrap();
            assert_eq!(recipient.call(Tick { number: 2 }).wait(), Ok(()));
            runtime.send(recipient.pid(), Tick { number: 3 }).unwrap();
            runtime.send(recipient, Tick { number: 4 }).unwrap();
        }
        assert_eq!((desk.tick(Tick { number: 5 }).wait(), clock.on_tick(Tick { number: 5 }).wait()), (Ok(()), Ok(())));
        assert_eq!((seen.all(), log.all()), (vec![1, 2, 3, 4, 5], vec![101, 102, 103, 104, 105]));
    });
}

#[test]
fn a_method_that_returns_a_result_gives_its_caller_both_sides() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        assert_eq!(desk.parse("7".into()).wait(), Ok(7));
        let failed = desk.parse("x".into()).wait();
        assert!(matches!(failed, Err(CallError::Failed(error)) if error.to_string().contains("invalid")));
        assert_eq!(desk.read(true).wait().unwrap(), 1);
        match desk.read(false).wait() {
            Err(CallError::Failed(error)) => assert_eq!(error.to_string(), "not fine"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_method_may_answer_later_from_anywhere() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        assert_eq!(desk.later(5).wait(), Ok(5));
        assert_eq!(desk.later_or_not(5).wait(), Ok(5));
        assert_eq!(desk.later_or_not(10).wait(), Err(CallError::Failed("10 is too much".to_string())));
        // The message is sent, not called, so the reply is discarded.
        desk.later(6).send().unwrap();
        desk.keep().send().unwrap();
        assert_eq!(desk.answer_kept(1).wait(), Ok(1));
    });
}

#[test]
fn answers_may_arrive_in_another_order_than_questions() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        let waiting: Vec<_> =
            (0..8).map(|_| thread::spawn(move || desk.keep().timeout(Duration::MAX).wait())).collect();
        let mut answered = 0;
        until(|| {
            answered += desk.answer_kept(3).wait().unwrap();
            answered == waiting.len()
        });
        assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == Ok(3)));
    });
}

#[test]
fn a_stream_gives_every_answer_in_order_and_ends() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        assert_eq!(desk.count_to(5).open().unwrap().into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        let mut stream = desk.count_to(3).open().unwrap();
        let sum = runtime.block_on(async {
            let mut sum = 0;
            while let Some(number) = stream.next().await {
                sum += number;
            }
            sum
        });
        assert_eq!(sum, 6);
    });
}

#[test]
fn a_stream_that_is_dropped_is_noticed_by_its_sender() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        let next = |stream: &mut ReplyStream<u32>| runtime.block_on(stream.next());
        let mut first = desk.subscribe().open().unwrap();
        let second = desk.subscribe().open().unwrap();
        assert_eq!(desk.publish(1).wait(), Ok(2));
        drop(second);
        assert_eq!(desk.publish(2).wait(), Ok(1));
        assert_eq!((next(&mut first), next(&mut first)), (Some(1), Some(2)));
        // The sending end of the stream is dropped with the killed process.
        desk.pid().kill();
        assert_eq!(next(&mut first), None);
        let refused = desk.subscribe().open().unwrap_err();
        assert_eq!(refused.reason, SendFailure::Gone(desk.pid()));
    });
}

#[test]
fn a_message_value_can_be_matched_stored_and_forwarded() {
    with_runtime(|runtime| {
        let desk = runtime.spawn(Desk::default()).serve().unwrap();
        let call = desk.write("ab".to_string());
        assert_eq!((call.pid(), call.method()), (desk.pid(), "Desk::write"));
        let stored: DeskWrite = call.message().clone();
        let DeskWrite { text } = call.into_message();
        assert_eq!((text.as_str(), &stored), ("ab", &DeskWrite { text: "ab".to_string() }));
        runtime.send(desk, stored.clone()).unwrap();
        runtime.send(desk.pid(), stored).unwrap();
        assert_eq!(desk.write("c".to_string()).wait(), Ok(5));
    });
}

#[test]
fn five_messages_before_the_receiver_first_runs_arrive_in_order() {
    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let seen = Log::new();
        let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
        (1..=5).for_each(|number| desk.note(number).send().unwrap());
        runtime.resume().unwrap();
        desk.nothing().wait().unwrap();
        assert_eq!(seen.all(), [1, 2, 3, 4, 5, 0]);
    });
}

/// A process that sends numbered messages, and sleeps after every 64th.
#[process]
struct Sender {
    number: u32,
}

#[process]
impl Sender {
    #[entry]
    async fn send(&mut self, ctx: &mut Context<Self>, to: Address<Desk>, count: u32) {
        for place in 0..count {
            to.note(self.number * 1_000_000 + place).send().unwrap();
            if place % 64 == 0 {
                ctx.sleep(std::time::Duration::from_nanos(1)).await;
            }
        }
    }
}

#[test]
fn no_sender_is_reordered_with_itself_threads_and_processes_alike() {
    const EACH: u32 = 2_000;
    with_runtime(|runtime| {
        let seen = Log::new();
        let desk = runtime.spawn(Desk { seen: seen.clone(), ..Desk::default() }).serve().unwrap();
        let processes: Vec<_> =
            (0..4).map(|number| runtime.spawn(Sender { number }).send(desk, EACH).unwrap()).collect();
        let threads: Vec<_> = (4..8)
            .map(|number| {
                thread::spawn(move || {
                    (0..EACH).for_each(|place| desk.note(number * 1_000_000 + place).send_wait().unwrap())
                })
            })
            .collect();
        processes.into_iter().for_each(|process| process.wait().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Calls fail while the mailbox is still full.
        until(|| desk.nothing().wait().is_ok());
        for sender in 0..8 {
            let own: Vec<u32> = seen.all().into_iter().filter(|line| line / 1_000_000 == sender && *line > 0).collect();
            let sent: Vec<u32> = (0..EACH).map(|place| sender * 1_000_000 + place).filter(|line| *line > 0).collect();
            assert_eq!(own, sent, "sender {sender}");
        }
    });
}

#[test]
fn messages_to_itself_arrive_in_order_after_queued_ones() {
    #[process]
    struct Echo(Log<u32>);

    #[process]
    impl Echo {
        #[entry]
        fn serve(&mut self) {}

        #[message]
        fn count(&mut self, ctx: &mut Context<Self>, left: u32) {
            self.0.add(left);
            if left % 10 == 3 {
                (1..=2).for_each(|more| ctx.address().count(left - more).send().unwrap());
            }
        }
    }

    watched(|| {
        let runtime = builder().paused().build().unwrap();
        let log = Log::new();
        let echo = runtime.spawn(Echo(log.clone())).serve().unwrap();
        [13, 20, 23].into_iter().for_each(|left| echo.count(left).send().unwrap());
        runtime.resume().unwrap();
        until(|| log.len() == 7);
        assert_eq!(log.all(), [13, 20, 23, 12, 11, 22, 21]);
    });
}

/// A process with messages so large that several copies do not fit on a thread's stack.
#[process]
struct Shelf(u64);

#[process]
impl Shelf {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn count(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    #[message]
    fn page(&mut self, page: [u8; 128 << 10]) -> u8 {
        page[77]
    }

    #[message]
    fn volume(&mut self, volume: [u8; 1 << 20]) -> u8 {
        volume[77]
    }

    #[message]
    async fn read(&mut self, volume: [u8; 1 << 20]) -> u8 {
        volume[77]
    }
}

/// Calls `run` on a thread with a large stack, since the sender's stack also contains the message.
fn with_room<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(256 << 20).spawn(run).unwrap().join().unwrap()
}

/// Catches: a stack frame for small messages that reserves room for all large ones (a stack overflow).
#[test]
fn a_method_for_a_large_message_costs_small_ones_no_stack_and_a_page_fits_on_it() {
    with_room(|| {
        let runtime = Runtime::new().unwrap();
        let shelf = runtime.spawn(Shelf(0)).serve().unwrap();
        assert_eq!(shelf.count().wait(), Ok(1));
        assert_eq!(shelf.page([3; 128 << 10]).wait(), Ok(3));
    });
}

/// Catches: a configured stack size that is not applied to workers, or to the threads of pinned processes (a stack
/// overflow).
#[test]
fn a_stack_that_was_asked_for_is_there_for_messages_that_need_it() {
    with_room(|| {
        let runtime = Runtime::builder().worker_stack_size(128 << 20).build().unwrap();
        let shelves = [runtime.spawn(Shelf(0)).serve().unwrap(), runtime.spawn_pinned(|| Shelf(0)).serve().unwrap()];
        for shelf in shelves {
            assert_eq!(shelf.volume([3; 1 << 20]).wait(), Ok(3));
            assert_eq!(shelf.read([4; 1 << 20]).wait(), Ok(4));
        }
    });
}

#[test]
fn a_stack_that_no_step_fits_on_is_refused() {
    for bytes in [0, (64 << 10) - 1, (1 << 30) + 1, usize::MAX] {
        let error = Runtime::builder().worker_stack_size(bytes).build().unwrap_err();
        let expected = format!("`worker_stack_size` cannot be {bytes}; use a number of bytes from 65536 to 1073741824");
        assert_eq!(error.to_string(), expected);
    }
    let runtime = Runtime::builder().worker_stack_size(64 << 10).build().unwrap();
    assert_eq!(runtime.spawn(Shelf(0)).serve().unwrap().count().wait(), Ok(1));
}

/// A process that sets every option explicitly to its default.
#[process(on_error = "report")]
struct Patient(u32);

#[process]
impl Patient {
    /// An entry that is compiled.
    #[cfg(not(any()))]
    #[entry]
    fn open(&mut self, number: u32) {
        self.0 = number;
    }

    /// An entry that is not compiled.
    #[cfg(any())]
    #[entry]
    fn open(&mut self, text: String) {
        self.0 = text.len() as u32;
    }

    /// The index of this entry among the entries depends on which of those above are compiled.
    #[entry]
    fn open_twice(&mut self, number: u32, again: u32) {
        self.0 = number + again;
    }

    #[message]
    fn fail(&mut self) -> Result<(), String> {
        Err("it could not be done".to_string())
    }

    #[message]
    fn number(&self) -> u32 {
        self.0
    }
}

/// Catches: a process with `on_error = "report"` that exits on an error.
#[test]
fn a_process_that_reports_its_errors_survives() {
    let runtime = Runtime::new().unwrap();
    let patient = runtime.spawn(Patient(0)).open(7).unwrap();
    patient.fail().send().unwrap();
    assert!(patient.fail().wait().is_err());
    assert_eq!(patient.number().wait(), Ok(7));
}

/// Catches: an entry under a true `cfg` that cannot be started by name, one under a false `cfg` that can, and wrong
/// indices of the entries after them.
#[test]
fn an_entry_is_there_if_its_condition_holds() {
    let runtime = Runtime::new().unwrap();
    runtime.register_type_with("Patient", || Patient(0));
    let started = runtime.start("Patient", "open", payloads![5_u32]).unwrap();
    assert_eq!(runtime.address::<Patient>(started).unwrap().number().wait(), Ok(5));
    assert!(runtime.start("Patient", "open", payloads!["text".to_string()]).is_err());
    let started = runtime.start("Patient", "open_twice", payloads![5_u32, 6_u32]).unwrap();
    assert_eq!(runtime.address::<Patient>(started).unwrap().number().wait(), Ok(11));
}
