//! A macro that implements `Debug` for types that cannot derive it, because a field or a type parameter has none.

/// Implements `Debug`: as a struct of the named fields (with `..` at the end if there are others), or with a format
/// string.
///
/// `impl_debug!([P] Context<P>, self => "Context" { pid: self.pid, .. })`, or
/// `impl_debug!([P: Actor] Spawn<P>, self => "Spawn<{}>", P::NAME)`.
macro_rules! impl_debug {
    ([$($generics:tt)*] $type:ty, $self:ident => $name:literal { $($field:ident: $value:expr,)+ .. }) => {
        impl<$($generics)*> ::std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct($name)$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
    ([$($generics:tt)*] $type:ty, $self:ident => $name:literal { $($field:ident: $value:expr),+ }) => {
        impl<$($generics)*> ::std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct($name)$(.field(stringify!($field), &$value))+.finish()
            }
        }
    };
    ([$($generics:tt)*] $type:ty, $self:ident => $($format:tt)+) => {
        impl<$($generics)*> ::std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, $($format)+)
            }
        }
    };
}

pub(crate) use impl_debug;
