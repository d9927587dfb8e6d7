//! Programs that use each word of the macros' expansions as a name of their own, in every role that a name can have.
//!
//! Generated code is placed among the user's items. If it says `Option` where it means `::core::option::Option`, or
//! gives a type or a lifetime of its own a name that a user may have, a correct program does not compile or, worse,
//! does something else. There is no list of such names: the words are collected from the expansions of `sample.rs` and
//! `remote.rs`, which have every kind of process, message, entry, signal, protocol, test and `main`. Names that begin
//! with `__postroom`, in any spelling, are reserved (`book/src/attributes.md`).
//!
//! Not covered: words in other people's macros, such as the derives of serde, and items of the crate root that replace
//! a crate (`extern crate mine as core`).

use crate::expand;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fmt::Write;
use syn::{Attribute, Item, Meta};

/// Number of words that share one process: the fewer processes, the sooner everything is compiled.
const CHUNK: usize = 24;

/// Returns the program that `names.rs` includes.
pub(crate) fn all(sample: &str, remote: &str) -> String {
    let words = words_of(&[sample, remote]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut out = format!("const WORDS: &[&str] = &{words:?};\n");
    let each = |item: &dyn Fn(&str) -> String| words.iter().map(|word| item(word)).collect::<Vec<_>>().join("\n");
    let both = format!("{sample}\n{remote}");

    // Places a sample among items of the user.
    let mut among = |role: &str, items: String, sample: &str| {
        _ = writeln!(out, "mod zz_{role} {{\n{items}\n{sample}\n}}");
    };
    // Without `remote`, as the derives of serde say `usize` and `str`.
    among("types", each(&|word| format!("pub struct {word} {{}}")), sample);
    among("traits", each(&|word| format!("pub trait {word} {{}}")), sample);
    among("modules", each(&|word| format!("pub mod {word} {{}}")), &both);
    among("macros", each(&|word| format!("macro_rules! {word} {{ () => {{ compile_error!(\"theirs\") }} }}")), &both);
    among("constants", each(&|word| format!("pub const {word}: () = ();")), &both);
    among("statics", each(&|word| format!("pub static {word}: () = ();")), &both);
    among("functions", each(&|word| format!("pub fn {word}() {{}}")), &both);
    // A unit struct is a value and a type.
    among("units", each(&|word| format!("pub struct {word};")), sample);
    // Methods that every type has, with each kind of receiver. The derives of serde would find them too.
    for (role, receiver) in
        [("by_value", "self"), ("by_reference", "&self"), ("by_unique", "&mut self"), ("static", "")]
    {
        let methods = each(&|word| format!("fn {word}({receiver}) where Self: ::core::marker::Sized {{}}"));
        let items = format!("pub trait ZzAll {{ {methods} }}\nimpl<ZzT: ?::core::marker::Sized> ZzAll for ZzT {{}}");
        among(&format!("methods_{role}"), items, sample);
    }
    let constants = each(&|word| format!("const {word}: () = ();"));
    let items = format!("pub trait ZzAll {{ {constants} }}\nimpl<ZzT: ?::core::marker::Sized> ZzAll for ZzT {{}}");
    among("associated", items, sample);
    let own = each(&|word| format!("pub fn {word}(self) {{}}"));
    among("inherent", format!("impl ZzState {{ {own} }}\nimpl ZzRemote {{ {own} }}"), &both);

    for (number, chunk) in words.chunks(CHUNK).enumerate() {
        _ = writeln!(out, "mod zz_mentioned_{number} {{\n{}\n}}", mentioned(chunk));
        _ = writeln!(out, "mod zz_lifetimes_{number} {{\n{}\n}}", lifetimes(chunk));
        _ = writeln!(out, "mod zz_parameters_{number} {{\n{}\n}}", parameters(chunk));
        _ = writeln!(out, "mod zz_arguments_{number} {{\n{}\n}}", arguments(chunk));
        _ = writeln!(out, "mod zz_methods_{number} {{\n{}\n}}", methods(chunk));
        _ = writeln!(out, "mod zz_tests_{number} {{\n{}\n}}", tests(chunk));
    }
    for word in words.iter().filter(|word| word.starts_with(char::is_uppercase)) {
        _ = writeln!(out, "mod zz_called_{word} {{\n{}\n}}", called(word));
    }
    out
}

/// Returns processes that mention these types everywhere, and a test that calls one.
fn mentioned(words: &[&str]) -> String {
    // The macros take `str` for the primitive type, which is not owned.
    let words = words.iter().filter(|word| **word != "str");
    let types = words.clone().map(|word| format!("pub struct {word} {{}}")).collect::<String>();
    let values = words.clone().map(|word| format!("{word} {{}}, ")).collect::<String>();
    let processes = with_types(&types, &words.map(|word| format!("{word}, ")).collect::<String>());
    format!(
        "{processes}
        #[::core::prelude::v1::test]
        fn zz_calls_are_answered() {{
            let zz_runtime = ::postroom::Runtime::new().unwrap();
            let zz_state = ZzAsks {{ zz_all: ::core::option::Option::None }};
            let zz_asks = zz_runtime.spawn(zz_state).zz_serve(({values})).unwrap();
            ::core::assert!(zz_call(zz_asks, ({values})).is_ok());
        }}"
    )
}

/// Returns processes that mention these lifetimes everywhere.
fn lifetimes(words: &[&str]) -> String {
    let words = words.iter().filter(|word| **word != "static");
    let all = words.map(|word| format!("for<'{word}> fn(&'{word} ()) -> &'{word} (), ")).collect::<String>();
    with_types("", &all)
}

fn with_types(items: &str, all: &str) -> String {
    let result = format!("::core::result::Result<({all}), ({all})>");
    format!(
        "{items}
        #[::postroom::protocol]
        pub trait ZzAsked {{
            fn zz_asked(&mut self, zz_all: ({all})) -> ({all});
            fn zz_result(&mut self, zz_all: ({all})) -> {result};
        }}
        #[::postroom::process] pub struct ZzAsks {{ zz_all: ::core::option::Option<({all})> }}
        #[::postroom::process(protocols(ZzAsked))]
        impl ZzAsks {{
            #[entry] fn zz_serve(&mut self, zz_all: ({all})) {{}}
            #[entry] async fn zz_run(&mut self, zz_all: ({all})) -> ({all}) {{ zz_all }}
            #[entry] async fn zz_try(&mut self, zz_all: ({all})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
            #[message] fn zz_get(&mut self, zz_all: ({all})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
            #[message] async fn zz_give(&mut self, zz_all: ({all})) -> ({all}) {{ zz_all }}
            #[message(({all}))] fn zz_own(&mut self, zz_all: ({all})) -> {result} {{
                ::core::result::Result::Ok(zz_all)
            }}
            #[message] fn zz_later(&mut self, zz_reply: ::postroom::Reply<{result}>) {{}}
            #[message] fn zz_once(&mut self, zz_reply: ::postroom::Reply<({all})>) {{}}
            #[message] fn zz_many(&mut self, zz_replies: ::postroom::Replies<({all})>) {{}}
        }}
        #[::postroom::process]
        impl ZzAsked for ZzAsks {{
            async fn zz_asked(&mut self, zz_all: ({all})) -> ({all}) {{ zz_all }}
            fn zz_result(&mut self, zz_all: ({all}), zz_reply: ::postroom::Reply<{result}>) {{}}
        }}
        #[::postroom::process] pub struct ZzPlainly {{}}
        #[::postroom::process(protocols(ZzAsked))]
        impl ZzPlainly {{ #[entry] fn zz_serve(&mut self) {{}} }}
        #[::postroom::process]
        impl ZzAsked for ZzPlainly {{
            fn zz_asked(&mut self, zz_all: ({all})) -> ({all}) {{ zz_all }}
            fn zz_result(&mut self, zz_all: ({all})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
        }}
        pub fn zz_call(zz_asks: ::postroom::Address<ZzAsks>, zz_all: ({all})) -> {result} {{
            match ::postroom::Call::wait(zz_asks.zz_get(zz_all)) {{
                ::core::result::Result::Ok(zz_all) => ::core::result::Result::Ok(zz_all),
                ::core::result::Result::Err(::postroom::CallError::Failed(zz_all)) => {{
                    ::core::result::Result::Err(zz_all)
                }}
                ::core::result::Result::Err(_) => ::core::panic!(),
            }}
        }}"
    )
}

/// Returns a generic process and a generic protocol with these type parameters, and a process with these const
/// parameters.
fn parameters(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "str").collect();
    // A const argument with the name of a type of the prelude or of a crate means that, in the user's own code too.
    let is_type = |word: &str| {
        word.starts_with(char::is_uppercase) || ["clippy", "core", "postroom", "serde", "std"].contains(&word)
    };
    let is_primitive = |word: &str| ["bool", "u8", "usize"].contains(&word);
    let values: Vec<&str> = words.iter().copied().filter(|word| !is_type(word) && !is_primitive(word)).collect();
    let bounded = words.iter().map(|word| format!("{word}: ::core::marker::Send + 'static, ")).collect::<String>();
    let plain = words.iter().map(|word| format!("{word}, ")).collect::<String>();
    let constants = values.iter().map(|word| format!("const {word}: ::core::primitive::usize, ")).collect::<String>();
    let constant_names = values.iter().map(|word| format!("{word}, ")).collect::<String>();
    let arrays = values.iter().map(|word| format!("[::core::primitive::u8; {word}], ")).collect::<String>();
    let result = format!("::core::result::Result<({plain}), ({plain})>");
    format!(
        "#[::postroom::protocol]
        pub trait ZzAsked<{plain}> {{ fn zz_asked(&mut self, zz_all: ({plain})) -> {result}; }}
        #[::postroom::process] pub struct ZzAsks<{plain}> {{ zz_all: ::core::option::Option<({plain})> }}
        #[::postroom::process(protocols(ZzAsked<{plain}>))]
        impl<{bounded}> ZzAsks<{plain}> {{
            #[entry] fn zz_serve(&mut self, zz_all: ({plain})) {{}}
            #[entry] async fn zz_run(&mut self, zz_all: ({plain})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
            #[message] fn zz_get(&mut self, zz_all: ({plain})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
            #[message] fn zz_later(&mut self, zz_reply: ::postroom::Reply<{result}>) {{}}
        }}
        #[::postroom::process]
        impl<{bounded}> ZzAsked<{plain}> for ZzAsks<{plain}> {{
            async fn zz_asked(&mut self, zz_all: ({plain})) -> {result} {{ ::core::result::Result::Ok(zz_all) }}
        }}
        #[::postroom::process] pub struct ZzArrays<{constants}> {{ zz_all: ({arrays}) }}
        #[::postroom::process]
        impl<{constants}> ZzArrays<{constant_names}> {{
            #[entry] fn zz_serve(&mut self, zz_all: ({arrays})) {{}}
            #[message] fn zz_get(&mut self, zz_all: ({arrays})) -> ::core::option::Option<({arrays})> {{
                ::core::option::Option::Some(zz_all)
            }}
        }}"
    )
}

