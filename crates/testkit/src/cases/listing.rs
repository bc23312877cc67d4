//! Listing and stat: every living record, page by page, and true numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use sessile_core::{Bin, Cursor, Entry, Filter, Key, Limits, Sessions};

use crate::case::{Case, Isolation, Outcome, listing, locking, no_listing};
use crate::check::{Failure, ensure, equal, refused};
use crate::ground::{Ground, MINUTE, PATIENCE, minute, payload};

pub(crate) const CASES: &[Case] = &[
    Case::new("a listing shows every living record over its pages", complete).needs(&[listing]).on(Isolation::Own),
    Case::new("a listing is complete for what stays while others write", while_writing)
        .needs(&[listing])
        .on(Isolation::Own),
    Case::new("a listing shows sizes, versions and times, and nothing expired or destroyed", entries)
        .needs(&[listing])
        .on(Isolation::Own),
    Case::new("a listing filters by bin and size", filters).needs(&[listing]).on(Isolation::Own),
    Case::new("a listing does not wait for a lock and does not show empty locks", under_lease)
        .needs(&[listing, locking])
        .on(Isolation::Own),
    Case::new("a foreign cursor and a senseless page size are refused", bad_cursor).needs(&[listing]),
    Case::new("stat counts the living, their bytes and the oldest", stat).needs(&[listing]).on(Isolation::Own),
    Case::new("without listing, list and stat are Unsupported", unsupported).needs(&[no_listing]),
];

fn list(store: &Sessions, filter: &Filter) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    let mut cursor: Option<Cursor> = None;
    for _ in 0..100_000 {
        let page = store.list(cursor.as_ref(), filter)?;
        ensure(page.entries.len() <= filter.entries_max, || format!("a page of {} entries", page.entries.len()))?;
        entries.extend(page.entries);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(entries),
        }
    }
    Err(Failure("the listing never ends".into()))
}

fn keys_of(entries: Vec<Entry>) -> BTreeSet<Key> {
    entries.into_iter().map(|entry| entry.key).collect()
}

/// The keys as a listing shows them: digests, where the store keeps no ids.
fn shown(store: &Sessions, keys: &BTreeSet<Key>) -> BTreeSet<Key> {
    keys.iter().map(|key| store.listed_key(key)).collect()
}

fn fill(ground: &Ground, store: &Sessions, count: usize) -> Result<BTreeSet<Key>, Failure> {
    let keys: BTreeSet<Key> = (0..count).map(|_| ground.key()).collect();
    keys.iter().try_for_each(|key| store.create(key, &payload("x"), minute()))?;
    Ok(keys)
}

fn complete(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let keys = shown(&store, &fill(ground, &store, 137)?);
    for entries_max in [1, 7, 50, 1_000] {
        let listed = keys_of(list(&store, &Filter { entries_max, ..Filter::default() })?);
        let missing = keys.difference(&listed).count();
        let foreign = listed.difference(&keys).count();
        ensure(missing == 0 && foreign == 0, || {
            format!("in pages of {entries_max}: {missing} records are missing, {foreign} were never stored")
        })?;
    }
    Ok(())
}

fn while_writing(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let stays = shown(&store, &fill(ground, &store, 200)?);
    let filter = Filter { entries_max: 10, ..Filter::default() };
    let (mut listed, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = store.list(cursor.as_ref(), &filter)?;
        listed.extend(keys_of(page.entries));
        // Between two pages records come, go and grow.
        let passing = fill(ground, &store, 3)?;
        for (n, key) in passing.iter().enumerate() {
            store.begin(key, PATIENCE)?.lease.commit(&vec![b'x'; 3_000 * n], minute())?;
            if n > 0 {
                store.destroy(key)?;
            }
        }
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    equal("records missing", stays.difference(&listed).count(), 0)
}

fn entries(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let [key, expired, destroyed] = [ground.key(), ground.key(), ground.key()];
    store.create(&expired, &payload("x"), minute())?;
    store.create(&destroyed, &payload("x"), minute())?;
    store.destroy(&destroyed)?;
    clock.advance(Duration::from_secs(30));
    store.create(&key, &vec![b'x'; 1_234], minute())?;
    clock.advance(Duration::from_secs(30));
    let listed = list(&store, &Filter::default())?;
    let record = store.peek(&key)?.ok_or_else(|| Failure("the record is gone".into()))?;
    let wanted = Entry {
        key: store.listed_key(&key),
        payload_bytes: 1_234,
        version: record.version,
        created: record.created,
        written: record.written,
        expires: record.expires,
    };
    ensure(listed == [wanted.clone()], || format!("listed {listed:?}, wanted {wanted:?}"))
}

fn filters(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let bin = Bin::new("cache_page")?;
    let (small, large, page) = (ground.key(), ground.key(), ground.key_in(bin.clone()));
    store.create(&small, &[b'x'; 100], minute())?;
    store.create(&large, &[b'x'; 2_000], minute())?;
    store.create(&page, &[b'x'; 2_000], minute())?;
    let [small, large, page] = [small, large, page].map(|key| store.listed_key(&key));
    let listed = |bin: Option<Bin>, payload_bytes_min| -> Result<BTreeSet<Key>, Failure> {
        Ok(keys_of(list(&store, &Filter { bin, payload_bytes_min, ..Filter::default() })?))
    };
    equal("one bin", listed(Some(bin), 0)?, BTreeSet::from([page.clone()]))?;
    equal("sessions", listed(Some(Bin::SESSION), 0)?, BTreeSet::from([small, large.clone()]))?;
    equal("at least 2,000 bytes", listed(None, 2_000)?, BTreeSet::from([large, page]))?;
    equal("at least 2,001 bytes", listed(None, 2_001)?, BTreeSet::new())
}

fn under_lease(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let keys = fill(ground, &store, 3)?;
    let held: Vec<_> = keys.iter().map(|key| store.begin(key, PATIENCE)).collect::<Result<_, _>>()?;
    let nothing = store.begin(&ground.key(), PATIENCE)?;
    equal("the keys", keys_of(list(&store, &Filter::default())?), shown(&store, &keys))?;
    equal("stat", store.stat()?.sessions, 3)?;
    drop((held, nothing));
    Ok(())
}

fn bad_cursor(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    for text in ["", "nonsense", "../../etc/passwd", "\u{1f980}"] {
        refused("such a cursor", store.list(Some(&Cursor(text.into())), &Filter::default()), "invalid-argument")?;
    }
    for entries_max in [0, Limits::PAGE_ENTRIES_MAX + 1] {
        let page = store.list(None, &Filter { entries_max, ..Filter::default() });
        refused("such a page", page, "invalid-argument")?;
    }
    Ok(())
}

fn stat(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    equal("sessions of an empty store", store.stat()?.sessions, 0)?;
    let [short, first, second] = [ground.key(), ground.key(), ground.key()];
    store.create(&short, &[b'x'; 7], minute())?;
    clock.advance(Duration::from_secs(30));
    let oldest = clock.now();
    store.create(&first, &[b'x'; 100], minute())?;
    clock.advance(Duration::from_secs(20));
    store.create(&second, &[b'x'; 50], minute())?;
    clock.advance(MINUTE - Duration::from_secs(50));
    let stat = store.stat()?;
    equal("sessions and bytes", (stat.sessions, stat.payload_bytes), (2, 150))?;
    equal("the oldest", stat.oldest_written, Some(oldest))?;
    equal("complete", stat.complete, true)
}

fn unsupported(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    refused("list", store.list(None, &Filter::default()), "unsupported")?;
    refused("stat", store.stat(), "unsupported").map(drop)
}
