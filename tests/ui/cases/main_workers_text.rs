#[postroom::main(workers = "two")]
async fn main() {}
