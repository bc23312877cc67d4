//! What is stored comes back as it was stored, and nothing else does.

use std::time::Duration;

use sessile_core::{Bin, Key};

use crate::case::{Case, Outcome, embedded, locking, persistent, processes};
use crate::check::{SECRET, ensure, equal};
use crate::ground::{Ground, PATIENCE, minute, payload, payload_of};
use crate::sealed;
use crate::worker::key_word;

pub(crate) const CASES: &[Case] = &[
    Case::new("a missing session is no error", missing).needs(&[locking]),
    Case::new("a commit on a missing session creates it", commit_creates).needs(&[locking]),
    Case::new("a commit replaces the payload, longer and shorter", commit_replaces).needs(&[locking]),
    Case::new("begin and release on a missing session leave nothing behind", release_leaves_nothing).needs(&[locking]),
    Case::new("version, created and written follow create and commit", versions).needs(&[locking]),
    Case::new("an empty payload is a record", empty_payload).needs(&[locking]),
    Case::new("a payload may contain any bytes", binary_payload).needs(&[locking]),
    Case::new("a payload of 8 MB comes back whole", large_payload).needs(&[locking]),
    Case::new("ids that differ in case are different sessions", case_matters),
    Case::new("every character that an id may contain works", all_characters),
    Case::new("bins do not mix, and other bins take dots and colons", bins),
    Case::new("two openers of one URL see the same", two_openers).needs(&[processes, locking]),
    Case::new("another process sees what was stored", other_process).needs(&[processes]),
    Case::new("records survive the end of every handle", reopened).needs(&[persistent, embedded]),
];

fn missing(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    equal("peek", store.peek(&key)?.is_some(), false)?;
    let begun = store.begin(&key, PATIENCE)?;
    equal("the record under the lock", begun.record.is_some(), false)?;
    Ok(begun.lease.release()?)
}

fn commit_creates(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.begin(&key, PATIENCE)?.lease.commit(&payload("new"), minute())?;
    equal("peek", payload_of(&store, &key)?, Some(payload("new")))?;
    let begun = store.begin(&key, PATIENCE)?;
    equal("begin", begun.record.map(|record| record.payload), Some(payload("new")))
}

fn commit_replaces(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    for size in [100, 5_000, 17, 70_000, 4_096, 1_500] {
        let begun = store.begin(&key, PATIENCE)?;
        begun.lease.commit(&sealed::seal(size as u64, size), minute())?;
        let read = store.peek(&key)?.map(|record| (record.payload.len(), sealed::open(&record.payload)));
        equal("the payload read", read, Some((size, Some(size as u64))))?;
    }
    Ok(())
}

fn release_leaves_nothing(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.begin(&key, PATIENCE)?.lease.release()?;
    drop(store.begin(&key, PATIENCE)?);
    equal("peek", store.peek(&key)?.is_some(), false)?;
    equal("begin", store.begin(&key, PATIENCE)?.record.is_some(), false)?;
    Ok(store.create(&key, b"", minute())?)
}

fn versions(ground: &Ground) -> Outcome {
    let (store, clock) = ground.timed()?;
    let key = ground.key();
    let born = clock.now();
    store.create(&key, &payload("1"), minute())?;
    let first = store.peek(&key)?.ok_or_else(|| crate::Failure("nothing was created".into()))?;
    clock.advance(Duration::from_millis(1_500));
    let begun = store.begin(&key, PATIENCE)?;
    begun.lease.commit(&payload("2"), minute())?;
    let second = store.peek(&key)?.ok_or_else(|| crate::Failure("nothing was committed".into()))?;
    equal("created and written of a new record", (first.created, first.written), (born, born))?;
    equal("created and written after a commit", (second.created, second.written), (born, clock.now()))?;
    let known = (first.version, second.version);
    // A foreign layout (PHP's files) has no place for a version and may only know 0.
    ensure(known == (1, 2) || known == (0, 0), || format!("versions {known:?}, wanted 1 and 2, or 0 and 0"))
}

fn empty_payload(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.begin(&key, PATIENCE)?.lease.commit(b"", minute())?;
    equal("peek", payload_of(&store, &key)?, Some(Vec::new()))?;
    equal("begin", store.begin(&key, PATIENCE)?.record.map(|record| record.payload), Some(Vec::new()))?;
    Ok(store.touch(&key, minute())?)
}

