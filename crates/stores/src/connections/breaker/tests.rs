//! The breaker with planted answers and failures, without a server.

use std::net::{Ipv4Addr, TcpListener};

use super::*;

const PATIENCE: Duration = Duration::from_secs(1);

fn place(number: u16) -> Place {
    Place::Tcp((Ipv4Addr::new(192, 0, 2, 1), number).into())
}

/// The time that the connect had if it was a probe, zero if not.
fn fail(place: &Place, kind: io::ErrorKind) -> Option<Duration> {
    let mut watch = enter(place.clone(), PATIENCE).ok()?;
    let probe = watch.probe_ends.map(|end| end - watch.start);
    watch.failed(kind.into(), false);
    Some(probe.unwrap_or_default())
}

fn refuse(place: &Place) -> Option<Duration> {
    fail(place, io::ErrorKind::HostUnreachable)
}

fn enter(place: Place, patience: Duration) -> io::Result<Watch> {
    Watch::admit(place, patience, Instant::now() + PATIENCE)
}

fn break_down(place: &Place) {
    let long_ago = Instant::now().checked_sub(FIRST_FAILURES_FOR).unwrap();
    failed(place, long_ago, long_ago, io::ErrorKind::TimedOut, FAILURES_MIN);
}

#[test]
fn the_first_failures_keep_nobody_out_and_later_ones_all_but_probes() {
    let place = place(1);
    let start = Instant::now();
    while refuse(&place) == Some(Duration::ZERO) {
        assert!(start.elapsed() < FIRST_FAILURES_FOR * 10);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() >= FIRST_FAILURES_FOR);
    let (mut probes, mut kept_out, begun) = (0, 0, Instant::now());
    while begun.elapsed() < Duration::from_millis(1_500) {
        match refuse(&place) {
            Some(time) => {
                assert!(time > Duration::ZERO, "a probe has an end");
                probes += 1;
            }
            None => kept_out += 1,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!((2..12).contains(&probes) && kept_out > 10 * probes, "{probes} {kept_out}");
    let error = enter(place.clone(), PATIENCE).err().unwrap();
    assert!(error.to_string().contains("no answer for"), "{error}");
    assert!(outage().unwrap() >= FIRST_FAILURES_FOR);
    answered(&place, Duration::ZERO);
    assert!(matches!(admit(&place, Instant::now(), PATIENCE), Admission::Free));
}

/// A commit failed although its server had been restarted: it came during a pause.
#[test]
fn a_host_that_refuses_connections_is_tried_by_each_request() {
    let place = place(9);
    break_down(&place);
    assert_eq!(fail(&place, io::ErrorKind::ConnectionRefused), Some(PROBE_FOR));
    for _ in 0..100 {
        assert_eq!(fail(&place, io::ErrorKind::ConnectionRefused), Some(SUSPECT_FOR));
    }
    let mut watch = enter(place.clone(), PATIENCE).unwrap();
    let told = watch.failed(io::ErrorKind::ConnectionRefused.into(), false);
    assert!(told.to_string().contains("no answer for"), "{told}");
    assert!(outage().unwrap() >= FIRST_FAILURES_FOR);
    enter(place.clone(), PATIENCE).unwrap().heard();
    assert!(enter(place, PATIENCE).unwrap().probe_ends.is_none());
}

#[test]
fn one_failure_is_an_accident_however_long_ago() {
    let place = place(2);
    let long_ago = Instant::now().checked_sub(FIRST_FAILURES_FOR * 2).unwrap();
    failed(&place, long_ago, long_ago, io::ErrorKind::TimedOut, 1);
    assert!(enter(place, PATIENCE).unwrap().probe_ends.is_none());
}

#[test]
fn a_time_out_of_an_operation_that_had_no_time_left_is_no_failure() {
    let place = place(3);
    for connected in [true, false] {
        let mut watch = enter(place.clone(), PATIENCE).unwrap();
        watch.failed(io::ErrorKind::TimedOut.into(), connected);
    }
    assert!(SERVERS.with(|servers| servers.iter().all(|s| s.place != place)).unwrap());
}

#[test]
fn others_wait_for_the_probe_under_way_and_are_served_when_it_succeeds() {
    let place = place(4);
    break_down(&place);
    let probe = enter(place.clone(), PATIENCE).unwrap();
    assert!(probe.probe_ends.is_some());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| enter(place.clone(), PATIENCE).is_ok());
        std::thread::sleep(Duration::from_millis(5));
        probe.heard();
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_probe_that_vanished_or_failed_makes_room_for_the_next() {
    let place = place(5);
    break_down(&place);
    std::mem::forget(enter(place.clone(), PATIENCE).unwrap());
    let start = Instant::now();
    while enter(place.clone(), PATIENCE).is_err() {
        assert!(start.elapsed() < PROBE_FOR * 50);
    }
    // The one above was dropped without a byte.
    assert!(enter(place, PATIENCE).is_err());
}

#[test]
fn a_server_far_away_gets_a_longer_probe_and_each_two_seconds_a_patient_one() {
    let place = place(6);
    answered(&place, Duration::from_millis(60));
    break_down(&place);
    let probe = |later: Duration| match admit(&place, Instant::now() + later, PATIENCE) {
        Admission::Probe(time) => {
            failed(&place, Instant::now(), Instant::now(), io::ErrorKind::TimedOut, 1);
            time
        }
        _ => panic!("kept out"),
    };
    let long = Duration::from_millis(480);
    // The last patient one was the failure that broke it down.
    assert_eq!(probe(Duration::ZERO), long);
    assert_eq!(probe(PATIENT_EACH), PATIENCE);
    assert_eq!(probe(PATIENT_EACH + PAUSE_MAX), long);
    assert_eq!(probe(PATIENT_EACH * 3), PATIENCE);
}

/// Where `localhost` is `127.0.0.1` and `::1`, the first restart of a server made the second
/// one an outage for ever.
#[test]
fn a_name_is_out_of_order_for_as_long_as_all_of_its_addresses() {
    let [short, long] = [1, 900].map(|s| Some(Duration::from_secs(s)));
    for (outages, of_all) in [
        (vec![], None),
        (vec![short, None], None),
        (vec![None, long], None),
        (vec![long, short], short),
    ] {
        set_outage_of_all(outages);
        assert_eq!(outage(), of_all);
    }
}

/// The state of an address that is never used again, as that of `::1` where the server has only
/// 127.0.0.1, made each later restart one without a second try.
#[test]
fn an_outage_that_nobody_has_seen_for_long_is_forgotten() {
    let place = place(10);
    for (kind, after) in [
        (io::ErrorKind::ConnectionRefused, FORGET_REFUSED),
        (io::ErrorKind::TimedOut, FORGET_SILENT),
    ] {
        break_down(&place);
        let now = Instant::now();
        failed(&place, now, now, kind, 1);
        assert!(matches!(admit(&place, now + after / 2, PATIENCE), Admission::Probe(_)));
        let late = now + after + Duration::from_secs(1) + PATIENCE;
        assert!(matches!(admit(&place, late, PATIENCE), Admission::Free));
    }
}

#[test]
fn a_probe_that_had_no_time_left_makes_room_and_is_no_failure() {
    let place = place(11);
    break_down(&place);
    let mut probe = enter(place.clone(), PATIENCE).unwrap();
    probe.failed(io::ErrorKind::TimedOut.into(), true);
    assert!(outage().is_none());
    drop(probe);
    let next = SERVERS.with(|all| all.iter().find(|one| one.place == place)?.outage);
    assert_eq!(next.flatten().map(|outage| outage.failures), Some(FAILURES_MIN));
    assert!(matches!(
        admit(&place, Instant::now(), PATIENCE),
        Admission::Probe(_) | Admission::KeptOut(_)
    ));
}

/// One slow statement and one slow first byte once broke a server down.
#[test]
fn after_a_stall_new_connections_show_soon_whether_the_server_lives() {
    let place = place(8);
    let stall = || stalled(&place, Instant::now().checked_sub(PATIENCE).unwrap());
    stall();
    let watch = enter(place.clone(), PATIENCE).unwrap();
    assert_eq!(watch.probe_ends, Some(watch.start + SUSPECT_FOR));
    watch.heard();
    assert!(enter(place.clone(), PATIENCE).unwrap().probe_ends.is_none());
    stall();
    let start = Instant::now();
    while let Ok(watch) = enter(place.clone(), PATIENCE) {
        let probe = watch.probe_ends.map(|end| end - watch.start);
        drop(watch);
        if start.elapsed() < FIRST_FAILURES_FOR / 2 {
            assert_eq!(probe, Some(SUSPECT_FOR));
            assert!(outage().is_none(), "the request may try again");
        } else if outage().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(outage().unwrap() >= FIRST_FAILURES_FOR);
}

#[test]
fn addresses_of_one_name_do_not_share_an_outage() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let alive = Place::Tcp(listener.local_addr().unwrap());
    let dead = place(7);
    break_down(&dead);
    assert!(enter(alive, PATIENCE).unwrap().probe_ends.is_none());
}
