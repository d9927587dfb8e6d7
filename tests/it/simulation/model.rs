//! A slow, obvious model of mailboxes, links, monitors, names, groups and supervision, compared with the runtime on
//! random programs. After each operation, when everything is idle, both must be in the same observable state. Two
//! operations at the same time must have the result of one of the orders of their steps. `proptest` generates the
//! programs and the seeds of their schedules, and shrinks both on a failure. There are 100 programs, or as many as
//! `POSTROOM_CASES` requests.
//!
//! The first run found that `trap_exits(false)` in a sync entry had no effect. The following faults, planted in the
//! runtime, were found by the first 64 programs, and shrunk to the program in brackets:
//!
//! * a name that is not released when its holder ends (a child of the tree finishes);
//! * a monitor that fires twice, or not at all (one process fails, another monitors it);
//! * a link that survives the unlinking on the other side (link, unlink); a watcher that stays known after its end;
//! * a group that keeps ended members (join, end); a name that is given away although its holder lives (give it twice);
//! * a restart that is not counted (a child fails); one more restart than the intensity allows (three fail); a child
//!   that was stopped by request, or is temporary, and comes back with its group (stop it, another fails).

mod ops;
mod real;
mod reference;

use ops::{Case, Op};
use postroom::test::{Sim, Simulation};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use real::Real;
use reference::{Model, Step};
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// Initial number of processes.
const ACTORS: usize = 4;

/// Counts of the events that the comparison is meant to cover.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    acts: u64,
    /// Pairs of simultaneous operations after which the state differed from that of performing the first operation and
    /// then the second.
    races: u64,
    /// Operations after which several different models fitted the observed state.
    hidden: u64,
    falls: u64,
    give_ups: u64,
    queues: u64,
}

/// Replaces all numbers by those of existing processes. Returns `None` if the operation makes no sense at this point.
fn fit(op: &Op, model: &Model) -> Option<Op> {
    let count = model.count();
    let mut op = op.clone();
    match &mut op {
        Op::Spawn if count >= 6 => return None,
        Op::Send { to: of, .. }
        | Op::Hold(of)
        | Op::Release(of)
        | Op::Fail(of)
        | Op::Finish(of)
        | Op::Kill(of)
        | Op::Cancel(of)
        | Op::Stop(of)
        | Op::Trap(of, _)
        | Op::Demonitor(of, _)
        | Op::Name(_, of)
        | Op::Join(_, of)
        | Op::Leave(_, of) => *of %= count,
        Op::Unlink(of, which) => {
            *of %= count;
            let links = model.links(*of);
            *which = *links.get(*which % links.len().max(1))?;
        }
        Op::Link(from, to) | Op::Monitor(from, to) => {
            (*from, *to) = (*from % count, *to % count);
            // The runtime would refuse it.
            if from == to {
                return None;
            }
        }
        Op::Both(one, other) => return Some(Op::Both(Box::new(fit(one, model)?), Box::new(fit(other, model)?))),
        _ => {}
    }
    let makes_sense = match op {
        Op::Hold(of) => !model.is_held(of),
        Op::Release(of) => model.is_held(of),
        _ => true,
    };
    makes_sense.then_some(op)
}

/// Returns all possible results of performing `one` and `other` at the same time: one for each order of their steps and
/// of the failures that spread from them.
fn interleavings(model: &Model, one: &[Step], other: &[Step]) -> Vec<(Model, Vec<Option<ops::Answer>>)> {
    if one.is_empty() && other.is_empty() && !model.is_failing() {
        return vec![(model.clone(), vec![None, None])];
    }
    let mut all = Vec::new();
    if model.is_failing() {
        let mut next = model.clone();
        next.fall();
        all = interleavings(&next, one, other);
    }
    for (place, steps) in [one, other].into_iter().enumerate() {
        let Some((first, rest)) = steps.split_first() else { continue };
        let mut next = model.clone();
        let answer = next.step(first.clone());
        let after = if place == 0 { interleavings(&next, rest, other) } else { interleavings(&next, one, rest) };
        all.extend(after.into_iter().map(|(model, mut answers)| {
            answers[place] = answers[place].or(answer);
            (model, answers)
        }));
    }
    all
}

