//! What is true of the source as text: folders import downward only, as `ARCHITECTURE.md` lists them, and no test is forgotten.

mod imports;
mod reached;
mod source;
