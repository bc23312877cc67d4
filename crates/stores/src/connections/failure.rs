//! What goes wrong with every server, in words for its operator.

use sessile_core::{Error, ErrorKind};

/// The kind of an error, why, and advice.
pub type Meaning = (ErrorKind, &'static str, &'static str);

pub const UNREACHED: Meaning = (
    ErrorKind::Unreachable,
    "the server does not answer",
    "check that it runs, that address and port are right, and that no firewall is in between",
);
pub const DISTRUSTED: Meaning = (
    ErrorKind::Denied,
    "the certificates are not accepted",
    "name the authority in tls_ca_file, and a client certificate if the server asks for one",
);
const MISNAMED: Meaning = (
    ErrorKind::Denied,
    "the certificate of the server does not have its name",
    "make one with the host of the URL, and with what a cluster or sentinels tell",
);

pub const NO_DATABASE: Meaning = (
    ErrorKind::InvalidUrl,
    "the server has no database of this name",
    "create it, or correct the URL",
);
pub const FULL: Meaning =
    (ErrorKind::Full, "the server has no space left", "free disk space on the server");
pub const OUT_OF_MEMORY: Meaning =
    (ErrorKind::OutOfMemory, "the server has no memory left", "give it more");
pub const REFUSED: Meaning =
    (ErrorKind::Io, "the server refuses a statement", "look up the number in the cause");

pub fn error((kind, why, advice): Meaning) -> Error {
    Error::new(kind, why).advice(advice)
}

/// If one side rejected the certificate of the other, where only the text of the TLS library's
/// error is within reach. If it were reworded, the error would be `Unreachable`.
pub fn distrust(text: &str) -> Option<Meaning> {
    if text.contains("not valid for name") || text.contains("NotValidForName") {
        return Some(MISNAMED);
    }
    let rejected = ["invalid peer certificate", "received fatal alert"];
    rejected.iter().any(|words| text.contains(words)).then_some(DISTRUSTED)
}