/// Runs a program, and returns where it differs from the model. Several models may fit the observed state. They differ
/// only in state that has not been observed yet, such as the order of a message and a stop in the mailbox of a held
/// process.
fn run(sim: &Sim, case: &Case) -> Result<Met, String> {
    let mut met = Met::default();
    let (mut models, mut real) = (vec![Model::new(ACTORS, case.strategy)], Real::new(sim, ACTORS, case.strategy));
    sim.until_idle().expect("outside");
    for (number, op) in case.ops.iter().enumerate() {
        let Some(op) = fit(op, &models[0]).filter(|op| models.iter().all(|model| fit(op, model).as_ref() == Some(op)))
        else {
            continue;
        };
        let acts: Vec<&Op> = if let Op::Both(one, other) = &op { vec![one, other] } else { vec![&op] };
        let outcomes: Vec<_> = models
            .iter()
            .flat_map(|model| {
                let steps: Vec<_> = acts.iter().map(|op| model.steps(op)).collect();
                interleavings(model, &steps[0], steps.get(1).map_or(&[], Vec::as_slice))
            })
            .collect();
        let answers = real.act(&acts);
        let view = real.view(|of| outcomes[0].0.count() > of && outcomes.iter().any(|(model, _)| model.is_held(of)));
        let fits = |(model, said): &(Model, Vec<Option<ops::Answer>>)| {
            answers.iter().zip(said).all(|(answer, said)| Some(*answer) == *said) && model.view() == view
        };
        let fitting: Vec<_> = outcomes.iter().filter(|outcome| fits(outcome)).map(|(model, _)| model).collect();
        let Some(model) = fitting.first() else {
            let (expected, said) = &outcomes[0];
            return Err(format!(
                "after act {number}, {op:?}:\n  {answers:?} {view:?}\nis none of {}, of which the first is\n  {said:?} \
                 {:?}",
                outcomes.len(),
                expected.view()
            ));
        };
        met.acts += 1;
        met.races += u64::from(model.view() != outcomes[0].0.view());
        met.hidden += u64::from(fitting.iter().any(|other| other != model));
        models.clear();
        for model in fitting {
            if !models.contains(model) {
                models.push(model.clone());
            }
        }
    }
    let view = models[0].view();
    met.falls += u64::from(view.actors.iter().any(|actor| matches!(actor.end, Some(ops::End::Fell(..)))));
    met.queues += u64::from(view.actors.iter().any(|actor| actor.queued.iter().any(|queued| !queued.is_empty())));
    met.give_ups += u64::from(view.gave_up);
    Ok(met)
}

/// Runs a program under the schedule of its seed. Returns a difference and does not panic, since after a panic the
/// simulation would shrink the schedule of each program that `proptest` tries.
fn compare(case: &Case) -> Result<Met, String> {
    let outcome = Arc::new(Mutex::new(Ok(Met::default())));
    let (result, own) = (outcome.clone(), case.clone());
    let test = Simulation::new("model").seed(case.seed).check(move |sim| {
        *result.lock().expect("one at a time") = run(&sim, &own);
    });
    test.map_err(|error| error.to_string())?;
    let outcome = outcome.lock().expect("one at a time");
    outcome.clone()
}

#[test]
fn random_programs_do_what_the_model_does() {
    let cases = std::env::var("POSTROOM_CASES").map_or(100, |cases| cases.parse().expect("a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_096, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let met = RefCell::new(Met::default());
    let outcome = runner.run(&ops::cases(), |case| {
        let now = compare(&case).map_err(TestCaseError::fail)?;
        let met = &mut *met.borrow_mut();
        met.acts += now.acts;
        met.races += now.races;
        met.hidden += now.hidden;
        met.falls += u64::from(now.falls > 0);
        met.give_ups += u64::from(now.give_ups > 0);
        met.queues += u64::from(now.queues > 0);
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(_, case)) => {
            // Run it again, to report the schedule.
            let small = case.clone();
            let report = Simulation::new("model").seed(case.seed).check(move |sim| {
                run(&sim, &small).unwrap_or_else(|difference| panic!("{difference}"));
            });
            panic!("{:?}\n{}", case, report.map_or_else(|error| error.to_string(), |_| "not twice".to_string()));
        }
        Err(other) => panic!("{other}"),
    }
    let met = met.into_inner();
    println!("{met:?}");
    assert!(
        met.races > 0 && met.hidden > 0 && met.falls > 0 && met.give_ups > 0 && met.queues > 0,
        "the programs are too tame: {met:?}"
    );
}
