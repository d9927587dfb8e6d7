//! Starting processes by the names of their type and entry, with inputs as values or as JSON. Every mistake is
//! reported before any user code runs. `sends` tests sending by name.

mod sends;

use postroom::InitError;
use postroom::error::{EntryError, StartError};
use postroom::prelude::*;
use postroom_tests::face::{Log, builder, watched, with_runtime};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
struct Limits {
    low: i8,
    high: Option<u64>,
}

/// A type that cannot be read from JSON.
#[derive(Debug, PartialEq)]
struct Token(u32);

#[process]
#[derive(Default)]
struct Account {
    seen: Vec<String>,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) {
        self.seen.push(opening.to_string());
    }

    #[entry]
    fn numbers(&mut self, byte: u8, signed: i16, float: f64, small: f32, size: usize, large: u128) {
        self.seen.push(format!("{byte} {signed} {float} {small} {size} {large}"));
    }

    #[entry]
    fn texts(&mut self, name: String, letter: char, flag: bool, list: Vec<u8>) {
        self.seen.push(format!("{name} {letter} {flag} {list:?}"));
    }

    #[entry]
    fn limited(&mut self, limits: Limits, others: HashMap<String, Limits>, maybe: Option<String>) {
        self.seen.push(format!("{limits:?} {} {maybe:?}", others.len()));
    }

    #[entry]
    fn with_token(&mut self, token: Token) {
        self.seen.push(format!("{token:?}"));
    }

    #[entry]
    fn nothing(&mut self) {
        self.seen.push("nothing".to_string());
    }

    #[entry]
    fn fail(&mut self) -> Result<(), std::fmt::Error> {
        Err(std::fmt::Error)
    }

    #[entry]
    fn explode(&mut self) {
        panic!("in the entry");
    }

    #[entry]
    async fn live(&mut self, ctx: &mut Context<Self>, log: Log<String>, times: u32) -> u32 {
        for _ in 0..times {
            ctx.serve_next(self).await;
        }
        log.add(format!("{} times", self.seen.len()));
        times
    }

    #[message]
    fn seen(&mut self) -> Vec<String> {
        self.seen.push("asked".to_string());
        self.seen.clone()
    }
}

/// Starts the entry with `inputs`, and returns the process's description of them.
fn started(runtime: &Runtime, entry: &str, inputs: Payloads) -> Result<String, String> {
    let pid = runtime.start("Account", entry, inputs).map_err(|error| error.to_string())?;
    Ok(runtime.address::<Account>(pid).unwrap().seen().wait().unwrap().swap_remove(0))
}

fn from_json(runtime: &Runtime, entry: &str, inputs: &str) -> Result<String, String> {
    let pid = runtime.start_json("Account", entry, inputs).map_err(|error| error.to_string())?;
    Ok(runtime.address::<Account>(pid).unwrap().seen().wait().unwrap().swap_remove(0))
}

fn with_accounts(body: impl FnOnce(&Runtime) + Send + 'static) {
    with_runtime(|runtime| {
        runtime.register_type::<Account>();
        body(runtime);
    });
}

#[test]
fn a_registered_type_is_started_at_the_named_entry() {
    with_accounts(|runtime| {
        assert_eq!(started(runtime, "serve", payloads![100]).as_deref(), Ok("100"));
        assert_eq!(started(runtime, "nothing", payloads![]).as_deref(), Ok("nothing"));
        let line = line!() + 1;
        let pid = runtime.start("Account", "serve", payloads![1_i64]).unwrap();
        let info = pid.info().unwrap();
        assert_eq!((info.process, info.entry, info.place.map(|place| place.line())), ("Account", "serve", Some(line)));
    });
}

#[test]
fn an_async_entry_is_started_too() {
    with_accounts(|runtime| {
        let log = Log::new();
        let pid = runtime.start("Account", "live", payloads![log.clone(), 2_u8]).unwrap();
        let account = runtime.address::<Account>(pid).unwrap();
        let ended = pid.join();
        assert_eq!(account.seen().wait().map(|seen| seen.len()), Ok(1));
        assert_eq!(account.seen().wait().map(|seen| seen.len()), Ok(2));
        assert_eq!((ended.wait(), log.all()), (ExitReason::Normal, vec!["2 times".to_string()]));
    });
}

