//! URLs that lead nowhere, and what an operator may choose when opening.

use super::*;

/// Opens the place at this path and reads: some places only fail when they are used.
fn open_path(bed: &Testbed, path: &str) -> sessile_core::Result<()> {
    let scheme = bed.url().split_once(':').map_or("", |(scheme, _)| scheme);
    open(&format!("{scheme}:{path}"))?.peek(&Key::session("probe")?).map(drop)
}

/// `None` where a foreign layout needs the plain ids: the store then honestly refuses the option.
fn open_hashed(bed: &Testbed) -> CaseResult<Option<TestStore>> {
    unless_refused("ids=hashed", bed.open_with("ids", "hashed"), "invalid-url")
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a malformed URL is refused without repeating it", |bed, _| {
        // An unparsable URL has no label yet, so only the kind and the silence are checked.
        for url in
            ["", "no-scheme", "//x", "nonsense:/x", "redis://HuShHuSh@host:notaport/", ":", "files"]
        {
            refused_early("such a URL", open(url), "invalid-url")?;
        }
        let twice = bed.open_with("ids", "plain&ids=plain");
        refused_early("an option given twice", twice, "invalid-url").map(drop)
    }),
    Case::new("a place that cannot be is refused, and says so", |bed, _| {
        let codes = "io|denied|unreachable|invalid-url|incompatible";
        for path in ["/proc/no-such-place/store", "/dev/null/store", "/proc/self/status/x"] {
            refused(path, open_path(bed, path), codes)?;
        }
        Ok(())
    })
    .needs(&[EMBEDDED, PERSISTENT]),
    Case::new("the path of a store is absolute and names no host", |bed, _| {
        for path in ["relative/path", "//host/path", "", "/a%00b"] {
            refused(path, open_path(bed, path), "invalid-url")?;
        }
        Ok(())
    })
    .needs(&[EMBEDDED, PERSISTENT]),
    Case::new("with ids=hashed everything works and no id is stored", |bed, _| {
        let Some(hashed) = open_hashed(bed)? else { return Ok(()) };
        let (key, new) = (hashed.stored("x")?, new_key());
        refused("a second create", hashed.create(&key, b"", minute()), "exists")?;
        bed.open()?.expect_none("the id as it is", &key)?;
        let mut begun = hashed.lock(&key)?;
        hashed.expect_locked("a second begin", &key)?;
        begun.lease.regenerate(&new, secs(30))?;
        hashed.expect_commit(begun, &key, "y")?;
        hashed.expect_text("peek at the new id", &new, "y")?;
        hashed.destroy(&key)?;
        hashed.expect_none("after destroy", &new)
    })
    .alone(),
    Case::new("with ids=hashed a listing shows digests", |bed, _| {
        let Some(hashed) = open_hashed(bed)? else { return Ok(()) };
        let key = hashed.stored("x")?;
        let page = hashed.list(None, &Filter::default())?;
        let shown = page.entries.iter().any(|entry| entry.key == key);
        ensure(!shown, || "the listing shows the id".into())?;
        equal("sessions", hashed.stat()?.sessions, 1)
    })
    .needs(&[LISTING])
    .alone(),
    Case::new("a lease outlives its handle and may end on another thread", |bed, _| {
        soon("begin after the commit", FREE_WITHIN, || {
            let store = bed.open()?;
            let (key, begun) = store.leased("x")?;
            let other = bed.second_handle(&store)?;
            drop(store);
            let committed = std::thread::spawn(move || begun.commit_text("from afar")).join();
            committed.map_err(|_| Failure("the thread panicked".into()))??;
            let (begun, elapsed) = other.lock_free(&key)?;
            begun.expect_text("the record", "from afar")?;
            Ok(elapsed)
        })
    }),
    Case::new("clones of an opened store share its counters", |bed, _| {
        let store = bed.open()?;
        let key = new_key();
        let begun = store.lock(&key)?;
        let clone = store.clone();
        clone.expect_locked("the clone's begin", &key)?;
        equal("counted", store.count(Counter::LockTimeouts), 1)?;
        drop(store);
        clone.expect_commit(begun, &key, "x")
    }),
];
