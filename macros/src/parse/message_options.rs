//! The options in `#[message(…)]`: an existing message type, whether taps may show the message, and the properties on
//! which nodes must agree if it is remote.

use crate::check::bare::bare_value;
use crate::check::diagnostics::Diagnostics;
use crate::check::suggest;
use crate::check::text::text;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, Lit, LitStr, Meta, Token, Type};

/// Maximum length of a name: the limit that nodes set for the names in the list that they exchange.
const LONGEST_NAME: usize = 1_024;

#[derive(Default)]
pub(crate) struct MessageOptions {
    /// The type, if it is defined elsewhere.
    pub(crate) existing: Option<Type>,
    /// The name on all nodes, if it is not composed of the names of package, type and method.
    pub(crate) name: Option<LitStr>,
    /// Whether fields are encoded with their names.
    pub(crate) named: bool,
    /// Whether the message stays on its node.
    pub(crate) local: bool,
    /// Whether taps may show the message.
    pub(crate) inspect: bool,
}

/// An item of the list of options.
enum Part {
    Type(Type),
    /// `inspect`, `local`, or `key = value`.
    Setting(Ident, Option<Expr>),
}

impl Parse for Part {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let ahead = input.fork();
        if let Ok(key) = ahead.parse::<Ident>() {
            let is_setting = ahead.peek(Token![=]);
            if is_setting || ((key == "local" || key == "inspect") && (ahead.is_empty() || ahead.peek(Token![,]))) {
                let key = input.parse()?;
                let value = input.parse::<Option<Token![=]>>()?.map(|_| input.parse().map(bare_value)).transpose()?;
                return Ok(Self::Setting(key, value));
            }
        }
        input.parse().map(Self::Type)
    }
}

/// Returns whether the marker names a type. A marker that cannot be parsed counts as one that does.
pub(crate) fn names_type(marker: &Meta) -> bool {
    match marker {
        Meta::List(list) => list
            .parse_args_with(Punctuated::<Part, Token![,]>::parse_terminated)
            .map_or(true, |parts| parts.is_empty() || parts.iter().any(|part| matches!(part, Part::Type(_)))),
        _ => !matches!(marker, Meta::Path(_)),
    }
}

/// Reads the options of a message. `remote` says whether its process or protocol is remote.
pub(crate) fn read(marker: &Attribute, remote: bool, diagnostics: &mut Diagnostics) -> MessageOptions {
    let mut out = MessageOptions::default();
    let list = match &marker.meta {
        Meta::Path(_) => return out,
        Meta::NameValue(wrong) => {
            diagnostics.on(wrong, "`#[message]` is alone or names one type", "write `message`");
            return out;
        }
        Meta::List(list) => list,
    };
    let Ok(parts) = list.parse_args_with(Punctuated::<Part, Token![,]>::parse_terminated) else {
        diagnostics.on(list, "`#[message]` is alone or names one type", "write `message`");
        return out;
    };
    if parts.is_empty() {
        diagnostics.on(list, "`#[message()]` names no type", "write `message`");
        return out;
    }
    let (mut types, mut settings) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Type(ty) => types.push(ty),
            Part::Setting(key, value) => settings.push((key, value)),
        }
    }
    if types.len() > 1 {
        diagnostics.on(&list.tokens, "a method handles one message type", format!("write `{}`", text(&types[0])));
    }
    out.existing = types.into_iter().next();
    let is_inspect = |(key, _): &&(Ident, Option<Expr>)| key == "inspect";
    if let Some((key, value)) = settings.iter().find(is_inspect) {
        out.inspect = true;
        if let Some(value) = value {
            diagnostics.on(quote!(#key = #value), "`inspect` stands alone", "write `inspect`");
        }
    }
    settings.retain(|setting| !is_inspect(&setting));
    if !settings.is_empty() && !remote {
        let what = "these options are for messages that travel between nodes, and this block is not `remote`";
        let inspect = out.inspect.then(|| "inspect".to_owned());
        let left: Vec<_> = out.existing.as_ref().map(text).into_iter().chain(inspect).collect();
        let instead = if left.is_empty() { "message".to_owned() } else { format!("message({})", left.join(", ")) };
        diagnostics.on(list, what, format!("write `{instead}`"));
        return out;
    }
    for (key, value) in &settings {
        setting(&mut out, key, value.as_ref(), diagnostics);
    }
    if out.local && settings.len() > 1 {
        let what = "a message that stays on its node has neither a name nor a form elsewhere";
        let instead = out.existing.as_ref().map_or_else(|| "local".to_owned(), |ty| format!("{}, local", text(ty)));
        diagnostics.on(&list.tokens, what, format!("write `{instead}`"));
    }
    out
}

fn setting(out: &mut MessageOptions, key: &Ident, value: Option<&Expr>, diagnostics: &mut Diagnostics) {
    const KNOWN: &[&str] = &["codec", "inspect", "local", "name"];
    let whole = || {
        let value = value.map(|value| quote!(= #value));
        quote!(#key #value)
    };
    match key.to_string().as_str() {
        "local" => {
            if value.is_some() {
                diagnostics.on(whole(), "`local` stands alone", "write `local`");
            }
            out.local = true;
        }
        "name" => match value.and_then(text_of) {
            Some(name) if !name.value().is_empty() && name.value().len() <= LONGEST_NAME => out.name = Some(name),
            _ => {
                let what = format!("`name` is the message's name in all nodes: a text of 1 to {LONGEST_NAME} bytes");
                diagnostics.on(whole(), what, "write `name = \"bank.deposit\"`");
            }
        },
        "codec" => match value.and_then(text_of).map(|codec| codec.value()).as_deref() {
            Some("named") => out.named = true,
            Some("compact") => {}
            _ => {
                let what = "`codec` is `\"compact\"`, the default, or `\"named\"`, for fields that may change";
                diagnostics.on(whole(), what, "write `codec = \"named\"`");
            }
        },
        other => {
            let what = format!("`#[message]` has no option `{other}`; it has {}", suggest::list(KNOWN));
            match suggest::nearest(other, KNOWN) {
                Some(meant) => diagnostics.on(key, what, format!("write `{meant}`")),
                None => diagnostics.on(whole(), what, "remove it"),
            }
        }
    }
}

fn text_of(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
