use postroom::prelude::*;

#[postroom::main]
async fn main(runtime: Runtime) {
    let _ = runtime;
}
