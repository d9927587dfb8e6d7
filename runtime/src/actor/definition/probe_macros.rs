//! Macros that declare probes and their answers: see [`probe`](super::probe).

/// Declares the answers to a question: each is a trait, with the type that it is implemented for.
macro_rules! answers {
    ($($(#[$doc:meta])* $answer:ident $(<$of:ident>)?: [$($generics:tt)*] $probe:ty =>
        fn $method:ident(&$self:ident $(, $input:ident: $type:ty)?) -> $result:ty $body:block)+) => {$(
        $(#[$doc])*
        pub trait $answer$(<$of>)? {
            /// Answers the question.
            fn $method(&self $(, $input: $type)?) -> $result;
        }

        impl<$($generics)*> $answer$(<$of>)? for $probe {
            fn $method(&$self $(, $input: $type)?) -> $result $body
        }
    )+};
}

/// Declares a probe for the types given as its parameters.
macro_rules! probe {
    ($(#[$doc:meta])* $probe:ident<$($of:ident),+>) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $probe<$($of),+>(::std::marker::PhantomData<($($of,)+)>);

        impl<$($of),+> $probe<$($of),+> {
            #[expect(clippy::new_without_default, reason = "only the macro makes one")]
            /// Creates the probe.
            pub fn new() -> Self {
                Self(::std::marker::PhantomData)
            }
        }
    };
}

pub(super) use {answers, probe};
