//! Ids of cookies, and names of bins.

use sessile_core::{Bin, Key};

/// Bytes as an id. A well-formed one has only the characters of the contract, and no error and no
/// tag repeats an id.
pub fn session_id(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Key::session(text) {
        Ok(key) => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b",_-".contains(&byte);
            assert!((1..=256).contains(&text.len()) && text.bytes().all(is_allowed), "{text:?}");
            assert_eq!(key.id(), text);
            if text.len() > 9 {
                assert!(!format!("{key:?} {}", key.tag()).contains(text));
            }
        }
        Err(error) if text.len() > 20 => assert!(!format!("{error:#}").contains(text)),
        Err(_) => {}
    }
    if let Some((bin, id)) = text.split_once('/')
        && let Ok(bin) = Bin::new(bin)
        && let Ok(key) = Key::in_bin(bin, id)
    {
        assert!(!key.id().contains(['/', '\0', ' ', '\n']), "{id:?}");
    }
}
