//! What is true of the source as text: folders import downward only, as `ARCHITECTURE.md` lists them, and it names
//! nothing that does not exist; no type has the name of another; the machine is asked in one place; no test is
//! forgotten; no line is too long.

mod imports;
mod machine;
mod names;
mod reached;
mod references;
mod source;
mod steps;
mod width;
