use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1);

/// An answer that is a separate message. Only its number ties it to the question.
struct Squared {
    number: u32,
    square: u32,
}

#[process]
struct Calculator;

#[process]
impl Calculator {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn square(&mut self, ctx: &mut Context<Self>, number: u32, asker: Pid) {
        let _asker_has_ended = ctx.send(asker, Squared { number, square: number * number });
    }
}

#[process]
struct Asker {
    calculator: Address<Calculator>,
}

#[process]
impl Asker {
    /// Asks one question after the other. Returns each question with the answer that this process took for that
    /// question's.
    #[entry]
    async fn ask(&mut self, ctx: &mut Context<Self>, version: Version) -> Vec<(u32, u32)> {
        let mut answers = Vec::new();
        for number in 1..=3 {
            self.calculator.square(number, ctx.pid()).send().expect("it lives");
            while let Some(answer) = ctx.receive_within::<Squared>(PATIENCE).await {
                if version.is_wrong() || answer.number == number {
                    answers.push((number, answer.square));
                    break;
                }
            }
        }
        answers
    }
}

pub fn run(sim: &Sim, version: Version) {
    sim.slow::<Calculator>(0.3, 2 * PATIENCE);
    let calculator = sim.spawn(Calculator).serve().expect("it starts");
    let answers = sim.spawn(Asker { calculator }).ask(version).expect("it starts").wait().expect("it ends");
    for (number, square) in answers {
        assert_eq!(square, number * number, "the square of {number}");
    }
}
