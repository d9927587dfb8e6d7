//! Formats tokens as a person would write them, `Vec<u8>` and not `Vec < u8 >`, for help lines and the names of input
//! types.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

pub(crate) fn text(tokens: impl ToTokens) -> String {
    let mut out = String::new();
    write(tokens.into_token_stream(), &mut out);
    out
}

fn write(tokens: TokenStream, out: &mut String) {
    // Whether the next token follows without a space, because the previous one binds to it or the lexer joins the two.
    let mut tight = true;
    let mut joint = false;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                let sign = punct.as_char();
                let arrow = sign == '>' && (out.ends_with('-') || out.ends_with('='));
                let clings_back = arrow
                    || matches!(sign, ',' | ';' | ':' | '>' | '.' | '?' | '!')
                    || sign == '<' && ends_in_word(out);
                if !(tight || joint || clings_back) {
                    out.push(' ');
                }
                let path = sign == ':' && joint;
                out.push(sign);
                joint = punct.spacing() == Spacing::Joint;
                tight = path || matches!(sign, '<' | '&' | '.' | '\'' | '#' | '*');
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{ ", " }"),
                    Delimiter::None => ("", ""),
                };
                let call = ends_in_word(out) && group.delimiter() == Delimiter::Parenthesis;
                if !tight && !call {
                    out.push(' ');
                }
                out.push_str(open);
                write(group.stream(), out);
                out.push_str(close);
                (tight, joint) = (false, false);
            }
            word => {
                if !tight {
                    out.push(' ');
                }
                out.push_str(&word.to_string());
                (tight, joint) = (false, false);
            }
        }
    }
}

fn ends_in_word(out: &str) -> bool {
    out.ends_with(|last: char| last.is_alphanumeric() || last == '_')
}

#[cfg(test)]
mod tests {
    use super::text;

    fn same(source: &str) {
        let tokens: proc_macro2::TokenStream = source.parse().unwrap();
        assert_eq!(text(tokens), source);
    }

    #[test]
    fn reads_as_written() {
        same("Vec<u8>");
        same("HashMap<String, Vec<std::path::PathBuf>>");
        same("Box<dyn Fn(&str) -> i64 + Send>");
        same("&mut self, ctx: &mut Context<Self>, amount: i64");
        same("&'static str");
        same("[u8; 4]");
        same("(i64, Option<T::Item>)");
        same("<T as Iterator>::Item");
    }
}
