//! A certificate that is signed with its own key, for tests of TLS.

use std::path::Path;
use std::process::{Command, Stdio};

/// Makes `cert.pem` and `key.pem` in a directory, good for names such as
/// `DNS:localhost,IP:127.0.0.1`. False, said on stderr, when openssl is not installed; under CI
/// that is a failure.
pub fn make(dir: &Path, names: &str) -> bool {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args([
            "-addext",
            &format!("subjectAltName={names}"),
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir)
        .stderr(Stdio::null())
        .status();
    if made.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "openssl is missing");
    eprintln!("SKIPPED: openssl is not installed");
    false
}
