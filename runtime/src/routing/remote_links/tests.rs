use super::*;
use crate::api::mailbox::Mailbox;
use crate::routing::router::Node;
use crate::routing::transport::Receiver;
use crate::sync::ThreadKind;
use crate::util::notifiers::tests::dropped_on;
use crate::{Package, call::package::Undeliverable};

/// A transport that accepts link messages, or refuses them.
struct Carrier {
    takes: bool,
}

impl Receiver for Carrier {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        drop(package);
        Ok(())
    }
}

impl Transport for Carrier {
    fn send_link(&self, _: Pid, _: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        if self.takes { Ok(()) } else { Err(message) }
    }
}

/// Catches: a thread of a cluster that passes an exit reason on drops the user's error inside it.
#[test]
fn a_link_message_is_not_dropped_on_a_thread_of_a_cluster() {
    let here = Mailbox::new().unwrap();
    let (here, node) = (here.pid(), NodeId::random());
    let there = Pid::of_alias(node, 0, 0, 1);
    for takes in [true, false] {
        Router::of_program().connect(node, std::sync::Arc::new(Carrier { takes }));
        let sent = |reason| send_link(here, there, LinkMessage::Exit(reason));
        assert_eq!(dropped_on(sent), ThreadKind::Notifier, "sent: {takes}");
    }
    Router::of_program().disconnect(node);
    let lost = |reason| send_link(here, there, LinkMessage::Exit(reason));
    assert_eq!(dropped_on(lost), ThreadKind::Notifier, "without a connection");

    let for_another = |reason| assert!(!Node::this().post_link(here, there, LinkMessage::Exit(reason)));
    assert_eq!(dropped_on(for_another), ThreadKind::Notifier, "for another node");
    let of_a_stranger = |reason| assert!(!Node::this().post_link(there, here, LinkMessage::Exit(reason)));
    assert_eq!(dropped_on(of_a_stranger), ThreadKind::Notifier, "of a node that is not connected");
    let unheard = |reason| drop(SentLinkMessage::new(there, here, None, LinkMessage::Down(1, reason)));
    assert_eq!(dropped_on(unheard), ThreadKind::Notifier, "that is not heard");
}
