use postroom::test::Sim;

#[postroom::test(seed = 3, seds = 4)]
fn misspelt(_sim: Sim) {}

#[postroom::test(strategy = "exhaustiv")]
fn unknown_strategy(_sim: Sim) {}

#[postroom::test(seeds = "many")]
fn a_text_for_a_number(_sim: Sim) {}

#[postroom::test(seeds)]
fn no_number(_sim: Sim) {}

#[postroom::test(max_time = "1 hour")]
fn unknown_unit(_sim: Sim) {}

#[postroom::test(faults = "all")]
fn unknown_faults(_sim: Sim) {}

fn main() {}
