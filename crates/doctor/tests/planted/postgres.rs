//! Faults of a PostgreSQL server.

use std::path::Path;
use std::process::Command;

use sessile_core::Durability;
use sessile_doctor::Examination;

use crate::started::{codes, filled, server};

fn found(settings: &[&str], keep: Option<Durability>) -> Option<Vec<&'static str>> {
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
    let instance = server("postgres", &arguments)?;
    drop(filled(instance.url()));
    Some(codes(&Examination { keep, ..Examination::new(instance.url()) }))
}

#[test]
fn a_postgres_that_does_not_sync_is_found() {
    let Some(found) = found(&["fsync=off"], None) else { return };
    assert_eq!(found, ["fsync-off"]);
}

#[test]
fn a_postgres_that_writes_no_full_pages_is_found() {
    let Some(found) = found(&["full_page_writes=off"], None) else { return };
    assert_eq!(found, ["full-page-writes-off"]);
}

#[test]
fn a_postgres_that_never_cleans_up_is_found() {
    let Some(found) = found(&["autovacuum=off"], None) else { return };
    assert_eq!(found, ["autovacuum-off"]);
}

#[test]
fn a_postgres_that_acknowledges_early_is_found() {
    let Some(found) = found(&["synchronous_commit=off"], Some(Durability::Commit)) else { return };
    assert_eq!(found, ["weaker-tier"]);
}

#[test]
fn a_postgres_that_ends_idle_connections_is_found() {
    let Some(found) = found(&["idle_session_timeout=60000"], None) else { return };
    assert_eq!(found, ["server-timeout"]);
}

/// A limit of statements ends no lease, for between its statements there is none.
#[test]
fn a_postgres_that_ends_waits_is_found_and_a_usual_limit_is_sound() {
    let Some(found_short) = found(&["statement_timeout=2000"], None) else { return };
    assert_eq!(found_short, ["server-timeout"]);
    assert_eq!(found(&["statement_timeout=60000"], None).unwrap(), Vec::<&str>::new());
}

#[test]
fn a_table_without_its_index_is_found() {
    let Some(mut instance) = server("postgres", &["-c", "max_connections=20"]) else { return };
    drop(filled(instance.url()));
    let url = instance.url().to_owned();
    let many = Examination { workers: Some(200), ..Examination::new(url.clone()) };
    assert_eq!(codes(&many), ["few-connections"]);
    let home = instance.server().unwrap().socket().parent().unwrap().to_owned();
    run(&home, "DROP INDEX sessile_due");
    assert_eq!(codes(&Examination::new(url)), ["index-missing"]);
}

fn run(home: &Path, sql: &str) {
    let output = Command::new("psql")
        .args(["--no-psqlrc", "--username=postgres", "--dbname=postgres", "-c", sql, "-h"])
        .arg(home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
