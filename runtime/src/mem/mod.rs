//! Memory that the runtime manages itself. It is carved from an arena, recycled through magazines, and never returned
//! to the program's allocator, except for large blocks.
//!
//! * [`arena`]: regions that slots, nodes and blocks are carved from;
//! * [`magazine`]: per-thread free lists of pieces of one size, exchanged between threads as whole chains;
//! * [`size_classes`]: an allocator for process states and large messages, built on magazines;
//! * [`large_blocks`]: blocks of one to eight kibibytes from the program's allocator, recycled within bounds;
//! * [`poison`]: tells AddressSanitizer which recycled pieces must not be touched.

pub(crate) mod arena;
pub(crate) mod large_blocks;
pub(crate) mod magazine;
pub(crate) mod poison;
pub(crate) mod size_classes;
