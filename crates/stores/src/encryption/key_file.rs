//! The file of `seal=`: a key in each line, 64 hexadecimal digits as `openssl rand -hex 32` prints
//! them. Empty lines and lines that begin with `#` are skipped. The first key encrypts.
//!
//! Invariant: no error repeats a line of the file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use sessile_core::{Error, Result};

use crate::store_url::invalid;

pub type EncryptionKey = [u8; 32];

/// Former keys are of use for as long as a session lives: nobody needs more of them.
const KEYS_MAX: usize = 16;
const FILE_BYTES_MAX: u64 = 16 << 10;
const FORM: &str = "write 64 hexadecimal digits a line: openssl rand -hex 32 > FILE";

/// Reads the keys of a file, the one that encrypts first.
///
/// # Errors
///
/// `InvalidUrl` when it is missing, malformed, or readable by every user.
pub fn read(path: &str) -> Result<Vec<EncryptionKey>> {
    if !path.starts_with('/') {
        return Err(invalid("seal= needs the absolute path of a key file").advice(FORM));
    }
    let unreadable = |error| invalid("the key file of seal= cannot be read").source(error);
    let file = File::open(path).map_err(unreadable)?;
    let status = file.metadata().map_err(unreadable)?;
    if status.is_file() && status.mode() & 0o007 != 0 {
        return Err(invalid("every user may read or change the key file of seal=")
            .advice("chmod 640 it, with the group of the workers"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<EncryptionKey>> {
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        keys.push(parse_key(line).ok_or_else(|| malformed(number))?);
    }
    match keys.len() {
        0 => Err(invalid("the key file of seal= has no key").advice(FORM)),
        1..=KEYS_MAX => Ok(keys),
        _ => Err(invalid(format!("the key file of seal= has more than {KEYS_MAX} keys"))
            .advice("remove the oldest ones, at the end")),
    }
}

fn malformed(number: usize) -> Error {
    invalid(format!("line {number} of the key file of seal= is no key")).advice(FORM)
}

fn parse_key(line: &str) -> Option<EncryptionKey> {
    let digits: Vec<u8> =
        line.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, d| byte << 4 | d)).collect();
    bytes.try_into().ok().filter(|_| digits.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_order_and_a_malformed_line_is_named_without_its_text() {
        let (first, second) = ("0f".repeat(32), "A5".repeat(32));
        let keys = parse(&format!("# since May\n{first}\n\n  {second}  \n")).unwrap();
        assert_eq!(keys, [[0x0f; 32], [0xa5; 32]]);
        for bad in ["0f0f", &"0g".repeat(32), &"0f".repeat(33), &format!("{}0", "0f".repeat(32))] {
            let error = format!("{:#}", parse(&format!("{first}\n{bad}\n")).unwrap_err());
            assert!(error.contains("line 2") && !error.contains(bad), "{error}");
        }
        assert!(parse("# nothing\n").unwrap_err().to_string().contains("has no key"));
        assert!(parse(&format!("{first}\n").repeat(17)).is_err());
    }
}
