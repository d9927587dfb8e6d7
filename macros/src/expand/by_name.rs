//! Starts and sends by name: the match arms that build them from inputs, one argument at a time.

use crate::check::text::text;
use crate::parse::argument::{Argument, Reply};
use crate::parse::generics::names_lifetime;
use crate::parse::message::Message;
use crate::parse::naming::local;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

/// Returns the `InputInfo` of each argument.
pub(crate) fn infos(carried: &[Argument], private: &TokenStream) -> TokenStream {
    let each = carried.iter().map(|argument| {
        let (name, type_name) = (argument.ident.unraw().to_string(), text(&argument.ty));
        quote!(#private::InputInfo { name: #name, type_name: #type_name })
    });
    quote!(#(#each),*)
}

/// Returns the statements that take the arguments from the checked `inputs`.
pub(crate) fn takes(carried: &[Argument], private: &TokenStream) -> TokenStream {
    let inputs = local("inputs");
    let each = carried.iter().map(|argument| {
        let (input, ty) = (&argument.ident, &argument.ty);
        // Autoref specialization: the more a type can do, the more references the matching trait has. A type with a
        // lifetime cannot be read from JSON, but the compiler would notice that only after choosing `TakeJson`.
        let json = (!names_lifetime(ty)).then(|| quote!(TakeJson as _,));
        quote! {
            let #input = {
                use #private::{#json TakeNothing as _, TakeValue as _};
                (&&&#private::InputOf::<#ty>::new()).__postroom_take(&mut #inputs)
            }?;
        }
    });
    each.collect()
}

/// Returns the part of `message_by_name` that handles known names. It uses that function's arguments `process`, `name`
/// and `inputs`.
pub(crate) fn messages(messages: &[Message], private: &TokenStream) -> TokenStream {
    let name = local("name");
    let arms = messages.iter().filter_map(|message| arm(message, private));
    quote!(match #name { #(#arms)* _ => {} })
}

fn arm(message: &Message, private: &TokenStream) -> Option<TokenStream> {
    let method = &message.method;
    if !method.sound || message.repeated {
        return None;
    }
    let (process, inputs, make) = (local("process"), local("inputs"), local("make"));
    let (cfgs, name, carried) = (method.cfgs(), method.ident.unraw().to_string(), &method.arguments.carried);
    let (infos, takes) = (infos(carried, private), takes(carried, private));
    // Without arguments only the number of inputs is checked.
    let mutable = (!carried.is_empty()).then(|| quote!(mut));
    // Nothing receives the stream, just as when a message is sent rather than called.
    let unheard = match &method.arguments.reply {
        Some(Reply::Stream { ident, ty, .. }) => Some(quote!(let #ident = <#ty>::unheard();)),
        _ => None,
    };
    let (ty, value) = (message.ty(), message.value());
    Some(quote! {
        #(#cfgs)*
        #name => {
            let #make = move |#inputs: #private::Inputs| {
                let #mutable #inputs = #private::Inputs::check_for(#inputs, #process, #name, &[#infos])?;
                #takes
                #unheard
                use #private::probe::{MessageIsNotSend as _, MessageIsSend as _};
                ::core::result::Result::Ok((&&#private::probe::MessageOf::<#ty>::new()).__postroom_named(#value))
            };
            return #private::ByName::Break(#make(#inputs));
        }
    })
}
