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
