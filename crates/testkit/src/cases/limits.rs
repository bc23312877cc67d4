//! Limits are loud: what does not fit is refused, and what was there stays.

use super::*;

const LIMIT: usize = 1_000;

fn open_limited(bed: &Testbed) -> CaseResult<TestStore> {
    Ok(bed.open_with("payload_bytes_max", "1000")?)
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a payload at the limit is stored, one byte more is refused", |bed, _| {
        let store = open_limited(bed)?;
        let key = new_key();
        store.lock(&key)?.lease.commit(&seal(1, LIMIT), minute())?;
        let late = store.lock(&key)?.lease.commit(&seal(2, LIMIT + 1), minute());
        let error = refused("1,001 bytes", late, "too-large")?;
        let wanted = ErrorKind::TooLarge { size: LIMIT as u64 + 1, limit: LIMIT as u64 };
        equal("what the error says", error.kind(), &wanted)?;
        equal("counted", store.count(Counter::TooLarge), 1)?;
        equal("counted as a failed save", store.count(Counter::FailedSaves), 1)?;
        equal("peek", token_of(&store.record(&key)?.payload), Some(1))
    }),
    Case::new("a refused payload leaves the old one and frees the lock", |bed, _| {
        let store = open_limited(bed)?;
        soon("begin after the refusal", FREE_WITHIN, || {
            let (key, begun) = store.leased("old")?;
            let late = begun.lease.commit(&vec![b'x'; 100_000], minute());
            refused("100,000 bytes", late, "too-large")?;
            let (begun, elapsed) = store.lock_free(&key)?;
            begun.expect_text("the record", "old")?;
            Ok(elapsed)
        })
    }),
    Case::new("a refused create leaves nothing", |bed, _| {
        let store = open_limited(bed)?;
        let key = new_key();
        let create = |size| store.create(&key, &vec![b'x'; size], minute());
        refused("1,001 bytes", create(LIMIT + 1), "too-large")?;
        store.expect_none("peek", &key)?;
        Ok(create(LIMIT)?)
    }),
    Case::new("the longest id works, one byte more is refused", |_, store| {
        let most = store.limits().id_bytes_max;
        let unique = new_key();
        let longest = Key::session(&format!("{:x<most$}", unique.id()))?;
        let twin = Key::session(&format!("{}y", longest.id().get(..most - 1).unwrap_or_default()))?;
        store.create_text(&longest, "long")?;
        store.expect_none("an id that differs at its end", &twin)?;
        store.expect_text("the longest id", &longest, "long")?;
        // At the outer limit of 256 no longer key can be made at all.
        if let Ok(longer) = Key::session(&format!("{}z", longest.id())) {
            refused("create with a longer id", store.create_text(&longer, ""), "invalid-id")?;
            refused("peek with a longer id", store.peek(&longer), "invalid-id")?;
        }
        Ok(())
    }),
    Case::new("malformed ids never reach the store", |_, _| {
        refused_early("an empty id", Key::session(""), "invalid-id")?;
        refused_early("a long id", Key::session(&SECRET.repeat(33)), "invalid-id")?;
        for end in ["/../x", "\0", " x", "\u{e9}", "\n", "%2e"] {
            refused_early("such an id", Key::session(&format!("{SECRET}{end}")), "invalid-id")?;
        }
        Ok(())
    }),
    Case::new("an unknown option and a malformed number are refused on open", |bed, _| {
        let options = [
            ("no_such_option", "1"),
            ("payload_bytes_max", "many"),
            ("payload_bytes_max", "0"),
            ("ids", "secret"),
        ];
        for (name, value) in options {
            refused(&format!("?{name}={value}"), bed.open_with(name, value), "invalid-url")?;
        }
        Ok(())
    }),
    Case::new("the limits in force lie within what the store declares", |_, store| {
        let (limits, declared) = (store.limits(), store.capabilities());
        let within = |what: &str, least: u64, in_force: u64, most: u64| {
            ensure((least..=most).contains(&in_force), || {
                format!("{what}: {in_force} in force, {most} declared")
            })
        };
        within("payloads", 1, limits.payload_bytes_max, declared.value_bytes_max)?;
        within("ids", 32, limits.id_bytes_max as u64, declared.id_bytes_max as u64)?;
        ensure(!declared.durability.is_empty(), || "no durability is declared".into())?;
        ensure(!declared.shared_by_hosts || declared.shared_by_processes, || {
            "shared by hosts but not processes".into()
        })?;
        ensure(!store.label().contains('?'), || "the label of the store shows options".into())
    }),
];
