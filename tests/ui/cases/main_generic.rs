#[postroom::main]
async fn main<T>() {}
