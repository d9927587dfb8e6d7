//! Decides which threads may run steps. A host has a fixed number of permits; a thread needs one to run a step.
//!
//! * [`holders`]: which thread holds which permit; [`blocking_queue`]: async steps that wait for a thread to take their
//!   permit;
//! * [`sleep`]: which threads sleep or search, and which of them is woken;
//! * [`handoff`]: passing a permit from a thread that blocks to another one.
//!
//! # The state of a thread
//!
//! From the start of the host to its end, each permit is held by exactly one thread, which is *up* or *asleep*. Each
//! transition is one critical section under the lock in [`Idle`](sleep::Idle), in the method named in the last column.
//! Passing a permit takes two threads through a transition at once: the second is in parentheses.
//!
//! | from ([`At`](holders::At)) | to | when | by |
//! |---|---|---|---|
//! | free | up | the host starts its threads | `begin` |
//! | | starting | a step needs a thread to take its permit; a stopped host has work left | `reserve`, `begin` |
//! | starting | spare | the thread has been started | `started` |
//! | | free | the thread could not be started | `dismiss` |
//! | up | asleep | the thread has found no work | `begin_sleep` |
//! | | spare (waiting → up) | a thread waits for a permit | `begin_sleep`, `yield_permit` |
//! | | spare (spare → asleep) | it has found no work, and a driven thread is spare | `begin_sleep` |
//! | | blocked (waiting or spare → up) | its step blocks | `hand_off`, `hand_off_or_queue` |
//! | | detached (waiting or spare → up) | its step does not end | `take_over` |
//! | | free | the host has stopped | `dismiss` |
//! | asleep | up | there is work or a timer for it; the host stops | `announce`, `timer_set`, `end_sleep`, `stop` |
//! | | spare (blocked → up) | a thread comes back from blocking | `come_back` |
//! | | spare (spare → asleep) | a driven thread has become spare | `yield_permit`, `look` |
//! | spare | up | it gets the permit of a step that blocks or does not end | `hand_off`, `take_over` |
//! | | ending | it has been idle for a long time, or there are too many threads | `retire` |
//! | blocked | up (asleep → spare) | its step is done blocking | `come_back` |
//! | | waiting | its step is done blocking, and no thread sleeps | `come_back` |
//! | | detached | its step is done blocking, in async code or on a stopped host | `come_back` |
//! | waiting | up | a thread gives it its permit | `begin_sleep`, `yield_permit`, `hand_off`, `take_over` |
//! | | detached | the host stops | `stop` |
//! | detached | spare | its step is over | `yield_permit`, `begin_sleep` |
//! | | blocked | its step blocks | `hand_off`, `hand_off_or_queue` |
//! | any without a permit | free | its thread has ended | `dismiss` |

pub(crate) mod blocking_queue;
pub(crate) mod handoff;
pub(crate) mod holders;
pub(crate) mod sleep;
