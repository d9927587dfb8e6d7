//! The server of the engine's unit tests.

use postroom_nats::Nats;

#[allow(dead_code, reason = "those tests use the rest")]
#[path = "../../src/tests/server.rs"]
pub(crate) mod server;

fn wait_until(is_so: impl FnMut() -> bool) {
    super::wait_until("the server is ready", is_so);
}
