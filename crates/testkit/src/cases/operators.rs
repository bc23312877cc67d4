//! What an operator asks of a running store: details, verify, sync. Each may be beyond a store, which then says so.

use std::time::Duration;

use sessile_core::DetailValue;

use crate::case::{Case, Isolation, Outcome, locking};
use crate::check::{SECRET, ensure, equal, refused};
use crate::ground::{Ground, PATIENCE, minute, payload, payload_of};

pub(crate) const CASES: &[Case] = &[
    Case::new("details have words for names, and no ids or payloads", details).needs(&[locking]).on(Isolation::Own),
    Case::new("verify finds a healthy store clean and changes nothing, or is Unsupported", verify)
        .needs(&[locking])
        .on(Isolation::Own),
    Case::new("sync succeeds or is Unsupported, and harms no lease", sync).needs(&[locking]).on(Isolation::Durable),
];

fn details(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    store.create(&key, &payload("x"), minute())?;
    let held = store.begin(&key, PATIENCE)?;
    for detail in store.details()? {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        ensure(!detail.name.is_empty() && detail.name.bytes().all(word), || format!("a detail is named {detail:?}"))?;
        let DetailValue::Text(text) = &detail.value else { continue };
        ensure(!text.contains(SECRET), || format!("the detail {} contains an id or a payload", detail.name))?;
        ensure(!text.contains('\n'), || format!("the detail {} has several lines", detail.name))?;
    }
    Ok(held.lease.release()?)
}

fn verify(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let (key, held) = (ground.key(), ground.key());
    let short = sessile_core::Ttl::sliding(Duration::from_millis(1))?;
    store.create(&key, &payload("kept"), minute())?;
    store.create(&ground.key(), &payload("expired"), short)?;
    store.create(&held, b"", minute())?;
    let gone = ground.key();
    store.create(&gone, &payload("destroyed"), minute())?;
    store.destroy(&gone)?;
    let begun = store.begin(&held, PATIENCE)?;
    let (mut told, mut falling) = (0, false);
    let verified = match store.verify(&mut |checked| {
        falling |= checked < told;
        told = checked;
    }) {
        Ok(verified) => verified,
        unsupported => return refused("verify", unsupported, "unsupported").map(drop),
    };
    let leak = verified.problems.iter().any(|problem| problem.contains(SECRET));
    ensure(!leak, || "a problem contains an id or a payload".into())?;
    equal("problems", (verified.problems, verified.unlisted), (Vec::new(), 0))?;
    ensure(verified.checked >= 2, || format!("{} things checked of at least 2", verified.checked))?;
    ensure(!falling && told <= verified.checked, || format!("progress told {told} of {}", verified.checked))?;
    begun.lease.commit(b"after", minute())?;
    equal("the other record", payload_of(&store, &key)?, Some(payload("kept")))?;
    equal("the held record", payload_of(&store, &held)?, Some(b"after".to_vec()))
}

fn sync(ground: &Ground) -> Outcome {
    let store = ground.open()?;
    let key = ground.key();
    let begun = store.begin(&key, PATIENCE)?;
    let synced = store.sync();
    if synced.is_err() {
        refused("sync", synced, "unsupported")?;
    }
    begun.lease.commit(&payload("x"), minute())?;
    equal("the record", payload_of(&store, &key)?, Some(payload("x")))
}
