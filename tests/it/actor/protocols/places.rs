//! Protocols and methods under `cfg`, in modules, in functions, and under other paths.

pub mod inner {
    use postroom::prelude::*;

    #[protocol(crate = ::postroom)]
    pub(crate) trait Switch {
        /// First.
        #[cfg(not(any()))]
        fn on(&mut self) -> bool;
        #[cfg(any())]
        fn never(&mut self, nothing: Nothing) -> Nothing;
        fn off(&mut self) -> u8;
        #[deprecated]
        #[message]
        fn r#move(&mut self, #[doc = "Where to."] r#to: u8) -> u8;
    }
}

use postroom::prelude::*;

#[process]
pub(super) struct Plain;

#[process(protocols(inner::Switch))]
impl Plain {
    #[entry]
    fn serve(&mut self) {}
}

#[process(crate = ::postroom)]
impl inner::Switch for Plain {
    #[cfg(not(any()))]
    fn on(&mut self) -> bool {
        true
    }

    #[cfg(any())]
    fn never(&mut self, nothing: Nothing) -> Nothing {
        nothing
    }

    fn off(&mut self) -> u8 {
        0
    }

    fn r#move(&mut self, to: u8) -> u8 {
        to
    }
}

#[test]
fn protocols_stand_anywhere_and_have_conditions_like_other_items() {
    #[protocol]
    trait Local {
        fn seven(&self) -> u8;
    }
    #[process]
    struct Odd;
    #[process(protocols(Local, inner::Switch))]
    impl Odd {
        #[entry]
        fn serve(&mut self) {}
    }
    #[process]
    impl Local for Odd {
        fn seven(&self) -> u8 {
            7
        }
    }
    #[process]
    impl inner::Switch for Odd {
        #[cfg(not(any()))]
        async fn on(&mut self) -> bool {
            false
        }

        #[cfg(any())]
        async fn never(&mut self, nothing: Nothing) -> Nothing {
            nothing
        }

        fn off(&mut self) -> u8 {
            1
        }

        fn r#move(&mut self, to: u8) -> u8 {
            to + 1
        }
    }
    super::soon(|| {
        let runtime = Runtime::new().unwrap();
        let (odd, plain) = (runtime.spawn(Odd).serve().unwrap(), runtime.spawn(Plain).serve().unwrap());
        assert_eq!(odd.narrow::<Address<dyn Local>>().seven().wait(), Ok(7));
        let both: [Address<dyn inner::Switch>; 2] = [plain.narrow(), odd.narrow()];
        assert_eq!(
            both.map(|switch| (switch.on().wait().unwrap(), switch.off().wait().unwrap())),
            [(true, 0), (false, 1)]
        );
        #[allow(deprecated)]
        let moved = both.map(|switch| switch.r#move(4).wait().unwrap());
        assert_eq!(moved, [4, 5]);
    });
}
