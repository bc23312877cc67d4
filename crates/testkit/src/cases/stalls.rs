//! Servers that are there and do not answer.
//!
//! Each operation ends after its wait and one time-out, on a connection from before and on a new
//! one. All run at the same time, so that a case takes little more than the longest.

use sessile_fixtures::Pace;
use sessile_stores::with_option;

use super::*;

/// The `response_timeout_ms` of the stores under test; the default is 5,000.
const TIMEOUT: Duration = secs(2);
/// The pause between two bytes: no single wait is too long, and the shortest answer, of four bytes,
/// is too late.
const DRIP: Duration = ms(700);
/// Of each begin.
const WAIT: Duration = ms(700);
/// A busy machine needs this much more. Less than [`TIMEOUT`]: two of them are too many.
const DELAY_MAX: Duration = ms(1_500);
const _: () = assert!(DELAY_MAX.as_millis() < TIMEOUT.as_millis());
/// Memcached that has come back is used again within this time.
const BACK_WITHIN: Duration = ms(1_100);
/// How many connections a store has opened before.
const WARM: u8 = 12;

type Done = sessile_core::Result<()>;
/// An operation, and how long it may take besides one time-out.
type Operation<'s> = (&'static str, Duration, Box<dyn FnOnce() -> Done + Send + 's>);

fn unleased<'s>(store: &'s TestStore, held: &'s Key) -> [Operation<'s>; 6] {
    let begin = |key: &Key| store.begin(key, WAIT).map(drop);
    [
        ("begin of a held lock", WAIT, Box::new(move || begin(held))),
        ("begin of a free lock", WAIT, Box::new(move || begin(&new_key()))),
        ("peek", Duration::ZERO, Box::new(|| store.peek(held).map(drop))),
        ("create", Duration::ZERO, Box::new(|| store.create_text(&new_key(), "x"))),
        ("touch", Duration::ZERO, Box::new(|| store.touch(held, minute()))),
        ("destroy", Duration::ZERO, Box::new(|| store.destroy(&new_key()))),
    ]
}

fn leased(store: &TestStore) -> CaseResult<[Operation<'static>; 3]> {
    let [(_, commit), (_, mut touch), (_, mut regenerate)] =
        [store.leased("x")?, store.leased("x")?, store.leased("x")?];
    let regenerate = move || regenerate.lease.regenerate(&new_key(), Duration::ZERO);
    Ok([
        ("commit", Duration::ZERO, Box::new(|| commit.commit_text("y"))),
        // The release is an operation of its own.
        ("touch and release", TIMEOUT, Box::new(move || touch.lease.touch(minute()))),
        ("regenerate and release", TIMEOUT, Box::new(regenerate)),
    ])
}

/// `stall` makes the server of both stores stop to answer, or answer again.
fn every_operation_ends(stores: [&TestStore; 2], stall: impl Fn(bool) -> CaseResult) -> CaseResult {
    let (held, holder) = stores[0].leased("x")?;
    let mut operations = Vec::new();
    for store in stores {
        operations.extend(leased(store)?);
        operations.extend(unleased(store, &held));
    }
    on_threads(WARM, |_| Ok(stores[0].stored("x")?))?;
    let [waiting, ..] = unleased(stores[0], &held);
    let ended: Vec<CaseResult> = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run(waiting));
        std::thread::sleep(ms(100));
        stall(true)?;
        let others = operations.into_iter().map(|other| scope.spawn(|| run(other)));
        let mut running: Vec<_> = others.collect();
        running.push(waiting);
        let ended = running.into_iter().map(|thread| join(thread)?).collect();
        stall(false)?;
        Ok::<_, Failure>(ended)
    })?;
    let failures: Vec<String> = ended.into_iter().filter_map(|end| Some(end.err()?.0)).collect();
    ensure(failures.is_empty(), || failures.join("; "))?;
    // Its leases hold no connection, so that the release is a new request, which may fail at once
    // until then (docs/decisions/0031).
    if stores[0].capabilities().server == Some("memcached") {
        std::thread::sleep(BACK_WITHIN);
    }
    holder.lease.release()?;
    stores[0].stored("back").map(drop).map_err(Failure::from)
}

fn run((name, wait, operation): Operation<'_>) -> CaseResult {
    let start = Instant::now();
    let done = operation();
    let (elapsed, bound) = (start.elapsed(), wait + TIMEOUT + DELAY_MAX);
    ensure(elapsed < bound, || format!("{name} took {elapsed:?}, wanted {bound:?}"))?;
    refused(name, done, "unreachable").map(drop)
}

/// The store of a URL with [`TIMEOUT`]; that of a route is the one behind it.
fn impatient(url: &str) -> String {
    let (name, value) = ("response_timeout_ms", TIMEOUT.as_millis().to_string());
    match url.split_once("&large=") {
        Some((home, large)) => format!("{home}?{name}={value}&large={large}"),
        None => with_option(url, name, &value),
    }
}

pub(crate) const CASES: &[Case] = &[
    Case::new("a stopped server costs each operation its wait and one time-out", |bed, _| {
        let url = impatient(bed.url());
        every_operation_ends([&open(&url)?, &open(&url)?], |stalled| bed.stop_server(stalled))
    })
    .needs(&[SERVED])
    .durable(),
    Case::new("a server that drips costs each operation its wait and one time-out", |bed, _| {
        let (proxy, url) = bed.proxy()?;
        let url = impatient(&url);
        every_operation_ends([&open(&url)?, &open(&url)?], |stalled| {
            proxy.set_pace(if stalled { Pace::Dripping(DRIP) } else { Pace::Full });
            Ok(())
        })
    })
    .needs(&[SERVED]),
];