/// Returns entries and messages with these arguments, and a state with these fields.
fn arguments(words: &[&str]) -> String {
    // These names are patterns already.
    let words = words.iter().filter(|word| !["Err", "None", "Ok", "Some"].contains(word));
    let all = words.map(|word| format!("{word}: ::core::primitive::u8, ")).collect::<String>();
    format!(
        "#[::postroom::protocol] pub trait ZzAsked {{ #[message(inspect)] fn zz_asked(&mut self, {all}); }}
        #[::postroom::process(inspect)] pub struct ZzAsks {{ {all} }}
        #[::postroom::process(remote, protocols(ZzAsked))]
        impl ZzAsks {{
            #[entry] fn zz_serve(&mut self, {all}) {{}}
            #[entry] async fn zz_run(&mut self, {all}) {{}}
            #[message(inspect)] fn zz_get(&mut self, {all}) {{}}
            #[message] async fn zz_wait(&mut self, {all}) {{}}
        }}
        #[::postroom::process] impl ZzAsked for ZzAsks {{ async fn zz_asked(&mut self, {all}) {{}} }}"
    )
}

/// Returns entries, messages and methods of a protocol with these names.
fn methods(words: &[&str]) -> String {
    let (mut entries, mut messages, mut asked, mut answered) =
        (String::new(), String::new(), String::new(), String::new());
    for word in words {
        if crate::parse::naming::reserved_for_entries(word).is_none() {
            _ = writeln!(entries, "#[entry] async fn {word}(&mut self, zz_a: ::core::primitive::u8) {{}}");
        }
        if crate::parse::naming::reserved_for_messages(word).is_none() {
            _ = writeln!(messages, "#[message] fn {word}(&mut self, zz_a: ::core::primitive::u8) {{}}");
            _ = writeln!(asked, "fn {word}(&mut self, zz_a: ::core::primitive::u8);");
            _ = writeln!(answered, "fn {word}(&mut self, zz_a: ::core::primitive::u8) {{}}");
        }
    }
    format!(
        "#[::postroom::process] pub struct ZzStarts {{}}
        #[::postroom::process] impl ZzStarts {{ #[entry] fn zz_serve(&mut self) {{}} {entries} }}
        #[::postroom::process] pub struct ZzAsks {{}}
        #[::postroom::process] impl ZzAsks {{ #[entry] fn zz_serve(&mut self) {{}} {messages} }}
        #[::postroom::protocol] pub trait ZzAsked {{ fn zz_first(&mut self); {asked} }}
        #[::postroom::process] pub struct ZzAnswers {{}}
        #[::postroom::process(protocols(ZzAsked))]
        impl ZzAnswers {{ #[entry] fn zz_serve(&mut self) {{}} }}
        #[::postroom::process] impl ZzAsked for ZzAnswers {{ fn zz_first(&mut self) {{}} {answered} }}"
    )
}

/// Returns simulated tests with these names.
fn tests(words: &[&str]) -> String {
    let each =
        words.iter().map(|word| format!("#[::postroom::test(seed = 1)] fn {word}(_: ::postroom::test::Sim) {{}}\n"));
    each.collect()
}

/// Returns a process and a protocol with this name.
fn called(word: &str) -> String {
    // An `impl` of a trait with the name of a standard one is never taken for a protocol's.
    let is_taken = syn::parse_str(word).is_ok_and(|path| expand::protocol::is_of_the_language(&path));
    let protocol = if is_taken { "ZzProtocol" } else { word };
    format!(
        " mod zz_process {{
            #[::postroom::process(inspect)] pub struct {word} {{}}
            #[::postroom::process(remote)]
            impl {word} {{
                #[entry] fn zz_serve(&mut self) {{}}
                #[entry] async fn zz_run(&mut self) {{}}
                #[message] fn zz_get(&mut self, zz_a: ::core::primitive::u8) -> ::postroom::Address<{word}> {{
                    ::core::panic!()
                }}
            }}
        }}
        mod zz_protocol {{
            #[::postroom::protocol]
            pub trait {protocol} {{ fn zz_asked(&mut self, zz_a: ::postroom::Address<dyn {protocol}>); }}
            #[::postroom::process] pub struct ZzAsks {{}}
            #[::postroom::process(protocols({protocol}))]
            impl ZzAsks {{ #[entry] fn zz_serve(&mut self) {{}} }}
            #[::postroom::process]
            impl {protocol} for ZzAsks {{
                async fn zz_asked(&mut self, zz_a: ::postroom::Address<dyn {protocol}>) {{}}
            }}
        }}"
    )
}

