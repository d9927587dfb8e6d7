#[postroom::main]
async fn start() {}

fn main() {}