#[test]
fn a_factory_says_how_the_state_is_made_and_a_name_may_be_any_text() {
    with_runtime(|runtime| {
        runtime.register_type_with("savings account", || Account { seen: vec!["made".to_string()] });
        let pid = runtime.start("savings account", "serve", payloads![5]).unwrap();
        assert_eq!(runtime.address::<Account>(pid).unwrap().seen().wait().unwrap(), ["made", "5", "asked"]);
        // The later registration replaces the first.
        runtime.register_type_with("savings account", || Account { seen: vec!["anew".to_string()] });
        let pid = runtime.start("savings account", "nothing", payloads![]).unwrap();
        assert_eq!(runtime.address::<Account>(pid).unwrap().seen().wait().unwrap(), ["anew", "nothing", "asked"]);
    });
}

#[test]
fn a_name_given_to_the_type_is_the_one_it_is_registered_under() {
    #[process(name = "Konto")]
    #[derive(Default)]
    struct Renamed;

    #[process]
    impl Renamed {
        #[entry]
        fn serve(&mut self) {}
    }

    with_runtime(|runtime| {
        runtime.register_type::<Renamed>();
        assert_eq!(
            runtime.start("Konto", "serve", payloads![]).unwrap().info().map(|info| info.process),
            Some("Konto")
        );
        assert!(matches!(runtime.start("Renamed", "serve", payloads![]), Err(StartError::Unknown { .. })));
    });
}

#[test]
fn numbers_convert_where_nothing_is_lost() {
    with_accounts(|runtime| {
        let same = payloads![1_u8, -2_i16, 0.5_f64, 0.25_f32, 3_usize, 4_u128];
        assert_eq!(started(runtime, "numbers", same).as_deref(), Ok("1 -2 0.5 0.25 3 4"));
        let plain = payloads![1, -2, 3, 4, 5, 6];
        assert_eq!(started(runtime, "numbers", plain).as_deref(), Ok("1 -2 3 4 5 6"));
        let edges = payloads![255_i64, i16::MIN as i64, 1_u8, 0.25_f64, u64::MAX, u128::MAX];
        let said = format!("255 -32768 1 0.25 {} {}", u64::MAX, u128::MAX);
        assert_eq!(started(runtime, "numbers", edges), Ok(said));
        assert_eq!(started(runtime, "serve", payloads![7.0]).as_deref(), Ok("7"));
        assert_eq!(
            started(runtime, "serve", payloads![9_223_372_036_854_775_807_u64]).as_deref(),
            Ok("9223372036854775807")
        );
    });
}

#[test]
fn lossy_conversions_are_refused() {
    with_accounts(|runtime| {
        let wrong = |inputs| started(runtime, "serve", inputs).unwrap_err();
        for inputs in
            [payloads![0.5], payloads![u64::MAX], payloads![f64::NAN], payloads![f64::INFINITY], payloads![1e300]]
        {
            assert!(wrong(inputs).contains("`opening`"));
        }
        assert!(wrong(payloads!["7"]).contains("`&str`"));
        assert!(wrong(payloads![true]).contains("`bool`"));
        let fits = |byte: i32, small: f64| started(runtime, "numbers", payloads![byte, 0, 0, small, 0, 0]).is_ok();
        assert_eq!((fits(255, 0.5), fits(256, 0.5), fits(-1, 0.5), fits(0, 0.1)), (true, false, false, false));
        assert_eq!(runtime.statistics().processes.live, 1);
    });
}

#[test]
fn a_text_literal_becomes_a_string() {
    with_accounts(|runtime| {
        let literal = payloads!["Ada", 'x', true, vec![1_u8, 2]];
        assert_eq!(started(runtime, "texts", literal).as_deref(), Ok("Ada x true [1, 2]"));
        let owned = payloads!["Ada".to_string(), 'x', false, Vec::<u8>::new()];
        assert_eq!(started(runtime, "texts", owned).as_deref(), Ok("Ada x false []"));
        let limits = Limits { low: 1, high: None };
        let whole = payloads![limits, HashMap::<String, Limits>::new(), Some("x".to_string())];
        assert!(started(runtime, "limited", whole).is_ok());
    });
}

