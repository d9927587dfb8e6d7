//! Processes on other nodes: they are started, sent messages and called, and their ends are reported.

use super::*;

#[test]
fn a_process_is_started_sent_to_and_called_on_another_node() {
    let (_nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    assert_eq!(account.pid().node(), two.cluster.id());
    let answers = on(&one, move || {
        (0..100).for_each(|_| account.deposit(1).send().unwrap());
        let text = |error: CallError<String>| error.to_string();
        (
            account.deposit(5).wait(),
            account.withdraw(1_000).wait().map_err(text),
            account.withdraw(5).wait().map_err(text),
        )
    });
    assert_eq!(answers, (Ok(205), Err("only 205 there".into()), Ok(200)));
}

#[test]
fn what_cannot_travel_is_refused_with_its_reason() {
    let (_nodes, [one, _two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    let (sent, called) = on(&one, move || (account.audit().send(), account.audit().wait()));
    assert_eq!(sent.unwrap_err().reason, SendFailure::NotRemote(account.pid()));
    assert_eq!(called, Err(CallError::NotRemote));
    let unknown = one.cluster.node("eu-9").unwrap_err();
    let members = vec!["eu-2".to_owned(), "eu-3".to_owned()];
    let NodeError::Unknown { name, members: mut listed } = unknown else { panic!("{unknown}") };
    listed.sort();
    assert_eq!((name.as_str(), listed), ("eu-9", members));
    let node = one.cluster.node("eu-2").unwrap();
    let error = node.start::<Account>("sevre", payloads![]).wait().unwrap_err();
    let has = vec!["open".to_owned(), "serve".to_owned()];
    let expected = postroom::error::EntryError::Unknown { process: "Account".into(), entry: "sevre".into(), has };
    assert_eq!(error, StartError::Inputs(expected.into()));
    let expected = "`Account` has no entry `sevre`; it has `open`, `serve`; did you mean `serve`?";
    assert_eq!(error.to_string(), expected);
    let error = node.start::<Account>("serve", payloads!["much".to_owned()]).wait().unwrap_err();
    assert!(matches!(error, StartError::Inputs(_)), "{error}");
}

#[test]
fn the_end_of_a_process_is_heard_on_another_node() {
    let (_nodes, [one, _two, _three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let (stopped, failed) = (start(&one, "eu-2", 1), start(&one, "eu-2", 1));
    for account in [stopped, failed] {
        observer.watch(account.pid()).wait().unwrap();
        observer.tie(account.pid()).wait().unwrap();
    }
    on(&one, move || {
        assert_eq!(stopped.deposit(1).wait(), Ok(2));
        assert!(stopped.pid().stop());
        let died = failed.fail().wait();
        assert!(matches!(&died, Err(CallError::Died(ExitReason::Panic(panic))) if panic.message == "out of money"));
    });
    until("both ends are heard", || observer.heard().wait().unwrap().len() == 3);
    let mut heard = observer.heard().wait().unwrap();
    heard.sort();
    assert_eq!(heard[0], "down: normal");
    assert!(heard[1].starts_with("down: panic: out of money at"), "{heard:?}");
    assert!(heard[2].starts_with("exit: panic: out of money at"), "{heard:?}");
    // A process that had ended before.
    observer.watch(stopped.pid()).wait().unwrap();
    until("it is told", || observer.heard().wait().unwrap().len() == 4);
    assert_eq!(observer.heard().wait().unwrap()[3], "down: it had ended before");
}
