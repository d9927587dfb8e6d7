//! What `ARCHITECTURE.md` promises of the source: folders import downward only.

mod imports;
mod source;
