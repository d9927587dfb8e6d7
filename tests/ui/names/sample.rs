pub trait ZzNothing {}
pub struct ZzTick {}
pub type ZzOutcome<ZzT> = ::core::result::Result<ZzT, ::std::string::String>;

#[::postroom::protocol]
pub trait ZzPlain {
    #[message(inspect)]
    fn zz_get(&self, zz_key: ::core::primitive::u8) -> ZzOutcome<::core::primitive::u8>;
    fn zz_set(&mut self, zz_key: ::core::primitive::u8);
}
#[::postroom::protocol]
pub trait ZzOwn<ZzT> {
    fn zz_own(&mut self, zz_key: ZzT) -> ::core::option::Option<ZzT>;
    fn zz_many(&mut self, zz_items: ::postroom::Replies<ZzT>);
}
#[::postroom::process(inspect, skip_abandoned, on_error = "end")]
pub enum ZzState {
    ZzFirst {
        zz_a: ::core::primitive::u8,
        #[inspect(skip)]
        zz_b: ZzTick,
    },
    ZzSecond(::core::primitive::u8, #[inspect(skip)] ZzTick),
    ZzThird,
}
#[::postroom::process(protocols(ZzPlain, ZzOwn<::core::primitive::u8>))]
impl ZzState {
    #[entry]
    fn zz_serve(&mut self, zz_ctx: &mut ::postroom::Context<Self>, zz_input: ::core::primitive::u8) -> ZzOutcome<()> {
        ::core::result::Result::Ok(())
    }
    #[entry]
    #[cfg(all())]
    async fn zz_run(
        &mut self,
        zz_ctx: &mut ::postroom::Context<Self>,
        zz_input: ::core::primitive::u8,
    ) -> ZzOutcome<()> {
        ::core::result::Result::Ok(())
    }
    #[entry]
    async fn zz_forever(&mut self) -> ! {
        loop {
            ::core::future::pending::<()>().await
        }
    }
    #[message(inspect)]
    #[derive(Clone)]
    fn zz_put(
        &mut self,
        zz_ctx: &mut ::postroom::Context<Self>,
        zz_a: ::core::primitive::u8,
        #[inspect(skip)] zz_b: ::core::primitive::u8,
    ) -> ZzOutcome<::core::primitive::u8> {
        ::core::result::Result::Ok(zz_a)
    }
    #[message]
    #[deprecated]
    async fn zz_wait(&mut self, zz_ctx: &mut ::postroom::Context<Self>) -> ::core::primitive::u8 {
        0
    }
    #[message]
    fn zz_reply(&mut self, zz_reply: ::postroom::Reply<ZzOutcome<::core::primitive::u8>>) {}
    #[message]
    fn zz_stream(&mut self, zz_replies: ::postroom::Replies<::core::primitive::u8>) {}
    #[message(ZzTick, inspect)]
    fn zz_tick(&mut self, #[inspect(skip)] zz_tick: ZzTick) -> (::core::primitive::u8,) {
        (0,)
    }
    #[signal]
    fn zz_cancel(&mut self, zz_ctx: &mut ::postroom::Context<Self>, zz_cancel: ::postroom::Cancel) {}
    #[signal]
    async fn zz_exit(&mut self, zz_exit: ::postroom::Exit) {}
}
#[::postroom::process]
impl ZzPlain for ZzState {
    fn zz_get(&self, zz_key: ::core::primitive::u8) -> ZzOutcome<::core::primitive::u8> {
        ::core::result::Result::Ok(zz_key)
    }
    fn zz_set(&mut self, zz_key: ::core::primitive::u8) {}
}
#[::postroom::process]
impl ZzOwn<::core::primitive::u8> for ZzState {
    async fn zz_own(
        &mut self,
        zz_ctx: &mut ::postroom::Context<Self>,
        zz_key: ::core::primitive::u8,
    ) -> ::core::option::Option<::core::primitive::u8> {
        ::core::option::Option::None
    }
    fn zz_many(&mut self, zz_items: ::postroom::Replies<::core::primitive::u8>) {}
}

#[::postroom::process(pinned)]
pub struct ZzGeneric<ZzK: ::core::marker::Send, const ZZ_N: ::core::primitive::usize> {
    zz_keys: [ZzK; ZZ_N],
}
#[::postroom::process(protocols(ZzOwn<ZzK>))]
impl<ZzK: ::core::marker::Send + 'static, const ZZ_N: ::core::primitive::usize> ZzGeneric<ZzK, ZZ_N> {
    #[entry]
    async fn zz_run(&mut self) -> ZzOutcome<ZzK> {
        ::core::result::Result::Err(::std::string::String::new())
    }
    #[message]
    async fn zz_get(&mut self, zz_key: ZzK) -> ZzOutcome<[ZzK; ZZ_N]> {
        ::core::result::Result::Err(::std::string::String::new())
    }
    #[message]
    fn zz_reply(&mut self, zz_reply: ::postroom::Reply<ZzOutcome<ZzK>>) {}
}
#[::postroom::process]
impl<ZzK: ::core::marker::Send + 'static, const ZZ_N: ::core::primitive::usize> ZzOwn<ZzK> for ZzGeneric<ZzK, ZZ_N> {
    fn zz_own(&mut self, zz_key: ZzK) -> ::core::option::Option<ZzK> {
        ::core::option::Option::None
    }
    fn zz_many(&mut self, zz_items: ::postroom::Replies<ZzK>) {}
}

#[::postroom::test(seed = 1)]
fn zz_test(zz_sim: ::postroom::test::Sim) {}
#[::postroom::test(seed = 1)]
async fn zz_async_test(zz_sim: ::postroom::test::Sim) {}
#[::postroom::main(workers = 1)]
async fn main() {}
