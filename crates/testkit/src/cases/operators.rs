//! What an operator asks of a running store: details, verify, sync. Each may be beyond a store,
//! which then says so.

use sessile_core::Detail;

use super::*;

pub(crate) const CASES: &[Case] = &[
    Case::new("details have words for names, and no ids or payloads", |_, store| {
        let (_, held) = store.leased("x")?;
        for (name, detail) in store.details()? {
            let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            ensure(!name.is_empty() && name.bytes().all(word), || {
                format!("a detail is named {name:?}: {detail:?}")
            })?;
            let Detail::Text(text) = &detail else { continue };
            ensure(!text.contains(SECRET), || {
                format!("the detail {name} contains an id or a payload")
            })?;
            ensure(!text.contains('\n'), || format!("the detail {name} has several lines"))?;
        }
        Ok(held.lease.release()?)
    })
    .alone(),
    Case::new(
        "verify finds a healthy store clean and changes nothing, or is Unsupported",
        |_, store| {
            let key = store.stored("kept")?;
            store.fill(1, ms(1))?;
            store.destroy(&store.stored("destroyed")?)?;
            let (held, begun) = store.leased("before")?;
            let (mut told, mut falling) = (0, false);
            let verified = store.verify(&mut |checked| {
                falling |= checked < told;
                told = checked;
            });
            let Some(verified) = unless_refused("verify", verified, "unsupported")? else {
                return Ok(());
            };
            let leak = verified.problems.iter().any(|problem| problem.contains(SECRET));
            ensure(!leak, || "a problem contains an id or a payload".into())?;
            equal("problems", (verified.problems, verified.unlisted), (Vec::new(), 0))?;
            let checked = verified.checked;
            ensure(checked >= 2, || format!("{checked} things checked of at least 2"))?;
            ensure(!falling && told <= checked, || format!("progress told {told} of {checked}"))?;
            begun.commit_text("after")?;
            store.expect_text("the other record", &key, "kept")?;
            store.expect_text("the held record", &held, "after")
        },
    )
    .alone(),
    Case::new("sync succeeds or is Unsupported, and harms no lease", |_, store| {
        let key = new_key();
        let begun = store.lock(&key)?;
        unless_refused("sync", store.sync(), "unsupported")?;
        store.expect_commit(begun, &key, "x")
    })
    .durable(),
];