#[test]
fn an_unknown_type_is_refused_with_the_existing_ones() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let none = runtime.start("Account", "serve", payloads![1]).unwrap_err();
        assert_eq!(
            none.to_string(),
            "no process type `Account` is registered; there are no types yet; register it with \
             `runtime.register_type::<Type>()`"
        );
        runtime.register_type::<Account>();
        runtime.register_type_with("Counter", Account::default);
        let near = runtime.start("Acount", "serve", payloads![1]).unwrap_err();
        assert_eq!(
            near.to_string(),
            "no process type `Acount` is registered; there are `Account`, `Counter`; did you mean `Account`?"
        );
        let far = runtime.start("Zebra crossing", "serve", payloads![1]).unwrap_err().to_string();
        assert!(far.ends_with("there are `Account`, `Counter`"), "{far}");
        // Each runtime has its own registrations.
        let other = builder().build().unwrap();
        let refused = other.start("Account", "serve", payloads![1]);
        assert!(matches!(refused, Err(StartError::Unknown { has, .. }) if has.is_empty()));
    });
}

/// Returns the entry error of a failed start; panics on any other result.
fn entry_error<T>(started: Result<T, StartError>) -> EntryError {
    match started {
        Err(StartError::Spawn(SpawnError::Entry(error))) => *error,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn an_unknown_entry_is_refused_with_the_existing_ones() {
    with_accounts(|runtime| {
        let near = entry_error(runtime.start("Account", "sreve", payloads![1]));
        let has = "`serve`, `numbers`, `texts`, `limited`, `with_token`, `nothing`, `fail`, `explode`, `live`";
        assert_eq!(near.to_string(), format!("`Account` has no entry `sreve`; it has {has}; did you mean `serve`?"));
        for far in ["", "seen", "zzzzzzzzzzzz", &"x".repeat(1 << 20)] {
            let error = entry_error(runtime.start("Account", far, payloads![]));
            assert!(matches!(&error, EntryError::Unknown { has, .. } if has.len() == 9));
            assert!(error.to_string().len() < 400);
        }
    });
}

#[test]
fn the_wrong_number_of_inputs_is_refused_with_the_right_ones() {
    with_accounts(|runtime| {
        let none = entry_error(runtime.start("Account", "serve", payloads![]));
        assert_eq!(none.to_string(), "`Account::serve` takes 1 input (`opening: i64`), not 0");
        let many = entry_error(runtime.start("Account", "serve", payloads![1, 2]));
        assert_eq!(many.to_string(), "`Account::serve` takes 1 input (`opening: i64`), not 2");
        let some = entry_error(runtime.start("Account", "nothing", payloads![1]));
        assert!(matches!(some, EntryError::Count { expected: 0, came: 1, .. }), "{some}");
        assert!(matches!(entry_error(runtime.start_json("Account", "serve", "[]")), EntryError::Count { came: 0, .. }));
    });
}

#[test]
fn an_input_of_the_wrong_type_is_refused_with_its_value() {
    with_accounts(|runtime| {
        let wrong = entry_error(runtime.start("Account", "texts", payloads!["Ada", 'x', 3, Vec::<u8>::new()]));
        assert_eq!(
            wrong.to_string(),
            "input `flag` of `Account::texts` is of type `bool`, and `3` of type `i32` cannot be converted \
             to it without loss"
        );
        assert!(started(runtime, "with_token", payloads![Token(3)]).is_ok());
        assert!(started(runtime, "with_token", payloads![3]).is_err());
    });
}

#[test]
fn json_becomes_whatever_the_inputs_can_be_read_as() {
    with_accounts(|runtime| {
        assert_eq!(from_json(runtime, "serve", "[100]").as_deref(), Ok("100"));
        assert_eq!(from_json(runtime, "nothing", " [ ] ").as_deref(), Ok("nothing"));
        assert_eq!(from_json(runtime, "numbers", "[1, -2, 3, 0.5, 4, 5]").as_deref(), Ok("1 -2 3 0.5 4 5"));
        assert_eq!(from_json(runtime, "texts", r#"["Ada", "x", true, [1, 2]]"#).as_deref(), Ok("Ada x true [1, 2]"));
        let limits = r#"[{"low": -1, "high": 9}, {"a": {"low": 1, "high": null}}, null]"#;
        assert_eq!(from_json(runtime, "limited", limits).as_deref(), Ok("Limits { low: -1, high: Some(9) } 1 None"));
    });
}

#[test]
fn json_that_does_not_fit_is_refused_with_the_place() {
    with_accounts(|runtime| {
        for text in
            ["", "100", "\"[100]\"", "null", "{\"opening\": 100", "[100", "[100] x", "nonsense", &"[".repeat(100_000)]
        {
            let error = runtime.start_json("Account", "serve", text).unwrap_err();
            assert!(matches!(error, StartError::Json(_)), "{error}");
            assert!(error.to_string().len() < 200, "{error}");
        }
        for text in ["[0.5]", "[\"100\"]", "[null]", "[9223372036854775808]", "[[1]]"] {
            let error = entry_error(runtime.start_json("Account", "serve", text));
            assert!(matches!(&error, EntryError::Type { input, .. } if input == "opening"), "{error}");
        }
        let inner = entry_error(runtime.start_json("Account", "limited", r#"[{"low": 300, "high": 1}, {}, null]"#));
        assert!(inner.to_string().contains("`limits`") && inner.to_string().contains("300"), "{inner}");
        let token = entry_error(runtime.start_json("Account", "with_token", "[3]"));
        assert!(token.to_string().contains("not `Deserialize`"), "{token}");
        let long = format!("[\"{}\"]", "x".repeat(1 << 20));
        assert!(entry_error(runtime.start_json("Account", "serve", &long)).to_string().len() < 500);
        assert_eq!(runtime.statistics().processes.spawned, 0);
    });
}

/// Catches: values of an object that are taken in the order of their names or of the text, instead of by name.
#[test]
fn a_json_object_gives_the_inputs_by_their_names() {
    with_accounts(|runtime| {
        let json = |entry, inputs| from_json(runtime, entry, inputs);
        assert_eq!(json("serve", r#"{"opening": 100}"#).as_deref(), Ok("100"));
        assert_eq!(json("nothing", "{}").as_deref(), Ok("nothing"));
        let numbers = r#"{"small": 0.5, "byte": 1, "large": 5, "size": 4, "signed": -2, "float": 3}"#;
        assert_eq!(json("numbers", numbers).as_deref(), Ok("1 -2 3 0.5 4 5"));
        // An input may be missing where serde allows a field of a struct to be missing.
        let limited = r#"{"others": {}, "limits": {"low": 1, "high": null}}"#;
        assert_eq!(json("limited", limited).as_deref(), Ok("Limits { low: 1, high: None } 0 None"));
        let value = serde_json::json!({"opening": 7});
        for pid in [runtime.start_json("Account", "serve", &value), runtime.start_json("Account", "serve", value)] {
            assert_eq!(runtime.address::<Account>(pid.unwrap()).unwrap().seen().wait().unwrap()[0], "7");
        }
        assert!(runtime.start_json("Account", "serve", serde_json::json!([7])).is_ok());
        assert!(runtime.start_json("Account", "serve", format!("[{}]", 7)).is_ok());
        assert!(matches!(runtime.start_json("Account", "serve", serde_json::json!(7)), Err(StartError::Json(_))));
    });
}

#[test]
fn a_json_object_with_wrong_names_is_refused_with_the_valid_ones() {
    with_accounts(|runtime| {
        let error = |entry, inputs: &str| entry_error(runtime.start_json("Account", entry, inputs));
        let missing = error("serve", "{}");
        assert!(matches!(&missing, EntryError::Missing { input, .. } if input == "opening"));
        assert_eq!(
            missing.to_string(),
            "input `opening` of `Account::serve`, of type `i64`, is missing; give it a value"
        );
        assert!(matches!(error("with_token", "{}"), EntryError::Missing { .. }));
        let unknown = error("texts", r#"{"name": "Ada", "letter": "x", "flak": true, "list": []}"#);
        assert_eq!(
            unknown.to_string(),
            "`Account::texts` has no input `flak`; it has `name`, `letter`, `flag`, `list`; did you mean `flag`?"
        );
        let long = format!("{{\"opening\": 1, \"{}\": 1}}", "x".repeat(1 << 20));
        assert!(error("serve", &long).to_string().len() < 200);
        // Named inputs are checked like positional ones.
        let wrong = error("serve", r#"{"opening": "100"}"#);
        assert!(matches!(&wrong, EntryError::Type { input, .. } if input == "opening"), "{wrong}");
        assert_eq!(runtime.statistics().processes.spawned, 0);
    });
}

#[test]
fn an_entry_that_fails_or_panics_is_the_starters_error() {
    with_accounts(|runtime| {
        let failed = runtime.start("Account", "fail", payloads![]).unwrap_err();
        assert!(matches!(failed, StartError::Spawn(SpawnError::Init(InitError::Failed(_)))), "{failed}");
        let panicked = runtime.start("Account", "explode", payloads![]).unwrap_err();
        assert!(matches!(panicked, StartError::Spawn(SpawnError::Init(InitError::Panicked(_)))), "{panicked}");
        assert_eq!(runtime.statistics().processes.live, 0);
    });
}

#[test]
fn a_refused_start_makes_nothing_and_a_panic_of_the_factory_is_an_error() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    with_runtime(|runtime| {
        runtime.register_type_with("Account", || {
            MADE.fetch_add(1, Ordering::Relaxed);
            Account::default()
        });
        assert!(runtime.start("Account", "nowhere", payloads![1]).is_err());
        assert!(runtime.start("Account", "serve", payloads![]).is_err());
        assert!(runtime.start("Account", "serve", payloads!["x"]).is_err());
        assert!(runtime.start_json("Account", "serve", "[\"x\"]").is_err());
        assert_eq!(MADE.load(Ordering::Relaxed), 0);
        assert!(runtime.start("Account", "serve", payloads![1]).is_ok());
        assert_eq!(MADE.load(Ordering::Relaxed), 1);

        runtime.register_type_with("Broken", || -> Account { panic!("in the factory") });
        match runtime.start("Broken", "serve", payloads![1]) {
            Err(StartError::Spawn(SpawnError::Init(InitError::Panicked(panic)))) => {
                assert_eq!(panic.message, "in the factory")
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_factory_may_register_and_start_others() {
    with_runtime(|runtime| {
        let host = runtime.host();
        runtime.register_type_with("Outer", move || {
            host.register_type::<Account>();
            host.start("Account", "serve", payloads![1]).unwrap();
            Account::default()
        });
        runtime.start("Outer", "nothing", payloads![]).unwrap();
        assert_eq!(runtime.statistics().processes.live, 2);
    });
}

#[test]
fn a_start_after_the_shutdown_is_refused() {
    watched(|| {
        let runtime = builder().build().unwrap();
        runtime.register_type::<Account>();
        let host = runtime.host();
        drop(runtime);
        let refused = host.start("Account", "serve", payloads![1]).unwrap_err();
        assert!(matches!(refused, StartError::Spawn(SpawnError::Shutdown)), "{refused}");
    });
}

/// The compiler chooses the conversion of an input before it checks lifetimes. For a borrowed input, it used to choose
/// the conversion from JSON and then reject it.
#[test]
fn an_input_that_borrows_for_ever_is_taken_as_a_value_and_not_from_json() {
    #[process]
    #[derive(Default)]
    struct Guest;
    #[process]
    impl Guest {
        #[entry]
        fn join(&mut self, rooms: Vec<&'static str>, name: Option<&'static str>) {
            assert_eq!((rooms.len(), name), (2, Some("Ada")));
        }
    }
    with_runtime(|runtime| {
        runtime.register_type::<Guest>();
        let inputs = payloads![vec!["kitchen", "garden"], Some("Ada")];
        assert!(runtime.start("Guest", "join", inputs).is_ok());
        let refused = entry_error(runtime.start_json("Guest", "join", r#"[["kitchen", "garden"], "Ada"]"#));
        assert!(refused.to_string().contains("`rooms`"), "{refused}");
    });
}
