//! Cancel signals: how a process receives them, and how it decides whether to end.

use super::*;
use postroom_tests::HOUR;

#[test]
fn a_process_that_awaits_its_cancel_is_not_ended_by_it() {
    with_runtime(|runtime| {
        let (begun, cleaned) = (Gate::new(), Gate::new());
        let running = runtime.spawn(looping().0).until_cancelled(begun.clone(), cleaned.clone()).unwrap();
        begun.wait_for_arrival();
        running.pid().cancel("tidy up");
        begun.open_elsewhere();
        cleaned.wait_for_arrival();
        assert!(running.pid().is_alive());
        cleaned.open_elsewhere();
        assert_eq!(running.wait().as_deref(), Ok("false true cancelled: tidy up"));
    });
}

#[test]
fn a_process_that_has_stopped_awaiting_its_cancellation_is_ended_by_it() {
    with_runtime(|runtime| {
        let gate = Gate::new();
        let running = runtime.spawn(looping().0).work_until_cancelled(gate.clone()).unwrap();
        gate.wait_for_arrival();
        running.pid().cancel("over");
        assert_eq!(running.wait(), Ok("cancelled"));
        let gate = Gate::new();
        let running = runtime.spawn(looping().0).work_until_cancelled(gate.clone()).unwrap();
        gate.wait_for_arrival();
        gate.open_elsewhere();
        until(|| runtime.statistics().timers > 0);
        running.pid().cancel("over");
        assert_eq!(running.wait(), Err(RunError::Ended("over".into())));
    });
}

#[test]
fn a_shield_that_is_dropped_loses_no_cancel() {
    with_runtime(|runtime| {
        let (gate, told) = (Gate::new(), Gate::new());
        let running = runtime.spawn(looping().0).drop_a_shield(gate.clone(), told.clone()).unwrap();
        gate.wait_for_arrival();
        running.pid().cancel("over");
        told.open_elsewhere();
        assert_eq!(running.wait(), Err(RunError::Ended("over".into())));
    });
}

/// A process that handles cancellation itself.
#[process]
struct Careful {
    log: Log<String>,
    lives: usize,
}

#[process]
impl Careful {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    #[signal]
    fn on_cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        self.log.add(cancel.reason.to_string());
        if self.log.len() > self.lives {
            ctx.stop();
        }
    }

    #[message]
    fn note(&mut self) -> usize {
        self.log.len()
    }
}

/// A process like [`Careful`], with an async signal method.
#[process]
struct Slow {
    log: Log<String>,
    gate: Gate,
}

#[process]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>) {
        ctx.serve(self).await;
    }

    #[signal]
    async fn on_cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        self.log.add(cancel.reason.to_string());
        self.gate.passed().await;
        self.log.add("cleaned".to_string());
        ctx.stop();
    }

    #[message]
    async fn linger(&mut self, gate: Gate) {
        gate.passed().await;
        self.log.add("lingered".to_string());
    }
}

#[test]
fn a_signal_method_gets_every_cancellation_and_decides() {
    with_runtime(|runtime| {
        for live in [false, true] {
            let log = Log::new();
            let spawn = runtime.spawn(Careful { log: log.clone(), lives: 2 });
            let address = if live { spawn.live().unwrap().address() } else { spawn.serve().unwrap() };
            let ended = address.pid().join();
            for (number, reason) in ["one", "two"].into_iter().enumerate() {
                assert!(address.pid().cancel(reason));
                until(|| address.note().wait() == Ok(number + 1));
            }
            assert!(address.pid().cancel(ExitReason::Shutdown));
            assert_eq!(ended.wait(), ExitReason::Normal);
            assert_eq!(log.all(), ["cancelled: one", "cancelled: two", "shutdown"]);
        }
    });
}

#[test]
fn a_process_that_survived_a_cancellation_gets_the_shutdown() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let log = Log::new();
        let address = runtime.spawn(Careful { log: log.clone(), lives: 1 }).serve().unwrap();
        address.pid().cancel("once");
        until(|| address.note().wait() == Ok(1));
        let report = runtime.shutdown_within(HOUR).unwrap();
        assert!(!report.was_forced(), "{report}");
        assert_eq!(log.all(), ["cancelled: once", "shutdown"]);
    });
}

#[test]
fn an_async_signal_method_cleans_up_in_its_own_time_also_at_shutdown() {
    watched(|| {
        for live in [false, true] {
            let runtime = builder().build().unwrap();
            let (log, gate) = (Log::new(), Gate::new());
            let spawn = runtime.spawn(Slow { log: log.clone(), gate: gate.clone() });
            let _address = if live { spawn.live().unwrap().address() } else { spawn.serve().unwrap() };
            let opener = thread::spawn(move || {
                gate.wait_for_arrival();
                gate.open()
            });
            let report = runtime.shutdown_within(HOUR).unwrap();
            opener.join().unwrap();
            assert!(!report.was_forced(), "{report}");
            assert_eq!(log.all(), ["shutdown", "cleaned"]);
        }
    });
}

#[test]
fn a_signal_waits_for_the_pending_method_and_overtakes_the_messages_behind_it() {
    with_runtime(|runtime| {
        let (log, gate, clean) = (Log::new(), Gate::new(), Gate::new());
        clean.open();
        let address = runtime.spawn(Slow { log: log.clone(), gate: clean }).serve().unwrap();
        address.linger(gate.clone()).send().unwrap();
        address.linger(gate.clone()).send().unwrap();
        gate.wait_for_arrival();
        let ended = address.pid().join();
        address.pid().cancel("over");
        gate.open_elsewhere();
        assert_eq!(ended.wait(), ExitReason::Normal);
        assert_eq!(log.all(), ["lingered", "cancelled: over", "cleaned"]);
    });
}
