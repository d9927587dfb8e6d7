//! Checks of the source as text: folders import only downward, in the order of `ARCHITECTURE.md`, which names only
//! existing items; files do not import in circles; no two types have the same name; the machine is accessed in one
//! place; fences for models hide no weakened order; no test is left out of the build; neither functions nor lines are
//! too long; an engine uses few items of the cluster.

mod circles;
mod functions;
mod imports;
mod machine;
mod names;
mod orders;
mod reached;
mod references;
mod seam;
mod source;
mod steps;
mod width;
