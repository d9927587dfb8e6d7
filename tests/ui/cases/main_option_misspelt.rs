#[postroom::main(worker = 2)]
async fn main() {}
