//! Faults of a memcached server.

use sessile_core::{Durability, Key, Ttl};
use sessile_doctor::Examination;
use sessile_stores::ask_server::ask;
use sessile_stores::with_option;

use crate::started::{codes, filled, server};

#[test]
fn a_memcached_whose_items_are_smaller_than_sessions_is_found() {
    let Some(instance) = server("memcached", &[]) else { return };
    let url = with_option(instance.url(), "payload_bytes_max", "2000000");
    assert_eq!(codes(&Examination::new(url)), ["item-size-small"]);
}

#[test]
fn a_memcached_that_drops_sessions_is_found() {
    let Some(instance) = server("memcached", &["-m", "2", "-I", "512k"]) else { return };
    let store = filled(instance.url());
    let hour = Ttl::sliding(std::time::Duration::from_secs(3_600)).unwrap();
    // The server evicts when the pages of the size class are used up: after how many it decides.
    for number in 0..2_000 {
        let key = Key::session(&format!("secret-large{number}")).unwrap();
        let _ = store.create(&key, &[b'x'; 200_000], hour);
        let facts = ask(instance.url()).unwrap();
        if facts[0].number("evictions").unwrap() > 0 {
            break;
        }
    }
    assert_eq!(codes(&Examination::new(instance.url())), ["memcached-evicts"]);
}

#[test]
fn a_memcached_without_cas_is_found() {
    let Some(instance) = server("memcached", &["-C"]) else { return };
    assert_eq!(codes(&Examination::new(instance.url())), ["without-cas"]);
}

#[test]
fn a_memcached_for_sessions_that_must_stay_is_found() {
    let Some(instance) = server("memcached", &[]) else { return };
    let keep = Some(Durability::Second);
    let examination = Examination { keep, ..Examination::new(instance.url()) };
    assert_eq!(codes(&examination), ["weaker-tier"]);
}
