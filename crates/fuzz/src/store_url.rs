//! Store URLs, with a password in them.

use sessile_stores::{StoreUrl, registry};

const PASSWORD: &str = "Zx9-hidden-qT4";

/// Bytes as what follows the password of a URL, and as a whole URL. Nothing that is shown of a URL
/// contains its password.
pub fn store_url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let schemes = registry::STORES.iter().flat_map(|entry| entry.schemes);
    for scheme in schemes {
        checked(&format!("{scheme}://user:{PASSWORD}@{text}"));
    }
    let _ = StoreUrl::parse(text);
}

fn checked(text: &str) {
    let is_shown = |shown: &str| shown.contains(PASSWORD);
    match StoreUrl::parse(text) {
        Ok(url) => {
            // Elsewhere in the URL it is no password.
            let is_password =
                url.parts().password() == Some(PASSWORD) && text.matches(PASSWORD).count() == 1;
            assert!(!(is_password && is_shown(&url.redacted())), "{}", url.redacted());
            if let Err(error) = registry::limits(&url) {
                assert!(!is_shown(&format!("{error:#}")), "{error:#}");
            }
            if let Err(error) = registry::entry_for(&url) {
                assert!(!is_shown(&format!("{error:#}")), "{error:#}");
            }
            let _ = url.path();
        }
        Err(error) => assert!(!is_shown(&format!("{error:#}")), "{error:#}"),
    }
}
