//! URLs that lead nowhere, and what an operator may choose when opening.

use std::time::Duration;

use sessile_core::{Clock, Filter, Key, Sessions};

use crate::case::{Case, Isolation, Outcome, embedded, listing, locking, persistent};
use crate::check::{Failure, ensure, equal, refused, refused_with_one_of, soon};
use crate::ground::{FREE_WITHIN, Ground, PATIENCE, begin_free, minute, payload, payload_of};
use crate::opener;

pub(crate) const CASES: &[Case] = &[
    Case::new("a malformed URL is refused without repeating it", malformed),
    Case::new("a place that cannot be is refused, and says so", nowhere).needs(&[embedded, persistent]),
    Case::new("the path of a store is absolute and names no host", paths).needs(&[embedded, persistent]),
    Case::new("with ids=hashed everything works and no id is stored", hashed).needs(&[locking]).on(Isolation::Own),
    Case::new("with ids=hashed a listing shows digests", hashed_listing).needs(&[listing]).on(Isolation::Own),
    Case::new("a lease outlives its handle and may end on another thread", lease_travels).needs(&[locking]),
    Case::new("clones of an opened store share its counters", clones).needs(&[locking]),
];

fn scheme(ground: &Ground) -> &str {
    ground.url().split_once(':').map_or("", |(scheme, _)| scheme)
}

fn open(url: &str) -> sessile_core::Result<Sessions> {
    // Some places only turn out not to be when they are used.
    let store = opener::open(url, Clock::system())?;
    store.peek(&Key::session("probe")?)?;
    Ok(store)
}

fn malformed(ground: &Ground) -> Outcome {
    let bad = ["", "no-scheme", "//x", "nonsense:/x", "redis://HuShHuSh@host:notaport/", ":", "files"];
    for url in bad {
        // An unparsable URL has no label yet, so only the kind and the silence are checked.
        let refusal = open(url).map_err(|error| error.during(sessile_core::Operation::Open, "none", None));
        refused("such a URL", refusal, "invalid-url")?;
    }
    refused(
        "an option given twice",
        open(&ground.url_with("ids", "plain&ids=plain"))
            .map_err(|error| error.during(sessile_core::Operation::Open, "none", None)),
        "invalid-url",
    )?;
    Ok(())
}

fn nowhere(ground: &Ground) -> Outcome {
    let codes = ["io", "denied", "unreachable", "invalid-url", "incompatible"];
    for path in ["/proc/no-such-place/store", "/dev/null/store", "/proc/self/status/x"] {
        refused_with_one_of(path, open(&format!("{}:{path}", scheme(ground))), &codes)?;
    }
    Ok(())
}

fn paths(ground: &Ground) -> Outcome {
    for path in ["relative/path", "//host/path", "", "/a%00b"] {
        refused(path, open(&format!("{}:{path}", scheme(ground))), "invalid-url")?;
    }
    Ok(())
}

/// `None` where a foreign layout needs the plain ids: refusing the option is then the honest answer.
fn open_hashed(ground: &Ground) -> Result<Option<Sessions>, Failure> {
    match opener::open(&ground.url_with("ids", "hashed"), Clock::system()) {
        Ok(store) => Ok(Some(store)),
        refusal => refused("ids=hashed", refusal, "invalid-url").map(|_| None),
    }
}

fn hashed(ground: &Ground) -> Outcome {
    let Some(hashed) = open_hashed(ground)? else { return Ok(()) };
    let plain = ground.open()?;
    let (key, new) = (ground.key(), ground.key());
    hashed.create(&key, &payload("x"), minute())?;
    refused("a second create", hashed.create(&key, b"", minute()), "exists")?;
    equal("the id as it is", plain.peek(&key)?.is_some(), false)?;
    let mut begun = hashed.begin(&key, PATIENCE)?;
    refused("a second begin", hashed.begin(&key, Duration::ZERO), "lock-timeout")?;
    begun.lease.regenerate(&new, Duration::from_secs(30))?;
    begun.lease.commit(&payload("y"), minute())?;
    for id in [&key, &new] {
        equal("peek", payload_of(&hashed, id)?, Some(payload("y")))?;
    }
    hashed.destroy(&key)?;
    equal("after destroy", hashed.peek(&new)?.is_some(), false)
}

fn hashed_listing(ground: &Ground) -> Outcome {
    let Some(hashed) = open_hashed(ground)? else { return Ok(()) };
    let key = ground.key();
    hashed.create(&key, &payload("x"), minute())?;
    let page = hashed.list(None, &Filter::default())?;
    ensure(page.entries.iter().all(|entry| entry.key != key), || "the listing shows the id".into())?;
    equal("sessions", hashed.stat()?.sessions, 1)
}

fn lease_travels(ground: &Ground) -> Outcome {
    soon("begin after the commit", FREE_WITHIN, || {
        let store = ground.open()?;
        let key = ground.key();
        let begun = store.begin(&key, PATIENCE)?;
        let other = if ground.capabilities().shared_by_processes { ground.open()? } else { store.clone() };
        drop(store);
        let committed = std::thread::spawn(move || begun.lease.commit(&payload("from afar"), minute())).join();
        committed.map_err(|_| Failure("the thread panicked".into()))??;
        let (begun, elapsed) = begin_free(&other, &key)?;
        equal("the record", begun.record.map(|record| record.payload), Some(payload("from afar")))?;
        Ok(elapsed)
    })
}

fn clones(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    let twin = store.clone();
    refused("the clone's begin", twin.begin(&key, Duration::ZERO), "lock-timeout")?;
    equal("counted", store.counters().get(sessile_core::Counter::LockTimeouts), 1)?;
    drop(store);
    begun.lease.commit(&payload("x"), minute())?;
    equal("the record", payload_of(&twin, &key)?, Some(payload("x")))
}
