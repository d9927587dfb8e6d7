//! What every view is given: the host, and what the console keeps of it.

use crate::samples::Samples;
use crate::taps::Taps;
use postroom::Host;
use postroom::inspect::Incidents;

/// What the views are of.
pub(crate) struct Sight {
    pub(crate) host: Host,
    /// For the page, which then has buttons.
    pub(crate) may_act: bool,
    pub(crate) incidents: Incidents,
    pub(crate) samples: Samples,
    pub(crate) taps: Taps,
}
