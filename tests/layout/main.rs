//! What is true of the source as text: folders import downward only, as `ARCHITECTURE.md` lists them, no type has
//! the name of another, and no test is forgotten.

mod imports;
mod names;
mod reached;
mod references;
mod source;
