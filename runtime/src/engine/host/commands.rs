//! The handlers of commands.
//!
//! Handlers are registered while the runtime is built and frozen at its start. Freezing searches a multiplier that maps
//! the `TypeId`s of all commands to different entries of a small array, so that finding a handler is one
//! multiplication, one index and one comparison, however many there are.

use crate::call::caller::{self, Caller};
use crate::call::command::{Command, Completion};
use crate::errors::CommandError;
use crate::mailbox::payload::Payload;
use crate::util::panics::{Site, contain};
use std::any::TypeId;
use std::hash::{Hash, Hasher};

type CommandHandler = Box<dyn Fn(Payload, Caller) + Send + Sync>;

struct Handler {
    command: TypeId,
    handle: CommandHandler,
}

/// The handlers during registration. A later one for the same command replaces the earlier.
#[derive(Default)]
pub(crate) struct Handlers(Vec<Handler>);

impl Handlers {
    pub(crate) fn add<C: Command>(&mut self, handle: impl Fn(C, Completion<C::Output>) + Send + Sync + 'static) {
        let command = TypeId::of::<C>();
        self.0.retain(|handler| handler.command != command);
        let handle: CommandHandler = Box::new(move |payload, caller| {
            if let Ok(command) = payload.take::<C>() {
                handle(command, Completion::new(caller));
            }
        });
        self.0.push(Handler { command, handle });
    }

    pub(crate) fn freeze(self) -> Dispatcher {
        Dispatcher::new(self.0)
    }
}

pub(crate) struct Dispatcher {
    places: Box<[Option<Handler>]>,
    multiplier: u64,
    shift: u32,
}

/// Hashes a `TypeId`, which writes 64 bits that are a hash already.
struct Bits(u64);

impl Hasher for Bits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 ^= bits;
    }
}

fn bits(command: TypeId) -> u64 {
    let mut bits = Bits(0);
    command.hash(&mut bits);
    bits.finish()
}

impl Default for Dispatcher {
    fn default() -> Self {
        Handlers::default().freeze()
    }
}

impl Dispatcher {
    fn new(handlers: Vec<Handler>) -> Self {
        // With four entries for each handler a random multiplier fits after a few tries; for unlucky types the array
        // grows.
        let mut size_bits = (4 * handlers.len().max(1)).next_power_of_two().trailing_zeros().max(1);
        let mut random = crate::env::chance::Random::new(0, 0);
        loop {
            let shift = 64 - size_bits;
            for _ in 0..256 {
                let multiplier = random.next() | 1;
                let mut taken = vec![false; 1 << size_bits];
                let fits = handlers.iter().all(|handler| {
                    let place = (bits(handler.command).wrapping_mul(multiplier) >> shift) as usize;
                    !std::mem::replace(&mut taken[place], true)
                });
                if fits {
                    let mut places: Vec<Option<Handler>> = (0..1 << size_bits).map(|_| None).collect();
                    for handler in handlers {
                        let place = (bits(handler.command).wrapping_mul(multiplier) >> shift) as usize;
                        places[place] = Some(handler);
                    }
                    return Self { places: places.into(), multiplier, shift };
                }
            }
            size_bits += 1;
        }
    }

    fn find(&self, command: TypeId) -> Option<&Handler> {
        let place = (bits(command).wrapping_mul(self.multiplier) >> self.shift) as usize;
        self.places[place].as_ref().filter(|handler| handler.command == command)
    }

    /// Passes `command` to its handler, which answers `caller` now or later. Errors are answers too.
    pub(crate) fn dispatch(&self, command: Payload, caller: Caller) {
        let Some(handler) = self.find(command.value_type()) else {
            caller.fail_command(CommandError::Unregistered { command: command.type_name() });
            return;
        };
        let outcome = contain(Site::Handler, || (handler.handle)(command, caller));
        if let Err(panic) = outcome {
            crate::util::log::error!(%panic, "a command handler panicked");
            caller::blame_with(|_| CommandError::Panicked(panic.message.clone()));
        }
    }
}
