use postroom::prelude::*;

#[postroom::main]
async fn main(_runtime: &Runtime, _arguments: Vec<String>) {}