/// Returns the words in the expansions of all attributes in these sources.
fn words_of(sources: &[&str]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for source in sources {
        let file = syn::parse_file(source).expect("a sample is Rust");
        for item in file.items {
            if let Some(expansion) = expansion(item) {
                collect(expansion, &mut words);
            }
        }
    }
    let is_name = |word: &String| syn::parse_str::<syn::Ident>(word).is_ok() && word != "_";
    let is_ours = |word: &String| {
        let lower = word.to_lowercase();
        lower.starts_with("__postroom") || lower.starts_with("zz")
    };
    words.retain(|word| is_name(word) && !is_ours(word));
    // The function at which a program starts; every module of this program has one.
    words.remove("main");
    words
}

/// Returns the expansion of the item's `postroom` attribute.
fn expansion(mut item: Item) -> Option<TokenStream> {
    let attrs = match &mut item {
        Item::Struct(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Impl(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Fn(item) => &mut item.attrs,
        _ => return None,
    };
    let is_ours =
        |attribute: &Attribute| attribute.path().segments.first().is_some_and(|first| first.ident == "postroom");
    let position = attrs.iter().position(is_ours)?;
    let attribute = attrs.remove(position);
    let options = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let name = attribute.path().segments.last()?.ident.to_string();
    Some(match (name.as_str(), item) {
        ("process", Item::Struct(item)) => expand::declaration::of_struct(options, item),
        ("process", Item::Enum(item)) => expand::declaration::of_enum(options, item),
        ("process", Item::Impl(item)) => expand::process::expand(options, item),
        ("protocol", Item::Trait(item)) => expand::protocol::expand(options, item),
        ("test", Item::Fn(item)) => expand::test_fn::expand(options, item),
        ("main", Item::Fn(item)) => expand::main_fn::expand(options, item),
        _ => panic!("a sample has an attribute that is not expanded: {name}"),
    })
}

fn collect(tokens: TokenStream, words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => _ = words.insert(word.to_string()),
            TokenTree::Group(group) => collect(group.stream(), words),
            TokenTree::Literal(_) | TokenTree::Punct(_) => {}
        }
    }
    assert!(!words.contains("compile_error"), "a sample has a mistake");
}
