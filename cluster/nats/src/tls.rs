//! The requirements on a server: TLS 1.3, and a trusted certificate.

use async_nats::rustls::crypto::ring;
use async_nats::rustls::pki_types::{CertificateDer, pem::PemObject};
use async_nats::rustls::{ClientConfig, RootCertStore, version::TLS13};
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the client's TLS configuration. It trusts the certificates in these PEM files or, if there are none, those
/// that the operating system trusts. The files are read for each connection, so they may be replaced while a node
/// runs.
pub(crate) fn config(trusted: &[PathBuf]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for file in trusted {
        let unreadable = |reason: String| format!("`{}` cannot be read: {reason}", file.display());
        let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
        let mut is_empty = true;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            is_empty = false;
        }
        if is_empty {
            return Err(unreadable("it has no certificate".into()));
        }
    }
    if trusted.is_empty() {
        // Certificates that cannot be read are skipped, which only reduces trust.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13]).map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
