//! The laboratory of power cuts: histories of several processes over a disk with a write cache,
//! images of what it may have at any moment, their recovery, and a verdict for each tier.
//!
//! DESIGN.md, "Power cuts". `make powercut` runs it at length; SESSILE_POWERCUT_SEED repeats
//! one history.

mod calls;
mod count;
mod cut;
mod faults;
mod history;
mod interval;
mod model;
mod mutations;
mod plan;
mod rebuilds;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use calls::GRACE;
use count::counted;
use cut::Image;
use history::{History, START};
use model::Content;
use plan::Plan;

/// Runs a history, life after life. The error says what is wrong.
fn run(plan: &Plan) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let (mut now, mut last) = (START, None);
    for _ in 0..plan.lives {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let empty = Image::of_nothing();
        let from = last.as_ref();
        let image = from.map_or(&empty, |(image, _)| image);
        image.make_store(folder.path(), plan, &mut random);
        let from = from.map(|(image, sessions): &(Image, Vec<_>)| (image, sessions.clone()));
        let history = History::begin(plan, folder.path(), from, now);
        history.run()?;
        let image = Image::drawn(&history);
        let shown = cut::examine(&history, &image)?;
        now = history.clock.now().plus(GRACE);
        let before = history.sessions.take();
        let sessions = before.into_iter().zip(shown).map(|(before, shown)| match shown {
            // Ids that lead on are spent by then.
            Content::Alias { .. } => before.after_cut(plan.tier, Content::Nothing),
            shown => before.after_cut(plan.tier, shown),
        });
        let sessions = sessions.collect();
        last = Some((image, sessions));
    }
    Ok(())
}

/// A fault of a history, also if the engine panics.
fn fault_of(plan: &Plan) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(plan))) {
        Ok(result) => result.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            Some(format!("a panic: {}", text.unwrap_or_default()))
        }
    }
}

/// The seed that SESSILE_POWERCUT_SEED asks for and all the time, or those from this one on.
fn seeds_or(first: u64, time_max: Duration) -> (Range<u64>, Duration) {
    let asked = std::env::var("SESSILE_POWERCUT_SEED").ok().and_then(|seed| seed.parse().ok());
    asked.map_or((first..u64::MAX, time_max), |seed: u64| (seed..seed + 1, Duration::MAX))
}

/// Histories of these seeds, on two threads, until there are so many images or the time is over.
fn search(seeds: Range<u64>, images: usize, time_max: Duration) {
    let (start, first) = (Instant::now(), seeds.start);
    let next = AtomicU64::new(first);
    let enough = || counted(|count| count.distinct.len()) >= images;
    let faults = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !enough() && start.elapsed() < time_max && faults.lock().unwrap().is_empty() {
                    let seed = next.fetch_add(1, SeqCst);
                    if !seeds.contains(&seed) {
                        break;
                    }
                    let until = start.checked_add(time_max);
                    if let Some(fault) = fault_of(&Plan { until, ..Plan::drawn(seed) }) {
                        faults.lock().unwrap().push((seed, fault));
                    }
                }
            });
        }
    });
    let histories = next.load(SeqCst).min(seeds.end) - first;
    counted(|count| {
        println!(
            "{} distinct images of {histories} histories from seed {first}, in {:.0?}: tiers none \
             {}, interval {}, commit {}; {} within a recovery, {} within its recovery",
            count.distinct.len(),
            start.elapsed(),
            count.tiers[0],
            count.tiers[1],
            count.tiers[2],
            count.depths[1],
            count.depths[2]
        );
    });
    let faults = faults.into_inner().unwrap();
    for (seed, fault) in &faults {
        println!("SESSILE_POWERCUT_SEED={seed}: {:?}\n{fault}", Plan::drawn(*seed));
    }
    assert!(faults.is_empty(), "power cuts break what was promised; seeds and images are above");
}

#[test]
fn no_power_cut_breaks_what_was_promised() {
    // The same everywhere; other ones are tried at length.
    let (seeds, time_max) = seeds_or(1, Duration::from_secs(8));
    let one = time_max == Duration::MAX;
    search(seeds.clone(), 3_000, time_max);
    // Also a slow machine tries so many.
    let enough = || one || counted(|count| count.distinct.len()) >= 50;
    if !enough() {
        search(seeds, 50, Duration::from_secs(120));
    }
    assert!(enough(), "the time is over");
}

#[test]
#[ignore = "minutes: `make powercut`"]
fn fifty_thousand_power_cuts_break_nothing() {
    const IMAGES: usize = 50_000;
    let (seeds, time_max) = seeds_or(fastrand::u64(..1 << 40), Duration::from_secs(3_600));
    let one = time_max == Duration::MAX;
    search(seeds, IMAGES, time_max);
    assert!(one || counted(|count| count.distinct.len()) >= IMAGES, "the time is over");
}
