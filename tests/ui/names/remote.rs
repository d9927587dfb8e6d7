#[::postroom::protocol(remote)]
pub trait ZzFar {
    fn zz_far(&mut self, zz_key: ::core::primitive::u8) -> ZzOutcome<::core::primitive::u8>;
}

#[::postroom::process(inspect)]
pub struct ZzRemote(::core::primitive::u8, #[inspect(skip)] ::core::primitive::u8);
#[::postroom::process(remote, protocols(ZzFar, ZzPlain))]
impl ZzRemote {
    #[entry]
    fn zz_serve(&mut self, zz_input: ::core::primitive::u8) {}
    #[entry]
    async fn zz_run(&mut self) -> (::core::primitive::u8, ::core::primitive::u8) {
        (0, 0)
    }
    #[message(codec = "named")]
    fn zz_put(&mut self, zz_a: ::core::primitive::u8, zz_b: ::std::string::String) -> ZzOutcome<::core::primitive::u8> {
        ::core::result::Result::Ok(zz_a)
    }
    #[message(local)]
    fn zz_clear(&mut self) {}
}
#[::postroom::process]
impl ZzPlain for ZzRemote {
    fn zz_get(&self, zz_key: ::core::primitive::u8) -> ZzOutcome<::core::primitive::u8> {
        ::core::result::Result::Ok(zz_key)
    }
    fn zz_set(&mut self, zz_key: ::core::primitive::u8) {}
}
#[::postroom::process]
impl ZzFar for ZzRemote {
    fn zz_far(&mut self, zz_key: ::core::primitive::u8, zz_reply: ::postroom::Reply<ZzOutcome<::core::primitive::u8>>) {
    }
}
