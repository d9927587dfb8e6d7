use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

type Top = (Option<usize>, u64);

/// A stack of the numbers below three, as a linked list. For each number, `beneath` has the next one down.
#[process]
struct Stack {
    version: Version,
    top: Top,
    beneath: [Option<usize>; 3],
}

#[process]
impl Stack {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn top(&mut self) -> Top {
        self.top
    }
    #[message]
    fn beneath(&mut self, of: usize) -> Option<usize> {
        self.beneath[of]
    }
    /// Replaces the top if the stack is unchanged. To prove that, it is not enough that the same number is on top.
    #[message]
    fn pop(&mut self, seen: Top, next: Option<usize>) -> bool {
        let is_same = if self.version.is_wrong() { self.top.0 == seen.0 } else { self.top == seen };
        if is_same {
            self.top = (next, self.top.1 + 1);
        }
        is_same
    }
    #[message]
    fn push(&mut self, number: usize) {
        self.beneath[number] = self.top.0;
        self.top = (Some(number), self.top.1 + 1);
    }
}

#[process]
struct Taker {
    stack: Address<Stack>,
}

#[process]
impl Taker {
    /// Takes up to `count` numbers, and then puts the first one back if `puts_back`.
    #[entry]
    async fn take(&mut self, count: usize, puts_back: bool) -> Result<Vec<usize>, CallError> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let seen = self.stack.top().await?;
            let Some(top) = seen.0 else { break };
            let next = self.stack.beneath(top).await?;
            if self.stack.pop(seen, next).await? {
                taken.push(top);
            }
        }
        if puts_back && !taken.is_empty() {
            self.stack.push(taken.remove(0)).await?;
        }
        Ok(taken)
    }
}

pub fn run(sim: &Sim, version: Version) {
    let stack = Stack { version, top: (Some(0), 0), beneath: [Some(1), Some(2), None] };
    let stack = sim.spawn(stack).serve().expect("it starts");
    let takers = [(1, false), (2, true)];
    let takers = takers.map(|(count, puts_back)| sim.spawn(Taker { stack }).take(count, puts_back).expect("it starts"));
    let takers = takers.map(|taker| taker.wait().expect("it ends"));
    let mut all = takers.concat();
    all.extend(sim.spawn(Taker { stack }).take(3, false).expect("it starts").wait().expect("it ends"));
    all.sort_unstable();
    let number_of_takes = all.len();
    all.dedup();
    assert_eq!(all.len(), number_of_takes, "a number was taken twice");
}
