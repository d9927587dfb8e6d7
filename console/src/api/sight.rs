//! The input of every view.

use crate::samples::Samples;
use crate::taps::Taps;
use postroom::Host;
use postroom::inspect::Incidents;

/// The host of a console, and the data that the console keeps about it.
pub(crate) struct Sight {
    pub(crate) host: Host,
    /// Whether requests may perform actions. If so, the page shows buttons.
    pub(crate) may_act: bool,
    pub(crate) incidents: Incidents,
    pub(crate) samples: Samples,
    pub(crate) taps: Taps,
}
