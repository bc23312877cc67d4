//! Whether one of our own stores is there at all, asked before it is opened: opening makes what is missing.
//!
//! For a look that must change nothing. Invariant: nothing is made. Of a store whose opening makes nothing it is said that it
//! is there; one that is made of others is there when all of these are. Not here: whether what is there is sound, and whether it is ours; opening tells.

use std::io::ErrorKind::NotFound;

use sessile_core::{Error, ErrorKind, Operation, Result};

use crate::store_url::StoreUrl;

/// The options of `route:` that name stores.
const PARTS: [&str; 3] = ["home", "large", "bins_in"];

/// A URL as it stands in an option of another one: there a plus sign is read as a space, and a URL has no spaces.
pub(crate) fn decoded(option: &str) -> String {
    option.replace(' ', "+")
}

/// Refuses a URL that leads to nothing yet.
///
/// # Errors
///
/// `Incompatible` when a file, directory or table is missing or empty, `InvalidUrl` for a malformed URL, and whatever keeps
/// a server from being asked.
pub fn check(url: &str) -> Result<()> {
    let url = StoreUrl::parse(url)?;
    if url.scheme() == "route" {
        return PARTS.iter().filter_map(|part| url.text(part)).try_for_each(|part| check(&decoded(part)));
    }
    let label = url.redacted();
    let checked = is_there(&url).and_then(|there| {
        let missing = || {
            Error::new(ErrorKind::Incompatible, "there is no store of sessile here")
                .advice("check the URL; for what another program keeps, write its name first, as in drupal+mysql:")
        };
        if there { Ok(()) } else { Err(missing()) }
    });
    checked.map_err(|error| error.during(Operation::Open, &label, None))
}

fn is_there(url: &StoreUrl) -> Result<bool> {
    match url.scheme() {
        // A directory of PHP's that is empty has no sessions, and is one nevertheless.
        "files" if url.text("php").is_some() => Ok(true),
        "files" | "sessile" | "sqlite" => Ok(has_something(&url.path()?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" | "mysql+unix" => crate::mysql::foreign::has_own(url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" | "postgres+unix" => crate::postgres::foreign::has_own(url),
        _ => Ok(true),
    }
}

/// What cannot be looked at is for the store to complain about.
fn has_something(path: &std::path::Path) -> bool {
    match std::fs::metadata(path) {
        Ok(status) if status.is_dir() => std::fs::read_dir(path).map_or(true, |mut names| names.next().is_some()),
        Ok(status) => status.len() > 0,
        Err(error) => error.kind() != NotFound,
    }
}

#[cfg(all(test, feature = "files", feature = "memory", feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::Context;

    #[test]
    fn a_store_is_there_when_it_was_opened_once_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        std::fs::write(dir.path().join("empty.db"), "").unwrap();
        for place in ["files:DIR/empty", "files:DIR/none", "sqlite:DIR/empty.db", "sqlite:DIR/none.db"] {
            let url = place.replace("DIR", &dir.path().display().to_string());
            for _ in 0..2 {
                let error = check(&url).unwrap_err();
                assert_eq!(error.kind(), &ErrorKind::Incompatible, "{url}");
                assert!(format!("{error:#}").contains("no store of sessile"), "{error:#}");
            }
            drop(crate::open(&url, &Context::default()).unwrap());
            check(&url).unwrap();
        }
        check("memory:").unwrap();
    }

    #[cfg(feature = "route")]
    #[test]
    fn a_store_that_is_made_of_others_is_there_when_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display();
        let url = format!("route:?home=files:{place}/home&large=sqlite:{place}/large.db");
        let missing = |url: &str| check(url).unwrap_err().to_string();
        assert!(missing(&url).contains("home"), "{}", missing(&url));
        drop(crate::open(&format!("files:{place}/home"), &Context::default()).unwrap());
        assert!(missing(&url).contains("large.db"), "{}", missing(&url));
        assert!(!dir.path().join("large.db").exists());
        drop(crate::open(&url, &Context::default()).unwrap());
        check(&url).unwrap();
    }
}
