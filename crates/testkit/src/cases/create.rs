//! Creating is not saving.

use super::*;

pub(crate) const CASES: &[Case] = &[
    Case::new("create refuses an id that is taken and leaves its record alone", |_, store| {
        let key = store.stored("first")?;
        refused("a second create", store.create_text(&key, "second"), "exists")?;
        store.expect_text("the record", &key, "first")
    }),
    Case::new("create refuses an id whose lock is held", |_, store| {
        let key = new_key();
        let begun = store.lock(&key)?;
        refused("create of a leased id", store.create_text(&key, "x"), "exists")?;
        store.expect_commit(begun, &key, "the holder's")
    }),
    Case::new("a destroyed id is free for create", |_, store| {
        let key = store.stored("old")?;
        store.destroy(&key)?;
        store.create_text(&key, "new")?;
        store.expect_text("the record", &key, "new")
    }),
    Case::timed("an expired id is free for create", |_, store| {
        let key = store.stored("old")?;
        store.clock.advance(MINUTE);
        store.create_text(&key, "new")?;
        let record = store.record(&key)?;
        equal("the payload", text_of(&record.payload), "new".into())?;
        equal("created", record.head.created, store.clock.now())?;
        ensure(record.head.version <= 1, || {
            format!("the version went on from the expired record: {}", record.head.version)
        })
    }),
    Case::timed("a record from another store keeps its creation and its ends", |_, store| {
        let born = store.clock.now();
        let first = store.stored("elsewhere")?;
        let mut begun = store.lock(&first)?;
        begun.lease.touch(minute().within(secs(100))?)?;
        drop(begun);
        let old = store.record(&first)?.head;
        store.clock.advance(secs(30));
        let rest = Ttl::rest_of(&old, store.clock.now());
        let rest = rest.ok_or_else(|| Failure("it has expired".to_owned()))?;
        let [created, committed] = [new_key(), new_key()];
        store.create(&created, &payload("moved"), rest)?;
        store.lock(&committed)?.lease.commit(&payload("moved"), rest)?;
        for key in [created, committed] {
            let head = store.record(&key)?.head;
            equal("created", head.created, born)?;
            equal("written", head.written, store.clock.now())?;
            equal("expires", head.expires, old.expires)?;
            equal("its absolute end", head.ends, Some(born.plus(secs(100))))?;
            store.touch(&key, minute().within(secs(90))?)?;
            equal(
                "ends by its creation",
                store.record(&key)?.head.ends,
                Some(born.plus(secs(90))),
            )?;
        }
        Ok(())
    }),
    Case::new("of 8 threads that create one id, one wins", |_, store| {
        for _ in 0..20 {
            let key = new_key();
            let created = on_threads(8, |n| {
                let created = store.create(&key, &[n], minute());
                Ok(unless_refused("a loser", created, "exists")?.map(|()| n))
            })?;
            let winners: Vec<u8> = created.into_iter().flatten().collect();
            equal("winners", winners.len(), 1)?;
            store.expect_bytes("the record is the winner's", &key, &winners)?;
        }
        Ok(())
    }),
    Case::new("of 8 processes that create one id, one wins", |bed, store| {
        let mut workers = bed.workers(8)?;
        for _ in 0..10 {
            let key = new_key();
            for (n, worker) in workers.iter_mut().enumerate() {
                worker.send(&command(&format!("create {n}"), &key))?;
            }
            let replies: Vec<String> =
                workers.iter_mut().filter_map(SuiteWorker::next_line).collect();
            let winner = replies.iter().position(|reply| reply == "ok");
            let losers = replies.iter().filter(|reply| reply.starts_with("err exists")).count();
            equal("losers", losers, 7)?;
            let stored = store.text(&key)?;
            equal("the record is the winner's", stored, winner.map(|n| n.to_string()))?;
        }
        Ok(())
    })
    .needs(&[PROCESSES]),
];
