//! What may be done to a process from the console. Each act is logged.

use crate::taps::Taps;
use postroom::Pid;
use std::net::SocketAddr;

/// An act.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Stop,
    Kill,
    /// Looks at the next messages.
    Tap,
}

impl Act {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "stop" => Some(Self::Stop),
            "kill" => Some(Self::Kill),
            "tap" => Some(Self::Tap),
            _ => None,
        }
    }

    /// Returns false if the process is not alive in this program: others are not reached from here.
    pub(crate) fn perform(self, pid: Pid, taps: &Taps, peer: SocketAddr) -> bool {
        let Some(info) = pid.info() else { return false };
        let is_told = match self {
            Self::Stop => pid.stop(),
            Self::Kill => pid.kill(),
            Self::Tap => {
                taps.begin(info.pid);
                true
            }
        };
        if is_told {
            let act = match self {
                Self::Stop => "stop",
                Self::Kill => "kill",
                Self::Tap => "tap",
            };
            tracing::warn!(
                target: "postroom",
                %pid, process = info.process, label = info.label.as_deref(), act, %peer,
                "an act on a process was asked for from the console"
            );
        }
        is_told
    }
}
