//! Groups, topics, and process types that are known by name.
//!
//! * [`group_table`]: members and watchers, for groups and topics alike; [`group`], [`topic`]: their two APIs;
//! * [`types`]: process types that can be started by name; [`upgrades`]: upgrades between them.
//!
//! A group exists while it has a member or a watcher. It is notified of their ends through
//! [`registrations`](crate::links::registrations).

pub(crate) mod group;
pub(crate) mod group_table;
pub(crate) mod topic;
pub(crate) mod types;
pub(crate) mod upgrades;
