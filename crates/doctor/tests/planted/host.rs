//! Faults of this host.

use std::time::Duration;

use sessile_core::Clock;
use sessile_doctor::Examination;

use crate::started::{codes, directory, filled, plant_proc, server};

#[test]
fn a_host_without_proc_is_found() {
    let (root, dir) = (directory(), directory());
    let url = format!("files:{}/files", dir.path().display());
    drop(filled(&url));
    let root = root.path().to_owned();
    assert_eq!(codes(&Examination { root, ..Examination::new(url) }), ["no-proc"]);
}

#[test]
fn a_process_that_may_open_few_files_is_found() {
    let (root, dir) = (directory(), directory());
    let url = format!("files:{}/files", dir.path().display());
    drop(filled(&url));
    let mut examination = Examination::new(url);
    examination.root = root.path().to_owned();
    plant_proc(root.path(), "256");
    assert_eq!(codes(&examination), ["few-open-files"]);
    plant_proc(root.path(), "unlimited");
    assert_eq!(codes(&examination), Vec::<&str>::new());
}

#[test]
fn clocks_that_differ_are_found() {
    for store in ["redis", "memcached", "postgres", "mysql"] {
        let Some(instance) = server(store, &[]) else { continue };
        drop(filled(instance.url()));
        let clock = Clock::ahead_of_system(Duration::from_secs(60));
        let examination = Examination { clock, ..Examination::new(instance.url()) };
        assert_eq!(codes(&examination), ["clocks-apart"], "{store}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_found() {
    for url in ["redis+unix:/nowhere/socket", "memcached+unix:/nowhere/socket"] {
        assert_eq!(codes(&Examination::new(url)), ["unreachable"]);
    }
}
