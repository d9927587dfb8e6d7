//! Methods by the names that their authors gave them.

use std::borrow::Cow;

/// Returns the method of a process type that handles a message type: of one that `#[process]` has made, such as
/// `shop::ClerkServeOne` of `Clerk`, the method's name `serve_one`; of any other the name of the type.
pub(crate) fn method_of<'a>(process: &str, message: &'a str) -> Cow<'a, str> {
    // Those with parameters are no messages of the macro.
    let name = if message.contains('<') { message } else { last(message) };
    match name.strip_prefix(last(process)) {
        Some(method) if method.starts_with(|letter: char| letter.is_uppercase()) => snake_case(method).into(),
        _ => name.into(),
    }
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_the_macro_is_its_method() {
        for (process, message, method) in [
            ("Clerk", "shop::ClerkServeOne", "serve_one"),
            ("shop::Clerk", "shop::ClerkStamp", "stamp"),
            ("Clerk", "shop::Order", "Order"),
            ("Clerk", "shop::Clerk", "Clerk"),
            ("Clerk", "shop::Clerkship", "Clerkship"),
            ("Clerk", "alloc::vec::Vec<alloc::string::String>", "alloc::vec::Vec<alloc::string::String>"),
            ("Clerk", "", ""),
        ] {
            assert_eq!(method_of(process, message), method);
        }
    }
}
