//! Listing and stat: every living record, page by page, and true numbers.

use std::collections::BTreeSet;

use sessile_core::{Cursor, Listed};

use super::*;

fn list(store: &TestStore, filter: &Filter) -> CaseResult<Vec<Listed>> {
    let mut entries = Vec::new();
    let mut cursor: Option<Cursor> = None;
    for _ in 0..100_000 {
        let page = store.list(cursor.as_ref(), filter)?;
        ensure(page.entries.len() <= filter.entries_max, || {
            format!("a page of {} entries", page.entries.len())
        })?;
        entries.extend(page.entries);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(entries),
        }
    }
    Err(Failure("the listing never ends".into()))
}

fn keys_of(entries: Vec<Listed>) -> BTreeSet<Key> {
    entries.into_iter().map(|entry| entry.key).collect()
}

/// The keys as a listing shows them: digests, where the store keeps no ids.
fn shown(store: &TestStore, keys: &[Key]) -> BTreeSet<Key> {
    keys.iter().map(|key| store.listed_key(key)).collect()
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a listing shows every living record over its pages", |_, store| {
        let keys = shown(store, &store.fill(137, MINUTE)?);
        for entries_max in [1, 7, 50, 1_000] {
            let listed = keys_of(list(store, &Filter { entries_max, ..Filter::default() })?);
            let missing = keys.difference(&listed).count();
            let foreign = listed.difference(&keys).count();
            ensure(missing == 0 && foreign == 0, || {
                format!(
                    "in pages of {entries_max}: {missing} records are missing, {foreign} were \
                     never stored"
                )
            })?;
        }
        Ok(())
    })
    .needs(&[LISTING])
    .alone(),
    Case::new("what a listing shows can be read and destroyed", |_, store| {
        let keys = store.fill(3, MINUTE)?;
        let shown = shown(store, &keys);
        let listed = keys_of(list(store, &Filter::default())?);
        for key in listed.intersection(&shown).map(Key::as_listed) {
            ensure(store.peek(&key)?.is_some(), || "a listed record cannot be read".to_owned())?;
            store.destroy(&key)?;
        }
        for key in keys {
            ensure(store.peek(&key)?.is_none(), || "a listed record lives on".to_owned())?;
        }
        Ok(())
    })
    .needs(&[LISTING]),
    Case::new("a listing is complete for what stays while others write", |_, store| {
        let stays = shown(store, &store.fill(200, MINUTE)?);
        let filter = Filter { entries_max: 10, ..Filter::default() };
        let (mut listed, mut cursor) = (BTreeSet::new(), None);
        loop {
            let page = store.list(cursor.as_ref(), &filter)?;
            listed.extend(keys_of(page.entries));
            // Between two pages records come, go and grow.
            for (n, key) in store.fill(3, MINUTE)?.iter().enumerate() {
                store.lock(key)?.lease.commit(&vec![b'x'; 3_000 * n], minute())?;
                if n > 0 {
                    store.destroy(key)?;
                }
            }
            let Some(next) = page.next else { break };
            cursor = Some(next);
        }
        equal("records missing", stays.difference(&listed).count(), 0)
    })
    .needs(&[LISTING])
    .alone(),
    Case::timed(
        "a listing shows sizes, versions and times, and nothing expired or destroyed",
        |_, store| {
            store.stored("expires")?;
            store.destroy(&store.stored("x")?)?;
            store.clock.advance(secs(30));
            let key = new_key();
            store.create(&key, &vec![b'x'; 1_234], minute())?;
            store.clock.advance(secs(30));
            let listed = list(store, &Filter::default())?;
            let record = store.record(&key)?;
            let wanted =
                Listed { key: store.listed_key(&key), payload_bytes: 1_234, head: record.head };
            ensure(listed == [wanted.clone()], || format!("listed {listed:?}, wanted {wanted:?}"))
        },
    )
    .needs(&[LISTING])
    .alone(),
    Case::new("a listing filters by bin and size", |_, store| {
        let bin = Bin::new("cache_page")?;
        let keys = [new_key(), new_key(), new_key_in(bin.clone())];
        for (key, size) in keys.iter().zip([100, 2_000, 2_000]) {
            store.create(key, &vec![b'x'; size], minute())?;
        }
        let [small, large, page] = keys.map(|key| store.listed_key(&key));
        let listed = |bin: Option<Bin>, payload_bytes_min| -> CaseResult<BTreeSet<Key>> {
            Ok(keys_of(list(store, &Filter { bin, payload_bytes_min, ..Filter::default() })?))
        };
        equal("one bin", listed(Some(bin), 0)?, BTreeSet::from([page.clone()]))?;
        equal("sessions", listed(Some(Bin::SESSION), 0)?, BTreeSet::from([small, large.clone()]))?;
        equal("at least 2,000 bytes", listed(None, 2_000)?, BTreeSet::from([large, page]))?;
        equal("at least 2,001 bytes", listed(None, 2_001)?, BTreeSet::new())
    })
    .needs(&[LISTING])
    .alone(),
    Case::new("a listing does not wait for a lock and does not show empty locks", |_, store| {
        let keys = store.fill(3, MINUTE)?;
        let mut held = keys.iter().map(|key| store.lock(key)).collect::<Result<Vec<_>, _>>()?;
        held.push(store.lock(&new_key())?);
        equal("the keys", keys_of(list(store, &Filter::default())?), shown(store, &keys))?;
        equal("stat", store.stat()?.sessions, 3)
    })
    .needs(&[LISTING])
    .alone(),
    Case::new("a foreign cursor and a senseless page size are refused", |_, store| {
        for text in ["", "nonsense", "../../etc/passwd", "\u{1f980}"] {
            let page = store.list(Some(&Cursor(text.into())), &Filter::default());
            refused("such a cursor", page, "invalid-argument")?;
        }
        for entries_max in [0, Limits::PAGE_ENTRIES_MAX + 1] {
            let page = store.list(None, &Filter { entries_max, ..Filter::default() });
            refused("such a page", page, "invalid-argument")?;
        }
        Ok(())
    })
    .needs(&[LISTING]),
    Case::timed("stat counts the living, their bytes and the oldest", |_, store| {
        equal("sessions of an empty store", store.stat()?.sessions, 0)?;
        let create = |size| store.create(&new_key(), &vec![b'x'; size], minute());
        create(7)?;
        store.clock.advance(secs(30));
        let oldest = store.clock.now();
        create(100)?;
        store.clock.advance(secs(20));
        create(50)?;
        store.clock.advance(MINUTE - secs(50));
        let stat = store.stat()?;
        equal("sessions and bytes", (stat.sessions, stat.payload_bytes), (2, 150))?;
        equal("the oldest", stat.oldest_written, Some(oldest))?;
        equal("complete", stat.complete, true)
    })
    .needs(&[LISTING])
    .alone(),
    Case::new("without listing, list and stat are Unsupported", |_, store| {
        refused("list", store.list(None, &Filter::default()), "unsupported")?;
        refused("stat", store.stat(), "unsupported").map(drop)
    })
    .needs(&[NO_LISTING]),
];
