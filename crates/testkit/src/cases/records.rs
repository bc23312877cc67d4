//! What is stored comes back as it was stored, and nothing else does.

use super::*;

fn expect_sealed(what: &str, store: &TestStore, key: &Key, token: u64, size: usize) -> CaseResult {
    let payload = store.record(key)?.payload;
    equal(what, (payload.len(), token_of(&payload)), (size, Some(token)))
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a missing session is no error", |_, store| {
        let key = new_key();
        store.expect_none("peek", &key)?;
        let begun = store.lock(&key)?;
        begun.expect_none("the record under the lock")?;
        Ok(begun.lease.release()?)
    }),
    Case::new("a commit on a missing session creates it", |_, store| {
        let key = new_key();
        store.save(&key, "new")?;
        store.expect_text("peek", &key, "new")?;
        store.lock(&key)?.expect_text("begin", "new")
    }),
    Case::new("a commit replaces the payload, longer and shorter", |_, store| {
        let key = new_key();
        for size in [100, 5_000, 57, 70_000, 4_096, 1_500] {
            store.lock(&key)?.lease.commit(&seal(size as u64, size), minute())?;
            expect_sealed("the payload read", store, &key, size as u64, size)?;
        }
        Ok(())
    }),
    Case::new("begin and release on a missing session leave nothing behind", |_, store| {
        let key = new_key();
        store.lock(&key)?.lease.release()?;
        drop(store.lock(&key)?);
        store.expect_none("peek", &key)?;
        store.lock(&key)?.expect_none("begin")?;
        Ok(store.create(&key, b"", minute())?)
    }),
    Case::timed("version, created and written follow create and commit", |_, store| {
        let born = store.clock.now();
        let key = store.stored("1")?;
        let first = store.record(&key)?;
        store.clock.advance(ms(1_500));
        store.save(&key, "2")?;
        let second = store.record(&key)?;
        let times = (first.head.created, first.head.written);
        equal("created and written of a new record", times, (born, born))?;
        let times = (second.head.created, second.head.written);
        equal("created and written after a commit", times, (born, store.clock.now()))?;
        let known = (first.head.version, second.head.version);
        // A foreign layout (PHP's files) has no place for a version and may only know 0.
        ensure(known == (1, 2) || known == (0, 0), || {
            format!("versions {known:?}, wanted 1 and 2, or 0 and 0")
        })
    }),
    Case::new("an empty payload is a record", |_, store| {
        let key = new_key();
        store.lock(&key)?.lease.commit(b"", minute())?;
        store.expect_bytes("peek", &key, b"")?;
        let read = store.lock(&key)?.record.map(|record| record.payload);
        equal("begin", read, Some(Vec::new()))?;
        Ok(store.touch(&key, minute())?)
    }),
    Case::new("a payload may contain any bytes", |_, store| {
        let all: Vec<u8> = (0..=255).collect();
        let tricky: [&[u8]; 5] =
            [&all, b"\0", b"\0\0after", b"before\0", b"a\r\nb\n\xff\xfe'\"\\;--"];
        for bytes in tricky {
            let key = new_key();
            store.lock(&key)?.lease.commit(bytes, minute())?;
            store.expect_bytes("peek", &key, bytes)?;
        }
        Ok(())
    }),
    Case::new("a payload of 8 MB comes back whole", |_, store| {
        let key = new_key();
        let size =
            usize::try_from(store.limits().payload_bytes_max.min(8 << 20)).unwrap_or(8 << 20);
        store.lock(&key)?.lease.commit(&seal(7, size), minute())?;
        expect_sealed("peek", store, &key, 7, size)?;
        let begun = store.lock(&key)?;
        let read = begun.record.as_ref().and_then(|record| token_of(&record.payload));
        equal("begin", read, Some(7))?;
        store.expect_commit(begun, &key, "small again")
    }),
    Case::new("ids that differ in case are different sessions", |_, store| {
        let key = new_key();
        let lower = Key::session(&key.id().to_ascii_lowercase())?;
        store.create_text(&key, "as it is")?;
        store.expect_none("the id in lower case", &lower)?;
        store.create_text(&lower, "lower")?;
        store.expect_text("the id as it is", &key, "as it is")
    }),
    Case::new("every character that an id may contain works", |_, store| {
        let unique = new_key();
        let characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789,_-";
        // Also where file names, options and patterns have a meaning of their own: at the beginning
        // and the end.
        let ids = [
            format!("{characters}{}", unique.id()),
            format!("-{}-", unique.id()),
            format!("_,{},_", unique.id()),
        ];
        for id in &ids {
            let key = Key::session(id)?;
            store.create(&key, id.as_bytes(), minute())?;
            store.expect_bytes("peek", &key, id.as_bytes())?;
            store.touch(&key, minute())?;
            store.destroy(&key)?;
            store.expect_none("peek after destroy", &key)?;
        }
        Ok(())
    }),
    Case::new("bins do not mix, and other bins take dots and colons", |_, store| {
        let session = new_key();
        let other = Key::in_bin(Bin::new("cache_page")?, session.id())?;
        store.create_text(&session, "session")?;
        store.expect_none("the same id in another bin", &other)?;
        store.create_text(&other, "page")?;
        store.destroy(&other)?;
        store.expect_text("the session", &session, "session")?;
        for id in ["node:1.html", "..a", "a..", ".:.", ":x:"] {
            let id_of_page = format!("{id}{SECRET}{}", session.id());
            let key = Key::in_bin(Bin::new("cache_page")?, &id_of_page)?;
            store.create(&key, id.as_bytes(), minute())?;
            store.expect_bytes("peek", &key, id.as_bytes())?;
        }
        Ok(())
    }),
    Case::new("two openers of one URL see the same", |bed, _| {
        let (here, there) = (bed.open()?, bed.open()?);
        let key = new_key();
        here.save(&key, "1")?;
        let begun = there.lock(&key)?;
        begun.expect_text("the other opener", "1")?;
        here.expect_commit(begun, &key, "2")
    })
    .needs(&[PROCESSES]),
    Case::new("another process sees what was stored", |bed, store| {
        let (key, theirs) = (store.stored("ours")?, new_key());
        let mut worker = bed.worker()?;
        equal("the worker's peek", worker.ask(&command("peek", &key))?, "ours".into())?;
        worker.ask(&command("create theirs", &theirs))?;
        store.expect_text("our peek", &theirs, "theirs")
    })
    .needs(&[PROCESSES]),
    Case::new("records survive the end of every handle", |bed, _| {
        let key = bed.open()?.stored("kept")?;
        bed.open()?.expect_text("after opening anew", &key, "kept")
    })
    .needs(&[PERSISTENT, EMBEDDED]),
];
