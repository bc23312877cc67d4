//! `route:?home=memcached://cache&large=sqlite:/var/lib/shop/large.sqlite&larger_than=900K`. In an
//! inner URL with options `&` is written `%26`, `#` is `%23`, and `%` is `%25`. Nothing here prints
//! a URL: it may contain a password.

use std::collections::BTreeSet;

use sessile_core::{Bin, Result, Sessions};

use crate::registry::{Context, OptionHelp, option};
use crate::several::open_inner;
use crate::store_url::{StoreUrl, invalid};

const LOCK_TTL: &str = "lock_ttl_ms";

pub const HELP: &[OptionHelp] = &[
    option("home", "URL of the store that keeps, locks and expires the sessions"),
    option("large", "URL of the store for payloads that are larger than `larger_than`"),
    option(
        "larger_than",
        "bytes, or with K or M in units of 1024: larger payloads go to `large` (default and \
         maximum: what `home` takes)",
    ),
    option("bins", "names of bins, with commas between them, that live in `bins_in` altogether"),
    option("bins_in", "URL of the store for these bins"),
    option(
        LOCK_TTL,
        "passed on to `home`, if that is a store whose locks end with time and says nothing itself",
    ),
];

pub struct RouteStores {
    pub home: Sessions,
    pub large: Option<Sessions>,
    pub elsewhere: Option<(BTreeSet<Bin>, Sessions)>,
    pub inline_bytes_max: u64,
}

/// Opens all stores now: an unreachable one must not fail only at the first large payload.
pub fn open_stores(url: &StoreUrl, context: &Context) -> Result<RouteStores> {
    if !url.parts().path().is_empty() || url.parts().host().is_some() {
        return Err(invalid("route: takes no path").advice("write route:?home=URL&large=URL"));
    }
    let bins = url.text("bins").map(bins).transpose()?;
    let Some(home) = url.text("home") else {
        return Err(invalid("route: needs a home store").advice("write route:?home=URL&large=URL"));
    };
    match (url.text("large"), &bins, url.text("bins_in")) {
        (None, None, None) => Err(invalid("route: leads nowhere but home")
            .advice("add large= or bins=, or use the home store itself")),
        (_, None, Some(_)) => {
            Err(invalid("option bins_in needs bins").advice("name the bins: bins=cache,theme"))
        }
        (_, Some(_), None) => Err(invalid("option bins needs bins_in").advice("add bins_in=URL")),
        (None, _, _) if url.text("larger_than").is_some() => {
            Err(invalid("option larger_than needs large"))
        }
        _ => Ok(()),
    }?;
    let lock_ttl = url.text(LOCK_TTL).map(|value| (LOCK_TTL, value.to_owned()));
    let home = open_inner(("route:", "home"), home, lock_ttl.as_slice(), context)?;
    let inner = |name, url| open_inner(("route:", name), url, &[], context);
    let open = |name| url.text(name).map(|url| inner(name, url)).transpose();
    let (large, bins_in) = (open("large")?, open("bins_in")?);
    let inline_bytes_max = url.text("larger_than").map_or(Ok(u64::MAX), bytes)?;
    Ok(RouteStores { home, large, elsewhere: bins.zip(bins_in), inline_bytes_max })
}

fn bins(names: &str) -> Result<BTreeSet<Bin>> {
    let well_formed = |name: &str| {
        Bin::new(name).map_err(|error| {
            invalid("option bins must be names of bins with commas between them").source(error)
        })
    };
    names.split(',').map(well_formed).collect()
}

fn bytes(text: &str) -> Result<u64> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (text.get(..text.len() - 1), 1 << 10),
        Some(b'M' | b'm') => (text.get(..text.len() - 1), 1 << 20),
        _ => (Some(text), 1),
    };
    let number = digits
        .and_then(|digits| digits.parse::<u64>().ok())
        .and_then(|number| number.checked_mul(unit));
    number.ok_or_else(|| {
        invalid("option larger_than must be a number of bytes, or one with K or M behind it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn refused(url: &str) -> String {
        let error = registry::open(url, &Context::default()).map(drop).unwrap_err();
        assert_eq!(error.kind().code(), "invalid-url", "{url}: {error}");
        format!("{error:#}")
    }

    #[test]
    fn sizes_have_units() {
        let read = |text| bytes(text).map_err(|error| error.kind().clone());
        assert_eq!((read("0"), read("900K"), read("8m")), (Ok(0), Ok(900 << 10), Ok(8 << 20)));
        for bad in ["", "K", "-1", "1G", "1.5M", "99999999999999999999", "99999999999999999M"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_that_leads_nowhere_says_what_is_missing() {
        for (url, word) in [
            ("route:", "home store"),
            ("route:?home=memory:", "nowhere"),
            ("route:/x?home=memory:&large=memory:", "no path"),
            ("route:?home=memory:&bins=cache", "bins_in"),
            ("route:?home=memory:&bins_in=memory:", "bins"),
            ("route:?home=memory:&bins=Cache&bins_in=memory:", "names of bins"),
            ("route:?home=memory:&bins=cache&bins_in=memory:&larger_than=1", "needs large"),
            ("route:?home=memory:&large=memory:&larger_than=x", "larger_than"),
            ("route:?home=memory:&large=nonsense:", "option large"),
            ("route:?home=memory:?wrong=1&large=memory:", "option home"),
        ] {
            assert!(refused(url).contains(word), "{url}: {}", refused(url));
        }
    }

    #[test]
    fn a_password_in_an_inner_url_is_in_no_error() {
        let told = refused("route:?home=redis://shop:s3cret@host:notaport/&large=memory:");
        assert!(!told.contains("s3cret"), "{told}");
    }
}
