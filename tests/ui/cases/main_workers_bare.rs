#[postroom::main(workers)]
async fn main() {}
