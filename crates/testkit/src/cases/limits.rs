//! Limits are loud: what does not fit is refused, and what was there stays.

use sessile_core::{Counter, ErrorKind, Key};

use crate::case::{Case, Outcome, locking};
use crate::check::{Failure, SECRET, ensure, equal, refused, soon};
use crate::ground::{FREE_WITHIN, Ground, PATIENCE, begin_free, minute, payload, payload_of};
use crate::{opener, sealed};

pub(crate) const CASES: &[Case] = &[
    Case::new("a payload at the limit is stored, one byte more is refused", payload_limit).needs(&[locking]),
    Case::new("a refused payload leaves the old one and frees the lock", old_stays).needs(&[locking]),
    Case::new("a refused create leaves nothing", create_leaves_nothing),
    Case::new("the longest id works, one byte more is refused", id_limit),
    Case::new("malformed ids never reach the store", malformed_ids),
    Case::new("an unknown option and a malformed number are refused on open", bad_options),
    Case::new("the limits in force lie within what the store declares", declared),
];

const LIMIT: usize = 1_000;

fn payload_limit(ground: &Ground) -> Outcome {
    let store = ground.open_with("payload_bytes_max", "1000")?;
    let key = ground.key();
    store.begin(&key, PATIENCE)?.lease.commit(&sealed::seal(1, LIMIT), minute())?;
    let begun = store.begin(&key, PATIENCE)?;
    let error = refused("1,001 bytes", begun.lease.commit(&sealed::seal(2, LIMIT + 1), minute()), "too-large")?;
    let kind = error.kind().clone();
    equal("what the error says", kind, ErrorKind::TooLarge { size: LIMIT as u64 + 1, limit: LIMIT as u64 })?;
    equal("counted", store.counters().get(Counter::TooLarge), 1)?;
    equal("counted as a failed save", store.counters().get(Counter::FailedSaves), 1)?;
    equal("peek", store.peek(&key)?.and_then(|record| sealed::open(&record.payload)), Some(1))
}

fn old_stays(ground: &Ground) -> Outcome {
    let store = ground.open_with("payload_bytes_max", "1000")?;
    soon("begin after the refusal", FREE_WITHIN, || {
        let key = ground.key();
        store.create(&key, &payload("old"), minute())?;
        let begun = store.begin(&key, PATIENCE)?;
        refused("100,000 bytes", begun.lease.commit(&vec![b'x'; 100_000], minute()), "too-large")?;
        let (begun, elapsed) = begin_free(&store, &key)?;
        equal("the record", begun.record.map(|record| record.payload), Some(payload("old")))?;
        Ok(elapsed)
    })
}

fn create_leaves_nothing(ground: &Ground) -> Outcome {
    let store = ground.open_with("payload_bytes_max", "1000")?;
    let key = ground.key();
    refused("1,001 bytes", store.create(&key, &vec![b'x'; LIMIT + 1], minute()), "too-large")?;
    equal("peek", store.peek(&key)?.is_some(), false)?;
    Ok(store.create(&key, &vec![b'x'; LIMIT], minute())?)
}

fn id_limit(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let most = store.limits().id_bytes_max;
    let unique = ground.key();
    let longest = Key::session(&format!("{:x<most$}", unique.id()))?;
    let twin = Key::session(&format!("{}y", longest.id().get(..most - 1).unwrap_or_default()))?;
    store.create(&longest, &payload("long"), minute())?;
    equal("an id that differs at its end", store.peek(&twin)?.is_some(), false)?;
    equal("the longest id", payload_of(&store, &longest)?, Some(payload("long")))?;
    // At the outer limit of 256 no longer key can be made at all.
    if let Ok(longer) = Key::session(&format!("{}z", longest.id())) {
        refused("create with a longer id", store.create(&longer, b"", minute()), "invalid-id")?;
        refused("peek with a longer id", store.peek(&longer), "invalid-id")?;
    }
    Ok(())
}

fn malformed_ids(_: &Ground) -> Outcome {
    let long = SECRET.repeat(33);
    for id in ["", &long, "HuShHuSh/../x", "HuShHuSh\0", "HuShHuSh x", "HuShHuSh\u{e9}", "HuShHuSh\n", "HuShHuSh%2e"] {
        let key = Key::session(id).map_err(|error| error.during(sessile_core::Operation::Begin, "none", None));
        refused("such a key", key, "invalid-id")?;
    }
    Ok(())
}

fn bad_options(ground: &Ground) -> Outcome {
    let options =
        [("no_such_option", "1"), ("payload_bytes_max", "many"), ("payload_bytes_max", "0"), ("ids", "secret")];
    for (name, value) in options {
        let opened = opener::open(&ground.url_with(name, value), sessile_core::Clock::system());
        refused(&format!("?{name}={value}"), opened, "invalid-url")?;
    }
    Ok(())
}

fn declared(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (limits, declared) = (store.limits(), store.capabilities());
    ensure(limits.payload_bytes_max <= declared.value_bytes_max && limits.payload_bytes_max > 0, || {
        format!("payloads: {} in force, {} declared", limits.payload_bytes_max, declared.value_bytes_max)
    })?;
    ensure((32..=declared.id_bytes_max).contains(&limits.id_bytes_max), || {
        format!("ids: {} in force, {} declared", limits.id_bytes_max, declared.id_bytes_max)
    })?;
    ensure(!declared.durability.is_empty(), || "no durability is declared".into())?;
    ensure(!declared.shared_by_hosts || declared.shared_by_processes, || "shared by hosts but not processes".into())?;
    if store.label().contains('?') { Err(Failure("the label of the store shows options".into())) } else { Ok(()) }
}
