//! Checks of the source as text. Folders import only downward, in the order of `ARCHITECTURE.md`, which names only
//! existing items. Files do not import in circles. No two types have the same name. The machine is accessed in one
//! place. Fences for models hide no weakened order. No test is left out of the build. Planted faults name existing
//! lines and tests. Neither functions nor lines are too long. The engine on NATS uses few items of the cluster.
//! Packages can be published.

mod circles;
mod functions;
mod imports;
mod machine;
mod names;
mod orders;
mod packages;
mod planted;
mod reached;
mod references;
mod seam;
mod source;
mod steps;
mod width;
