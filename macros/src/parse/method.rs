//! A marked method: the common parts of entries, messages and signals.

use super::argument::{self, Argument, Arguments, Reply};
use super::marker::{Marked, Role};
use super::output::Output;
use crate::check::diagnostics::Diagnostics;
use crate::check::self_type::SelfType;
use crate::check::text::text;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Ident, ReturnType, Safety, Signature, Visibility};

pub(crate) struct Method {
    pub(crate) ident: Ident,
    pub(crate) vis: Visibility,
    pub(crate) marked: Marked,
    pub(crate) is_async: bool,
    pub(crate) arguments: Arguments,
    pub(crate) output: Output,
    pub(crate) returns: ReturnType,
    /// Whether the method has no errors, in which case generated code can call it.
    pub(crate) sound: bool,
}

impl Method {
    pub(crate) fn read(
        signature: &mut Signature,
        vis: &Visibility,
        marked: Marked,
        self_type: &SelfType,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let role = marked.role;
        let before = diagnostics.count();
        let modifiers: [Option<TokenStream>; 3] = [
            signature.constness.map(ToTokens::into_token_stream),
            (!matches!(signature.safety, Safety::Default)).then(|| signature.safety.to_token_stream()),
            signature.abi.as_ref().map(ToTokens::to_token_stream),
        ];
        for modifier in modifiers.into_iter().flatten() {
            let what = format!("{} is called by the runtime: it cannot be `{}`", role.what(), text(&modifier));
            diagnostics.on(modifier, what, "remove it");
        }
        let arguments = argument::read(signature, role, self_type, diagnostics);
        let answer = if role == Role::Entry { "an entry's result" } else { "an answer" };
        let output = Output::read(&signature.output, answer, self_type, diagnostics);
        Self {
            ident: signature.ident.clone(),
            vis: vis.clone(),
            marked,
            is_async: signature.asyncness.is_some(),
            arguments,
            output,
            returns: signature.output.clone(),
            sound: diagnostics.count() == before,
        }
    }

    /// Returns the context as an argument, if the method takes it.
    pub(crate) fn ctx(&self, ctx: &Ident) -> Option<TokenStream> {
        self.arguments.has_ctx.then(|| quote!(#ctx,))
    }

    /// Returns the type of the answer to a message, whether the answer is returned or sent through a reply.
    pub(crate) fn answer(&self) -> &Output {
        match &self.arguments.reply {
            Some(Reply::Once { answer }) => answer,
            Some(Reply::Stream { .. }) => &Output::Unit,
            None => &self.output,
        }
    }

    pub(crate) fn names(&self) -> Vec<&Ident> {
        self.arguments.carried.iter().map(|argument| &argument.ident).collect()
    }

    /// Returns the parameters of a generated method. Those of a faulty method accept any type, so that its callers get
    /// no errors about a mistake that is not theirs.
    pub(crate) fn parameters(&self) -> TokenStream {
        let parameter = |argument: &Argument| {
            let (name, ty) = (&argument.ident, &argument.ty);
            if self.sound { quote!(#name: #ty,) } else { quote!(#name: impl ::core::marker::Sized,) }
        };
        self.arguments.carried.iter().map(parameter).collect()
    }

    pub(crate) fn cfgs(&self) -> &[Attribute] {
        &self.marked.cfgs
    }

    /// Returns the condition of the method's `#[cfg]`s as an expression, or `None` if it has none.
    pub(crate) fn present(&self) -> Option<TokenStream> {
        let conditions: Vec<TokenStream> = self
            .marked
            .cfgs
            .iter()
            .filter_map(|cfg| cfg.meta.require_list().ok().map(|list| list.tokens.clone()))
            .collect();
        (!conditions.is_empty()).then(|| quote!(::core::cfg!(all(#(#conditions),*))))
    }
}