fn binary_payload(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let all: Vec<u8> = (0..=255).collect();
    let tricky: [&[u8]; 5] = [&all, b"\0", b"\0\0after", b"before\0", b"a\r\nb\n\xff\xfe'\"\\;--"];
    for bytes in tricky {
        let key = ground.key();
        store.begin(&key, PATIENCE)?.lease.commit(bytes, minute())?;
        equal("peek", payload_of(&store, &key)?, Some(bytes.to_vec()))?;
    }
    Ok(())
}

fn large_payload(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let size = usize::try_from(store.limits().payload_bytes_max.min(8 << 20)).unwrap_or(8 << 20);
    store.begin(&key, PATIENCE)?.lease.commit(&sealed::seal(7, size), minute())?;
    let read = store.peek(&key)?.map(|record| (record.payload.len(), sealed::open(&record.payload)));
    equal("peek", read, Some((size, Some(7))))?;
    let begun = store.begin(&key, PATIENCE)?;
    equal("begin", begun.record.and_then(|record| sealed::open(&record.payload)), Some(7))?;
    begun.lease.commit(&payload("small again"), minute())?;
    equal("after it", payload_of(&store, &key)?, Some(payload("small again")))
}

fn case_matters(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let lower = Key::session(&key.id().to_ascii_lowercase())?;
    store.create(&key, &payload("as it is"), minute())?;
    equal("the id in lower case", store.peek(&lower)?.is_some(), false)?;
    store.create(&lower, &payload("lower"), minute())?;
    equal("the id as it is", payload_of(&store, &key)?, Some(payload("as it is")))
}

fn all_characters(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let unique = ground.key();
    let characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789,_-";
    // Also where file names, options and patterns have a meaning of their own: at the beginning and the end.
    let ids = [format!("{characters}{}", unique.id()), format!("-{}-", unique.id()), format!("_,{},_", unique.id())];
    for id in &ids {
        let key = Key::session(id)?;
        store.create(&key, id.as_bytes(), minute())?;
        equal("peek", payload_of(&store, &key)?, Some(id.clone().into_bytes()))?;
        store.touch(&key, minute())?;
        store.destroy(&key)?;
        equal("peek after destroy", store.peek(&key)?.is_some(), false)?;
    }
    Ok(())
}

fn bins(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let session = ground.key();
    let other = Key::in_bin(Bin::new("cache_page")?, session.id())?;
    store.create(&session, &payload("session"), minute())?;
    equal("the same id in another bin", store.peek(&other)?.is_some(), false)?;
    store.create(&other, &payload("page"), minute())?;
    store.destroy(&other)?;
    equal("the session", payload_of(&store, &session)?, Some(payload("session")))?;
    for id in ["node:1.html", "..a", "a..", ".:.", ":x:"] {
        let key = Key::in_bin(Bin::new("cache_page")?, &format!("{id}{SECRET}{}", session.id()))?;
        store.create(&key, id.as_bytes(), minute())?;
        equal("peek", payload_of(&store, &key)?, Some(id.as_bytes().to_vec()))?;
    }
    Ok(())
}

fn two_openers(ground: &Ground) -> Outcome {
    let (here, there) = (ground.open()?, ground.open()?);
    let key = ground.key();
    here.begin(&key, PATIENCE)?.lease.commit(&payload("1"), minute())?;
    let begun = there.begin(&key, PATIENCE)?;
    equal("the other opener", begun.record.map(|record| record.payload), Some(payload("1")))?;
    begun.lease.commit(&payload("2"), minute())?;
    equal("the first opener", payload_of(&here, &key)?, Some(payload("2")))
}

fn other_process(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (key, theirs) = (ground.key(), ground.key());
    store.create(&key, b"ours", minute())?;
    let mut worker = ground.worker()?;
    equal("the worker's peek", worker.ask(&format!("peek {}", key_word(&key)))?, "ours".into())?;
    worker.ask(&format!("create theirs {}", key_word(&theirs)))?;
    equal("our peek", payload_of(&store, &theirs)?, Some(b"theirs".to_vec()))
}

fn reopened(ground: &Ground) -> Outcome {
    let key = ground.key();
    ground.open()?.create(&key, &payload("kept"), minute())?;
    equal("after opening anew", payload_of(&ground.open()?, &key)?, Some(payload("kept")))
}
