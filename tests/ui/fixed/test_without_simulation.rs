use postroom::test::Sim;

#[postroom::test]
fn adds(sim: Sim) {
    let _ = sim;
}

fn main() {}
