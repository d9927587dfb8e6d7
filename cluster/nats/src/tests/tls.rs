//! TLS with a real server, and nodes that authenticate with a JWT.

use super::certificates::Certificates;
use super::server::Server;
use super::{GUARD, connect, create};
use crate::{Nats, Problem};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use postroom_cluster::engine::Engine;
use postroom_cluster::engine::Lane;
use postroom_cluster::rights::Rights;
use postroom_cluster::store::{Bucket, StoreError};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::thread;

/// Returns the block `tls` of a server's configuration, with additional settings.
fn block(certificates: &Certificates, more: &str) -> String {
    let (certificate, key) = (certificates.certificate(), certificates.key());
    format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} {more} }}")
}

fn tls(server: &Server) -> Nats {
    Nats::at(format!("tls://127.0.0.1:{}", server.port()))
}

fn problem(nats: Nats) -> (Problem, String) {
    let problem = nats.start().unwrap().wait(GUARD).unwrap_err();
    assert!(matches!(problem, Problem::Tls { .. }) && problem.is_lasting(), "{problem}");
    let text = problem.to_string();
    (problem, text)
}

#[test]
fn a_server_is_trusted_by_its_certificate() {
    let [certificates, others] = [Certificates::make(), Certificates::make()];
    let Some(server) = Server::with(&["-js"], &block(&certificates, "")) else { return };
    connect(tls(&server).root_certificates(certificates.authority()));
    // Without the scheme `tls://`, either the server announces that it requires TLS, or the client requires it.
    connect(server.nats().root_certificates(certificates.authority()));
    connect(server.nats().tls_required().root_certificates(certificates.authority()));
    // Neither another authority nor those of the operating system have signed the certificate.
    for nats in [tls(&server).root_certificates(others.authority()), tls(&server)] {
        let (_, text) = problem(nats);
        assert!(text.contains(".root_certificates(…)"), "{text}");
    }
    // A host name that the certificate does not contain.
    let (_, text) =
        problem(Nats::at(format!("tls://localhost:{}", server.port())).root_certificates(certificates.authority()));
    assert!(text.contains("127.0.0.1") || text.contains("localhost") || text.contains("name"), "{text}");
    // A file without a certificate, and no file.
    for (file, reason) in [(certificates.key(), "has no certificate"), ("/nowhere.pem".into(), "cannot be read")] {
        let (_, text) = problem(tls(&server).root_certificates(file));
        assert!(text.contains(reason), "{text}");
    }
}

/// A server that supports only TLS 1.2. The real server cannot be configured like this, so the test imitates one. The
/// imitation asks for TLS, and finds no version that it knows among those that the client offers.
#[test]
fn a_server_without_tls_1_3_is_refused() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, hellos) = mpsc::channel();
    // The thread ends with the test program.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let info =
                json!({ "server_id": "old", "version": "2.15.1", "tls_required": true, "max_payload": 1_048_576 });
            let _ = stream.write_all(format!("INFO {info}\r\n").as_bytes());
            let mut header = [0; 5];
            if stream.read_exact(&mut header).is_err() {
                continue;
            }
            let mut hello = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
            if stream.read_exact(&mut hello).is_ok() {
                let _ = sender.send(hello);
            }
            // A fatal alert: `protocol_version`.
            let _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 70]);
        }
    });
    let (_, text) = problem(Nats::at(format!("tls://127.0.0.1:{port}")));
    assert!(text.contains("ProtocolVersion"), "{text}");
    // The extension `supported_versions` has one entry: 1.3.
    let hello = hellos.recv_timeout(GUARD).unwrap();
    let versions = [0x00, 0x2b, 0x00, 0x03, 0x02, 0x03, 0x04];
    assert!(hello.windows(versions.len()).any(|window| window == versions), "{hello:x?}");
}

/// The operator of a server, one account and its users: a replacement for the output of `nsc`.
struct Operator {
    operator: KeyPair,
    account: KeyPair,
    /// The account of the server itself.
    system: KeyPair,
}

impl Operator {
    fn new() -> Self {
        Self { operator: KeyPair::new_operator(), account: KeyPair::new_account(), system: KeyPair::new_account() }
    }

    fn configuration(&self) -> String {
        let unlimited: Value = ["subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage"]
            .into_iter()
            .chain(["disk_storage", "streams", "consumer"])
            .map(|limit| (limit.to_owned(), json!(-1)))
            .chain([("wildcards".to_owned(), json!(true))])
            .collect::<serde_json::Map<_, _>>()
            .into();
        let claims = json!({ "type": "account", "version": 2, "limits": unlimited });
        let account = jwt(&self.operator, &self.account.public_key(), "bank", claims);
        let claims = json!({ "type": "account", "version": 2 });
        let system = jwt(&self.operator, &self.system.public_key(), "system", claims);
        let operator = json!({ "type": "operator", "version": 2 });
        let operator = jwt(&self.operator, &self.operator.public_key(), "operator", operator);
        let [id, system_id] = [&self.account, &self.system].map(KeyPair::public_key);
        format!(
            "operator: {operator}\nsystem_account: {system_id}\nresolver: MEMORY\nresolver_preload: {{\n  {id}: \
             {account}\n  {system_id}: {system}\n}}\njetstream {{}}\n"
        )
    }

    /// Returns the contents of the credentials file of a node.
    fn credentials(&self, node: &str) -> String {
        let (user, rights) = (KeyPair::new_user(), Rights::of("bank", node));
        let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
            "pub": { "allow": rights.publish }, "sub": { "allow": rights.subscribe } });
        let token = jwt(&self.account, &user.public_key(), node, claims);
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY \
             SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        )
    }
}

fn jwt(issuer: &KeyPair, subject: &str, name: &str, claims: Value) -> String {
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = json!({ "jti": subject, "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject, "name": name,
        "nats": claims });
    let signed = format!("{header}.{}", encode(body));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

#[test]
fn a_node_may_show_a_jwt_with_its_rights() {
    let operator = Operator::new();
    let Some(server) = Server::with(&[], &operator.configuration()) else { return };
    let nats = |credentials: String| server.nats().cluster("bank").node("eu-1").credentials(credentials);
    let engine = connect(nats(operator.credentials("eu-1")));
    create(&engine, Bucket::Leases, "eu-1.1", "own").unwrap();
    let forbidden = create(&engine, Bucket::Leases, "eu-2.2", "forged");
    assert_eq!(forbidden, Err(StoreError::Forbidden { key: "eu-2.2".into() }));
    engine.publish(Lane::Data, &super::secured::frame("eu-2.2", "eu-3.3"), "forged".into()).unwrap();
    super::secured::refusal(&engine, 2);
    // Credentials of another node, and credentials that another account has signed.
    let problem = nats(operator.credentials("eu-2")).start().unwrap().wait(GUARD).unwrap_err();
    assert!(matches!(problem, Problem::Forbidden { .. }), "{problem}");
    let problem = nats(Operator::new().credentials("eu-1")).start().unwrap().wait(GUARD).unwrap_err();
    assert!(matches!(problem, Problem::Refused { .. }), "{problem}");
}
