//! The options in `#[process(…)]` and `#[postroom::main(…)]`: `key = value`, separated by commas.

use crate::fault::Faults;
use crate::suggest;
use crate::text::text;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Lit, LitStr, Path, Token, parenthesized, parse_quote, token};

struct Setting {
    key: Ident,
    value: Option<Expr>,
    /// In parentheses: `protocols(Storage, Audit)`.
    list: Option<TokenStream>,
    /// Where the parentheses end.
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
            // A bare `crate` is a path here, which an expression cannot be.
            let path = input.call(Path::parse_mod_style)?;
            Some(parse_quote!(#path))
        } else {
            Some(input.parse()?)
        };
        Ok(Self { key, value, list, end })
    }
}

fn settings(tokens: TokenStream, faults: &mut Faults) -> Vec<Setting> {
    match Punctuated::<Setting, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(settings) => settings.into_iter().collect(),
        Err(error) => {
            faults.at(error.span(), "options are written `key = value`", "write `name = \"Text\"`");
            Vec::new()
        }
    }
}

fn unknown(setting: &Setting, attribute: &str, known: &[&str], faults: &mut Faults) {
    let Setting { key, value, .. } = setting;
    let what = format!("{attribute} has no option `{key}`; it has {}", suggest::list(known));
    match suggest::nearest(&key.to_string(), known) {
        Some(meant) => faults.on(key, what, format!("write `{meant}`")),
        None => faults.on(quote!(#key #value), what, "remove it"),
    }
}

/// A second `#[process]` on the same item.
pub(crate) fn twice(attrs: &mut Vec<Attribute>, faults: &mut Faults) {
    attrs.retain(|attribute| {
        let again = attribute.path().segments.last().is_some_and(|last| last.ident == "process");
        if again {
            faults.on(attribute, "`#[process]` is said twice", "remove it");
        }
        !again
    });
}

/// Options of `#[process]` on a struct or enum.
pub(crate) struct Declaration {
    pub(crate) krate: Path,
    pub(crate) name: Option<LitStr>,
    pub(crate) ends_on_error: bool,
    /// It has a thread of its own.
    pub(crate) pinned: bool,
}

impl Declaration {
    pub(crate) fn read(tokens: TokenStream, faults: &mut Faults) -> Self {
        let mut out = Self { krate: default_crate(), name: None, ends_on_error: false, pinned: false };
        for setting in settings(tokens, faults) {
            match setting.key.to_string().as_str() {
                "crate" => out.krate = path(&setting, out.krate, faults),
                "name" => out.name = name(&setting, faults),
                "on_error" => out.ends_on_error = ends_on_error(&setting, faults),
                "pinned" => out.pinned = pinned(&setting, faults),
                "protocols" => {
                    let what = "the option `protocols` belongs to `#[process]` on the `impl`";
                    faults.on(&setting.key, what, "move `protocols(…)` to the `impl`'s `#[process]`");
                }
                _ => unknown(&setting, "`#[process]`", &["crate", "name", "on_error", "pinned"], faults),
            }
        }
        out
    }
}

fn name(setting: &Setting, faults: &mut Faults) -> Option<LitStr> {
    match text_of(setting) {
        Some(text) if !text.value().is_empty() => Some(text.clone()),
        Some(text) => {
            faults.on(text, "a process is started by its name: the name cannot be empty", "write `\"Account\"`");
            None
        }
        None => {
            missing(setting, "`name` is a text", "name = \"Account\"", "\"Account\"", faults);
            None
        }
    }
}

/// Bare: there is nothing to say of it.
fn pinned(setting: &Setting, faults: &mut Faults) -> bool {
    let (key, value) = (&setting.key, &setting.value);
    let written = match (value, &setting.list) {
        (None, None) => return true,
        (Some(value), _) => quote!(#key #value),
        (None, Some(_)) => quote_spanned!(setting.end=> #key ()),
    };
    faults.on(written, "`pinned` stands alone: a process has a thread of its own, or it has not", "write `pinned`");
    true
}

fn ends_on_error(setting: &Setting, faults: &mut Faults) -> bool {
    const KNOWN: &[&str] = &["end", "report"];
    match text_of(setting) {
        Some(text) if text.value() == "end" => true,
        Some(text) if text.value() == "report" => false,
        Some(text) => {
            let meant = suggest::nearest(&text.value(), KNOWN).unwrap_or("end");
            let what =
                format!("`on_error` cannot be {:?}: a process can `\"end\"` or `\"report\"` and live", text.value());
            faults.on(text, what, format!("write `{meant:?}`"));
            false
        }
        None => {
            missing(setting, "`on_error` is `\"end\"` or `\"report\"`", "on_error = \"end\"", "\"end\"", faults);
            false
        }
    }
}

/// Options of `#[process]` on an impl block.
pub(crate) struct OfImpl {
    pub(crate) krate: Path,
    pub(crate) protocols: Vec<Path>,
    /// The protocols are named in a way that cannot be read.
    pub(crate) names_any_protocol: bool,
}

/// Reads them; `of_protocol` says that it is the block of a protocol.
pub(crate) fn of_impl(tokens: TokenStream, of_protocol: bool, faults: &mut Faults) -> OfImpl {
    let (mut krate, mut protocols, mut names_any_protocol) = (default_crate(), Vec::new(), false);
    for setting in settings(tokens, faults) {
        match setting.key.to_string().as_str() {
            "crate" => krate = path(&setting, krate, faults),
            key @ ("name" | "on_error") => {
                let what = format!("the option `{key}` belongs to `#[process]` on the struct");
                faults.on(&setting.key, what, format!("move `{key} = …` to the struct's `#[process]`"));
            }
            "pinned" => {
                let what = "the option `pinned` belongs to `#[process]` on the struct";
                faults.on(&setting.key, what, "move `pinned` to the struct's `#[process]`");
            }
            "protocols" if of_protocol => {
                let what = "the option `protocols` belongs to the type's own `impl`";
                faults.on(&setting.key, what, "move `protocols(…)` to the `#[process]` before the type's own `impl`");
            }
            "protocols" => {
                let before = faults.count();
                named_protocols(&setting, &mut protocols, faults);
                names_any_protocol = faults.count() > before && protocols.is_empty();
            }
            _ if of_protocol => unknown(&setting, "`#[process]` on an `impl` of a protocol", &["crate"], faults),
            _ => unknown(&setting, "`#[process]` on an `impl`", &["crate", "protocols"], faults),
        }
    }
    OfImpl { krate, protocols, names_any_protocol }
}

/// The paths in `protocols(…)`.
fn named_protocols(setting: &Setting, protocols: &mut Vec<Path>, faults: &mut Faults) {
    let (key, value) = (&setting.key, &setting.value);
    let what = "`protocols` names the protocols that the process answers";
    let Some(list) = setting.list.clone() else {
        let (written, shown) = match value {
            Some(value) => (quote!(#key #value), text(value)),
            None => (quote!(#key), "Storage".to_owned()),
        };
        return faults.on(written, what, format!("write `protocols({shown})`"));
    };
    let Ok(paths) = Punctuated::<Path, Token![,]>::parse_terminated.parse2(list.clone()) else {
        return faults.on(&list, what, "write `Storage`");
    };
    if paths.is_empty() {
        let whole = quote_spanned!(setting.end=> #key ());
        return faults.on(whole, "`protocols()` names no protocol", "write `protocols(Storage)`");
    }
    for path in paths {
        if protocols.iter().any(|other| text(other) == text(&path)) {
            faults.on(&path, format!("`{}` is named twice", text(&path)), "remove it");
        } else {
            protocols.push(path);
        }
    }
}

/// Options of `#[protocol]`: the path of the crate.
pub(crate) fn of_protocol(tokens: TokenStream, faults: &mut Faults) -> Path {
    let mut krate = default_crate();
    for setting in settings(tokens, faults) {
        match setting.key.to_string().as_str() {
            "crate" => krate = path(&setting, krate, faults),
            _ => unknown(&setting, "`#[protocol]`", &["crate"], faults),
        }
    }
    krate
}

/// Options of `#[postroom::main]`.
pub(crate) struct Main {
    pub(crate) krate: Path,
    pub(crate) workers: Option<Expr>,
}

impl Main {
    pub(crate) fn read(tokens: TokenStream, faults: &mut Faults) -> Self {
        let mut out = Self { krate: default_crate(), workers: None };
        for setting in settings(tokens, faults) {
            match setting.key.to_string().as_str() {
                "crate" => out.krate = path(&setting, out.krate, faults),
                "workers" => out.workers = workers(setting, faults),
                _ => unknown(&setting, "`#[postroom::main]`", &["crate", "workers"], faults),
            }
        }
        out
    }
}

fn workers(setting: Setting, faults: &mut Faults) -> Option<Expr> {
    match &setting.value {
        Some(Expr::Lit(literal)) => match &literal.lit {
            Lit::Int(number) if number.base10_digits() == "0" => {
                faults.on(number, "without workers nothing runs", "write `1`");
                return None;
            }
            Lit::Int(_) => {}
            other => {
                faults.on(other, "`workers` is a number", "write `2`");
                return None;
            }
        },
        Some(_) => {}
        None => missing(&setting, "`workers` needs a number", "workers = 2", "2", faults),
    }
    setting.value
}

fn default_crate() -> Path {
    parse_quote!(::postroom)
}

fn path(setting: &Setting, fallback: Path, faults: &mut Faults) -> Path {
    match &setting.value {
        Some(Expr::Path(path)) => path.path.clone(),
        _ => {
            missing(setting, "`crate` is a path without quotes", "crate = ::postroom", "::postroom", faults);
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

/// A value of the wrong kind, or none.
fn missing(setting: &Setting, what: &str, whole: &str, value: &str, faults: &mut Faults) {
    match &setting.value {
        Some(wrong) => faults.on(wrong, what, format!("write `{value}`")),
        None => faults.on(&setting.key, what, format!("write `{whole}`")),
    }
}
