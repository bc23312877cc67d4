//! Requests of one session in parallel, in any order, against a model of its values.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use sessile_core::{Clock, Counter, Sessions};
use sessile_handler::{Access, Concurrency, Format, OnConflict, Request, Rules, Save, Saved};
use sessile_stores::Context;

const REQUESTS: usize = 4;
/// Values in each of two arrays.
const VALUES: u32 = 3;

/// By array and name.
type Values = BTreeMap<(u32, u32), u32>;

/// As PHP's serialiser `php` writes it.
fn text(values: &Values) -> String {
    let mut text = String::new();
    for array in 0..2 {
        let inside = || values.iter().filter(|((of, _), _)| *of == array);
        write!(text, "array{array}|a:{}:{{", inside().count()).unwrap();
        for ((_, name), value) in inside() {
            write!(text, "s:2:\"n{name}\";i:{value};").unwrap();
        }
        text.push('}');
    }
    text
}

fn values(text: &str) -> Values {
    let mut values = Values::new();
    for array in 0..2 {
        let Some((_, inside)) = text.split_once(&format!("array{array}|a:")) else { continue };
        let inside = &inside[inside.find('{').unwrap() + 1..inside.find('}').unwrap()];
        let parts: Vec<_> = inside.split(';').collect();
        for pair in parts.chunks_exact(2) {
            let name = pair[0].trim_end_matches('"').rsplit('n').next().unwrap();
            let value = pair[1].trim_start_matches("i:");
            values.insert((array, name.parse().unwrap()), value.parse().unwrap());
        }
    }
    values
}

fn save(text: &str) -> Save<'_> {
    Save { payload: Some(text.as_bytes()), changed: true, empty: false, headers_open: true }
}

/// A visit: its requests open, change and save in any order.
fn run(random: &mut fastrand::Rng, sessions: &Sessions, id: &str) {
    let concurrency =
        Concurrency::Merge { format: Some(Format::Php), on_conflict: OnConflict::LastWins };
    let rules = Rules { lock_wait: Duration::ZERO, concurrency, ..Rules::default() };
    let mut stored = Values::from([((0, 0), 0)]);
    let mut requests: Vec<(Request, Option<(Values, Values)>)> =
        (0..REQUESTS).map(|_| (Request::new(Clock::system(), || 1, rules), None)).collect();
    let mut first = Request::new(Clock::system(), || 1, rules);
    first.open(sessions, id, Access::Locked).unwrap();
    first.loaded();
    let new = text(&stored);
    first.save(sessions, id, save(&new)).unwrap();
    let (mut made, mut conflicts) = (0, sessions.count(Counter::MergeConflicts));
    for step in 0..60 {
        let (request, opened) = &mut requests[random.usize(..REQUESTS)];
        let Some((read, now)) = opened else {
            let seen = request.open(sessions, id, Access::Locked).unwrap();
            let seen = values(str::from_utf8(seen.payload).unwrap());
            assert_eq!(seen, stored, "step {step}");
            request.loaded();
            *opened = Some((seen.clone(), seen));
            continue;
        };
        if random.bool() {
            let name = (random.u32(..2), random.u32(..VALUES));
            made += 1;
            match random.u8(..4) {
                0 => drop(now.remove(&name)),
                _ => drop(now.insert(name, made)),
            }
            continue;
        }
        let payload = text(now);
        let saved = request.save(sessions, id, save(&payload)).unwrap();
        assert!(now == read || matches!(saved, Saved::Stored), "step {step}: {saved:?}");
        for name in (0..2).flat_map(|array| (0..VALUES).map(move |name| (array, name))) {
            let (read, now, before) = (read.get(&name), now.get(&name), stored.get(&name).copied());
            if now == read {
                continue;
            }
            let by_another = before.as_ref() != read;
            conflicts += u64::from(by_another && (now.is_some() || before.is_some()));
            match now {
                Some(now) => drop(stored.insert(name, *now)),
                None if by_another => {}
                None => drop(stored.remove(&name)),
            }
        }
        assert_eq!(sessions.count(Counter::MergeConflicts), conflicts, "step {step}");
        request.close(sessions, true);
        *opened = None;
    }
}

#[test]
fn every_change_that_one_request_alone_has_made_stays() {
    let sessions = sessile_stores::open("memory:", &Context::default()).unwrap();
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..500 {
        run(&mut random, &sessions, &format!("visit-{number}"));
    }
}
