//! Certificates for one test: an authority, and a server certificate that it has signed. They are X.509 with Ed25519
//! (RFC 5280, RFC 8410), encoded by hand so that no crate and no file is needed for them.

use nkeys::{KeyPair, decode_seed, from_public_key};
use std::path::{Path, PathBuf};

/// The algorithm of the signatures and of the keys: `id-Ed25519`.
const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
/// `id-at-commonName`.
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
/// `id-ce-subjectAltName`.
const ALTERNATIVE_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
/// `id-ce-basicConstraints`.
const BASIC_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x13];

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// One authority, and the files of one server.
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Creates an authority, and a certificate for 127.0.0.1 that it has signed.
    pub(crate) fn make() -> Self {
        let folder = super::server::directory();
        let [authority, server] = [KeyPair::new_user(), KeyPair::new_user()];
        let is_authority = extension(BASIC_CONSTRAINTS, &der(SEQUENCE, &[&[0x01, 0x01, 0xff]]));
        // An address, with the tag for IP addresses.
        let address = der(SEQUENCE, &[&der(0x87, &[&[127, 0, 0, 1]])]);
        let root = certificate("authority", &authority, &authority, &is_authority);
        let leaf = certificate("server", &server, &authority, &extension(ALTERNATIVE_NAME, &address));
        let (_, seed) = decode_seed(&server.seed().unwrap()).unwrap();
        // A nested string: the outer string is part of PKCS 8.
        let key = der(OCTET_STRING, &[&der(OCTET_STRING, &[&seed])]);
        let key = der(SEQUENCE, &[&[INTEGER, 1, 0], &der(SEQUENCE, &[ED25519]), &key]);
        let this = Self { folder };
        write(&this.authority(), "CERTIFICATE", &root);
        write(&this.certificate(), "CERTIFICATE", &leaf);
        write(&this.key(), "PRIVATE KEY", &key);
        this
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// Returns the path of a folder beside the certificates.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("server-key.pem")
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(path: &Path, label: &str, der: &[u8]) {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    let lines: String = text.as_bytes().chunks(64).map(|line| format!("{}\n", str::from_utf8(line).unwrap())).collect();
    std::fs::write(path, format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")).unwrap();
}

fn certificate(subject: &str, key: &KeyPair, issuer: &KeyPair, extension: &[u8]) -> Vec<u8> {
    let (_, public) = from_public_key(&key.public_key()).unwrap();
    let algorithm = der(SEQUENCE, &[ED25519]);
    let validity = der(SEQUENCE, &[&der(TIME, &[b"20200101000000Z"]), &der(TIME, &[b"20990101000000Z"])]);
    let content = der(
        SEQUENCE,
        &[
            // Version 3, and a serial number.
            &[0xa0, 0x03, INTEGER, 1, 2],
            &[INTEGER, 1, if subject == "authority" { 1 } else { 2 }],
            &algorithm,
            &name("authority"),
            &validity,
            &name(subject),
            &der(SEQUENCE, &[&algorithm, &bits(&public)]),
            &der(0xa3, &[&der(SEQUENCE, &[extension])]),
        ],
    );
    let signature = issuer.sign(&content).unwrap();
    der(SEQUENCE, &[&content, &algorithm, &bits(&signature)])
}

fn name(text: &str) -> Vec<u8> {
    let attribute = der(SEQUENCE, &[COMMON_NAME, &der(UTF8_STRING, &[text.as_bytes()])]);
    der(SEQUENCE, &[&der(SET, &[&attribute])])
}

fn extension(id: &[u8], value: &[u8]) -> Vec<u8> {
    der(SEQUENCE, &[id, &der(OCTET_STRING, &[value])])
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    der(BIT_STRING, &[&[0], bytes])
}

/// Encodes a DER value: its tag, its length and its parts.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..128 => out.push(length as u8),
        128..256 => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend(content);
    out
}
