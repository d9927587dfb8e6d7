//! The options in `#[process(…)]`, `#[postroom::main(…)]` and `#[postroom::test(…)]`: `key = value`, separated by
//! commas.

use crate::check::bare::bare_value;
use crate::check::diagnostics::Diagnostics;
use crate::check::suggest;
use crate::check::text::text;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Lit, LitStr, Path, Token, parenthesized, parse_quote, token};

struct Setting {
    key: Ident,
    value: Option<Expr>,
    /// The content of the parentheses, as in `protocols(Storage, Audit)`.
    list: Option<TokenStream>,
    /// The span of the closing parenthesis, or of the key if there are no parentheses.
    end: Span,
}

impl Parse for Setting {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let key = input.call(Ident::parse_any)?;
        let (mut list, mut end) = (None, key.span());
        if input.peek(token::Paren) {
            let inside;
            end = parenthesized!(inside in input).span.close();
            list = Some(inside.parse()?);
        }
        let value = if input.parse::<Option<Token![=]>>()?.is_none() {
            None
        } else if key == "crate" && !input.peek(syn::LitStr) {
            // A bare `crate` is a valid path here, but not a valid expression.
            let path = input.call(Path::parse_mod_style)?;
            Some(parse_quote!(#path))
        } else {
            Some(bare_value(input.parse()?))
        };
        Ok(Self { key, value, list, end })
    }
}

fn settings(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Vec<Setting> {
    match Punctuated::<Setting, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(settings) => settings.into_iter().collect(),
        Err(error) => {
            diagnostics.at(error.span(), "options are written `key = value`", "write `name = \"Text\"`");
            Vec::new()
        }
    }
}

fn unknown(setting: &Setting, attribute: &str, known: &[&str], diagnostics: &mut Diagnostics) {
    let Setting { key, value, .. } = setting;
    let what = format!("{attribute} has no option `{key}`; it has {}", suggest::list(known));
    match suggest::nearest(&key.to_string(), known) {
        Some(meant) => diagnostics.on(key, what, format!("write `{meant}`")),
        None => diagnostics.on(quote!(#key #value), what, "remove it"),
    }
}

/// Removes and reports a second `#[process]` on the same item.
pub(crate) fn twice(attrs: &mut Vec<Attribute>, diagnostics: &mut Diagnostics) {
    attrs.retain(|attribute| {
        let again = attribute.path().segments.last().is_some_and(|last| last.ident == "process");
        if again {
            diagnostics.on(attribute, "`#[process]` appears twice", "remove it");
        }
        !again
    });
}

/// Options of `#[process]` on a struct or enum.
pub(crate) struct TypeOptions {
    pub(crate) krate: Path,
    pub(crate) name: Option<LitStr>,
    pub(crate) ends_on_error: bool,
    /// Whether the process has a thread of its own.
    pub(crate) pinned: bool,
    /// Whether calls are discarded if their callers have stopped waiting.
    pub(crate) skips_abandoned: bool,
    /// Whether the state may be shown.
    pub(crate) inspect: bool,
}

impl TypeOptions {
    pub(crate) fn read(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        const KNOWN: &[&str] = &["crate", "inspect", "name", "on_error", "pinned", "skip_abandoned"];
        let mut out = Self {
            krate: default_crate(),
            name: None,
            ends_on_error: false,
            pinned: false,
            skips_abandoned: false,
            inspect: false,
        };
        for setting in settings(tokens, diagnostics) {
            match setting.key.to_string().as_str() {
                "crate" => out.krate = path(&setting, out.krate, diagnostics),
                "name" => out.name = name(&setting, diagnostics),
                "on_error" => out.ends_on_error = ends_on_error(&setting, diagnostics),
                "pinned" => {
                    let what = "`pinned` stands alone: a process has a thread of its own, or it has not";
                    out.pinned = bare(&setting, what, diagnostics);
                }
                "inspect" => {
                    let what = "`inspect` stands alone: the state of a process can be looked at, or it cannot";
                    out.inspect = bare(&setting, what, diagnostics);
                }
                "skip_abandoned" => {
                    let what =
                        "`skip_abandoned` stands alone: calls without a waiting caller are skipped, or they are not";
                    out.skips_abandoned = bare(&setting, what, diagnostics);
                }
                "remote" => {
                    let what = "the option `remote` is about messages: it belongs to `#[process]` on the `impl`";
                    diagnostics.on(&setting.key, what, "move `remote` to the `impl`'s `#[process]`");
                }
                "protocols" => {
                    let what = "the option `protocols` belongs to `#[process]` on the `impl`";
                    diagnostics.on(&setting.key, what, "move `protocols(…)` to the `impl`'s `#[process]`");
                }
                _ => unknown(&setting, "`#[process]`", KNOWN, diagnostics),
            }
        }
        out
    }
}

fn name(setting: &Setting, diagnostics: &mut Diagnostics) -> Option<LitStr> {
    match text_of(setting) {
        Some(text) if !text.value().is_empty() => Some(text.clone()),
        Some(text) => {
            diagnostics.on(text, "a process is started by its name: the name cannot be empty", "write `\"Account\"`");
            None
        }
        None => {
            missing(setting, "`name` takes a string", "name = \"Account\"", "\"Account\"", diagnostics);
            None
        }
    }
}

/// Reads an option that takes no value.
fn bare(setting: &Setting, what: &str, diagnostics: &mut Diagnostics) -> bool {
    let (key, value) = (&setting.key, &setting.value);
    let written = match (value, &setting.list) {
        (None, None) => return true,
        (Some(value), _) => quote!(#key #value),
        (None, Some(_)) => quote_spanned!(setting.end=> #key ()),
    };
    diagnostics.on(written, what, format!("write `{key}`"));
    true
}

fn ends_on_error(setting: &Setting, diagnostics: &mut Diagnostics) -> bool {
    const KNOWN: &[&str] = &["end", "report"];
    match text_of(setting) {
        Some(text) if text.value() == "end" => true,
        Some(text) if text.value() == "report" => false,
        Some(text) => {
            let meant = suggest::nearest(&text.value(), KNOWN).unwrap_or("end");
            let what =
                format!("`on_error` cannot be {:?}: a process can `\"end\"` or `\"report\"` and live", text.value());
            diagnostics.on(text, what, format!("write `{meant:?}`"));
            false
        }
        None => {
            missing(setting, "`on_error` is `\"end\"` or `\"report\"`", "on_error = \"end\"", "\"end\"", diagnostics);
            false
        }
    }
}

/// Options of `#[process]` on an impl block.
pub(crate) struct ImplOptions {
    pub(crate) krate: Path,
    pub(crate) protocols: Vec<Path>,
    /// Whether the list of protocols could not be parsed, in which case any protocol counts as listed.
    pub(crate) names_any_protocol: bool,
    /// Whether messages may come from other nodes.
    pub(crate) remote: bool,
}

/// Reads the options of an impl block. `of_protocol` says whether the block implements a protocol.
pub(crate) fn of_impl(tokens: TokenStream, of_protocol: bool, diagnostics: &mut Diagnostics) -> ImplOptions {
    let (mut krate, mut protocols, mut names_any_protocol) = (default_crate(), Vec::new(), false);
    let mut remote = false;
    for setting in settings(tokens, diagnostics) {
        match setting.key.to_string().as_str() {
            "crate" => krate = path(&setting, krate, diagnostics),
            key @ ("name" | "on_error") => {
                let what = format!("the option `{key}` belongs to `#[process]` on the struct");
                diagnostics.on(&setting.key, what, format!("move `{key} = …` to the struct's `#[process]`"));
            }
            key @ ("inspect" | "pinned" | "skip_abandoned") => {
                let what = format!("the option `{key}` belongs to `#[process]` on the struct");
                diagnostics.on(&setting.key, what, format!("move `{key}` to the struct's `#[process]`"));
            }
            "protocols" if of_protocol => {
                let what = "the option `protocols` belongs to the type's own `impl`";
                diagnostics.on(
                    &setting.key,
                    what,
                    "move `protocols(…)` to the `#[process]` before the type's own `impl`",
                );
            }
            "protocols" => {
                let before = diagnostics.count();
                named_protocols(&setting, &mut protocols, diagnostics);
                names_any_protocol = diagnostics.count() > before && protocols.is_empty();
            }
            "remote" if of_protocol => {
                let what = "which messages of a protocol may come from other nodes is for the protocol to say";
                diagnostics.on(&setting.key, what, "remove it, and write `#[protocol(remote)]` before the trait");
            }
            "remote" => remote = is_remote(&setting, diagnostics),
            _ if of_protocol => unknown(&setting, "`#[process]` on an `impl` of a protocol", &["crate"], diagnostics),
            _ => unknown(&setting, "`#[process]` on an `impl`", &["crate", "protocols", "remote"], diagnostics),
        }
    }
    ImplOptions { krate, protocols, names_any_protocol, remote }
}

/// Reads the option `remote`, which needs items that `postroom` has only with its feature `serde`.
fn is_remote(setting: &Setting, diagnostics: &mut Diagnostics) -> bool {
    bare(setting, "`remote` stands alone: messages may come from other nodes, or they may not", diagnostics);
    if !cfg!(feature = "serde") {
        let what = "`remote` needs the feature `serde` of `postroom`";
        diagnostics.on(&setting.key, what, "add `features = [\"serde\"]` to the dependency in `Cargo.toml`");
    }
    true
}

/// Reads the paths in `protocols(…)`.
fn named_protocols(setting: &Setting, protocols: &mut Vec<Path>, diagnostics: &mut Diagnostics) {
    let (key, value) = (&setting.key, &setting.value);
    let what = "`protocols` names the protocols that the process answers";
    let Some(list) = setting.list.clone() else {
        let (written, shown) = match value {
            Some(value) => (quote!(#key #value), text(value)),
            None => (quote!(#key), "Storage".to_owned()),
        };
        return diagnostics.on(written, what, format!("write `protocols({shown})`"));
    };
    let Ok(paths) = Punctuated::<Path, Token![,]>::parse_terminated.parse2(list.clone()) else {
        return diagnostics.on(&list, what, "write `Storage`");
    };
    if paths.is_empty() {
        let whole = quote_spanned!(setting.end=> #key ());
        return diagnostics.on(whole, "`protocols()` names no protocol", "write `protocols(Storage)`");
    }
    for path in paths {
        if protocols.iter().any(|other| text(other) == text(&path)) {
            diagnostics.on(&path, format!("`{}` is named twice", text(&path)), "remove it");
        } else {
            protocols.push(path);
        }
    }
}

/// Reads the options of `#[protocol]`: the path of the crate, and whether messages may come from other nodes.
pub(crate) fn of_protocol(tokens: TokenStream, diagnostics: &mut Diagnostics) -> (Path, bool) {
    let (mut krate, mut remote) = (default_crate(), false);
    for setting in settings(tokens, diagnostics) {
        match setting.key.to_string().as_str() {
            "crate" => krate = path(&setting, krate, diagnostics),
            "remote" => remote = is_remote(&setting, diagnostics),
            _ => unknown(&setting, "`#[protocol]`", &["crate", "remote"], diagnostics),
        }
    }
    (krate, remote)
}

/// Options of `#[postroom::main]`.
pub(crate) struct MainOptions {
    pub(crate) krate: Path,
    pub(crate) workers: Option<Expr>,
}

impl MainOptions {
    pub(crate) fn read(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mut out = Self { krate: default_crate(), workers: None };
        for setting in settings(tokens, diagnostics) {
            match setting.key.to_string().as_str() {
                "crate" => out.krate = path(&setting, out.krate, diagnostics),
                "workers" => out.workers = workers(setting, diagnostics),
                _ => unknown(&setting, "`#[postroom::main]`", &["crate", "workers"], diagnostics),
            }
        }
        out
    }
}

/// Options of `#[postroom::test]`.
pub(crate) struct TestOptions {
    pub(crate) krate: Path,
    /// Calls of the simulation builder's methods.
    pub(crate) settings: Vec<TokenStream>,
}

impl TestOptions {
    pub(crate) fn read(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        const KNOWN: &[&str] = &["crate", "faults", "max_time", "max_turns", "seed", "seeds", "strategy"];
        let (mut krate, mut found) = (default_crate(), Vec::new());
        for setting in settings(tokens, diagnostics) {
            let key = setting.key.to_string();
            match key.as_str() {
                "crate" => krate = path(&setting, krate, diagnostics),
                "seeds" | "seed" | "max_turns" => found.extend(number(setting, diagnostics)),
                "max_time" | "strategy" | "faults" => found.push(setting),
                _ => unknown(&setting, "`#[postroom::test]`", KNOWN, diagnostics),
            }
        }
        let settings = found.into_iter().filter_map(|setting| test_setting(&krate, &setting, diagnostics)).collect();
        Self { krate, settings }
    }
}

/// Checks a setting whose value is a number or an expression.
fn number(setting: Setting, diagnostics: &mut Diagnostics) -> Option<Setting> {
    let key = &setting.key;
    match &setting.value {
        Some(Expr::Lit(literal)) if !matches!(literal.lit, Lit::Int(_)) => {
            diagnostics.on(&literal.lit, format!("`{key}` is a number"), "write `100`");
            None
        }
        Some(_) => Some(setting),
        None => {
            missing(&setting, &format!("`{key}` needs a number"), &format!("{key} = 100"), "100", diagnostics);
            None
        }
    }
}

/// Returns the call of the simulation's method for a setting.
fn test_setting(krate: &Path, setting: &Setting, diagnostics: &mut Diagnostics) -> Option<TokenStream> {
    const STRATEGIES: [(&str, &str); 6] = [
        ("exhaustive", "Exhaustive"),
        ("pct", "Pct"),
        ("portfolio", "Portfolio"),
        ("production", "Production"),
        ("random", "Random"),
        ("rare", "Rare"),
    ];
    let (key, value) = (&setting.key, &setting.value);
    match key.to_string().as_str() {
        "strategy" => {
            let known: Vec<_> = STRATEGIES.iter().map(|(name, _)| *name).collect();
            let text = text_of(setting);
            let variant = text.and_then(|text| STRATEGIES.iter().find(|(name, _)| *name == text.value()));
            let Some((_, variant)) = variant else {
                let what = format!("`strategy` is one of {}", suggest::list(&known));
                let meant = text.and_then(|text| suggest::nearest(&text.value(), &known)).unwrap_or("portfolio");
                missing(setting, &what, &format!("strategy = {meant:?}"), &format!("{meant:?}"), diagnostics);
                return None;
            };
            let variant = Ident::new(variant, Span::call_site());
            Some(quote!(.schedules(#krate::test::Schedules::#variant)))
        }
        "faults" => match text_of(setting).map(LitStr::value).as_deref() {
            Some("none") => Some(quote!(.without_faults())),
            _ => {
                let what = "`faults` can only be `\"none\"`; faults are asked for with methods of `Sim`";
                missing(setting, what, "faults = \"none\"", "\"none\"", diagnostics);
                None
            }
        },
        "max_time" => match (text_of(setting).map(|text| duration(&text.value())), value) {
            (Some(Some(nanoseconds)), _) => Some(quote!(.max_time(::core::time::Duration::from_nanos(#nanoseconds)))),
            (None, Some(value)) if !matches!(value, Expr::Lit(_)) => Some(quote!(.max_time(#value))),
            _ => {
                let what = "`max_time` is a time, such as `\"90s\"`, `\"5m\"`, `\"1h\"` or a `Duration`";
                missing(setting, what, "max_time = \"1h\"", "\"1h\"", diagnostics);
                None
            }
        },
        _ => Some(quote!(.#key(#value))),
    }
}

/// Parses a duration such as `90s` into nanoseconds.
fn duration(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match &text[digits..] {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn workers(setting: Setting, diagnostics: &mut Diagnostics) -> Option<Expr> {
    match &setting.value {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Int(number) if number.base10_digits() == "0" => {
                diagnostics.on(number, "without workers nothing runs", "write `1`");
                return None;
            }
            Lit::Int(_) => {}
            other => {
                diagnostics.on(other, "`workers` is a number", "write `2`");
                return None;
            }
        },
        Some(_) => {}
        None => missing(&setting, "`workers` needs a number", "workers = 2", "2", diagnostics),
    }
    setting.value
}

fn default_crate() -> Path {
    parse_quote!(::postroom)
}

fn path(setting: &Setting, fallback: Path, diagnostics: &mut Diagnostics) -> Path {
    match &setting.value {
        Some(Expr::Path(path)) => path.path.clone(),
        _ => {
            missing(setting, "`crate` is a path without quotes", "crate = ::postroom", "::postroom", diagnostics);
            fallback
        }
    }
}

fn text_of(setting: &Setting) -> Option<&LitStr> {
    match &setting.value {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Reports a value that is of the wrong kind or missing.
fn missing(setting: &Setting, what: &str, whole: &str, value: &str, diagnostics: &mut Diagnostics) {
    match &setting.value {
        Some(wrong) => diagnostics.on(wrong, what, format!("write `{value}`")),
        None => diagnostics.on(&setting.key, what, format!("write `{whole}`")),
    }
}
