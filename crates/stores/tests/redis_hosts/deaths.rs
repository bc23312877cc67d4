//! A process that is killed while it gives sessions new ids in other slots.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sessile_core::{ErrorKind, Sessions};

use crate::setup::{cluster, key, open, payload_of, ttl, until};

const ROLE: &str = "SESSILE_TEST_REGENERATES";
const KILLS_MAX: usize = 48;
/// Children that work side by side.
const CHILDREN: usize = 4;

fn child(url: &str, session: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "deaths::role_of_a_child", "--nocapture"]);
    command.env(ROLE, format!("{session} {url}")).stdout(Stdio::piped()).spawn().unwrap()
}

fn id(session: usize, number: usize) -> String {
    format!("s{session}n{number}")
}

/// Not a test: what a child does. Without a role it does nothing.
#[test]
fn role_of_a_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (session, url) = role.split_once(' ').unwrap();
    let (store, session) = (open(url), session.parse().unwrap());
    for number in 0.. {
        let mut begun = store.begin(&key(&id(session, number)), Duration::from_secs(1)).unwrap();
        let next = key(&id(session, number + 1));
        begun.lease.regenerate(&next, Duration::from_secs(600)).unwrap();
        begun.lease.commit(b"cart", ttl()).unwrap();
        println!("\nhas {}", number + 1);
    }
}

/// The id that a killed child was told last.
fn last_told(child: &mut Child) -> usize {
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    // The last line may be torn.
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut told = whole.lines().rev().filter_map(|line| line.strip_prefix("has ")?.parse().ok());
    told.next().unwrap_or(0)
}

#[test]
fn a_death_between_the_steps_of_a_regeneration_loses_no_session() {
    kill(1);
}

#[test]
#[ignore = "takes a minute: make failovers"]
fn a_death_at_any_step_of_a_regeneration_loses_no_session() {
    kill(KILLS_MAX);
}

/// Kills until so many processes have died between the copy and the change, at most `KILLS_MAX`.
///
/// The id that the visitor has is the one of the last answer, or the one before. Both must lead to
/// the session, whatever moment the process died at.
fn kill(half_done_enough: usize) {
    let Some(cluster) = cluster() else { return };
    let url = format!("{}?lock_ttl_ms=300", cluster.url());
    let store = open(&url);
    let (mut kills, mut half_done) = (0, 0);
    while kills < KILLS_MAX && half_done < half_done_enough {
        let start = |session| {
            store.create(&key(&id(session, 0)), b"cart", ttl()).unwrap();
            (session, child(&url, session))
        };
        let children: Vec<(usize, Child)> = (kills..kills + CHILDREN).map(start).collect();
        // A first id of each, and then a random moment.
        for (session, _) in &children {
            let first = key(&id(*session, 1));
            // A chain of many ids is refused, and shows that it works, too.
            until("it works", || !matches!(store.peek(&first), Ok(None)));
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(..30_000)));
        for (session, mut child) in children {
            child.kill().unwrap();
            let told = last_told(&mut child);
            child.wait().unwrap();
            kills += 1;
            half_done += usize::from(check(&store, session, told));
        }
    }
    println!("{kills} kills, {half_done} between the copy and the change");
    assert!(half_done > 0, "no process died between the copy and the change");
}

/// Whether a copy had arrived to which nothing leads yet. `told` is the id of the last answer.
fn check(store: &Sessions, session: usize, told: usize) -> bool {
    let (older, newer) = (id(session, told), id(session, told + 1));
    let found = payload_of(store, &older).expect("the session is lost");
    assert_eq!(found, b"cart");
    let has_arrived = payload_of(store, &newer).is_some();
    // A second regeneration of the older id loses nothing either.
    let fresh = key(&format!("fresh{session}"));
    let mut begun = store.begin(&key(&older), Duration::from_secs(20)).unwrap();
    let leads_on = begun.moved;
    assert_eq!(begun.record.as_ref().expect("locked, and gone").payload, b"cart");
    begun.lease.regenerate(&fresh, Duration::from_secs(600)).unwrap();
    begun.lease.commit(b"cart 2", ttl()).unwrap();
    assert_eq!(payload_of(store, fresh.id()).unwrap(), b"cart 2");
    assert_eq!(payload_of(store, &older).unwrap(), b"cart 2");
    let taken = store.create(&fresh, b"x", ttl()).unwrap_err();
    assert_eq!(taken.kind(), &ErrorKind::Exists);
    has_arrived && !leads_on
}
