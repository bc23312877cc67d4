//! The same tables in a SQLite file, which nobody changes and beside which nothing is left.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use crate::setup::{refused, walked};
use crate::tables::{Kind, check_all, statements};

fn filled(path: &Path, journal: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA journal_mode = {journal}; BEGIN")).unwrap();
    connection.execute_batch(&statements(Kind::Sqlite).join(";")).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    connection
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_file_is_seen_and_left_as_it_was_with_and_without_a_log() {
    for journal in ["DELETE", "WAL"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a shop?#%.db");
        drop(filled(&path, journal));
        let before = contents(dir.path());
        assert_eq!(before.len(), 1, "{journal}");
        let place = path.display().to_string().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        check_all(&|program, options| format!("{program}+sqlite:{place}?{options}"));
        assert!(contents(dir.path()) == before, "{journal}");
    }
}

#[test]
fn what_a_running_program_has_in_its_log_is_seen_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "WAL");
    connection.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    let url = format!("drupal+sqlite:{}?table=cache", path.display());
    assert_eq!(walked(&url, 10).0.len(), 2);
    connection.execute("INSERT INTO cache VALUES ('late', 'x', 0, 0, 0)", ()).unwrap();
    assert_eq!(walked(&url, 10).0.len(), 3);
    let before = contents(dir.path());
    // A writer in the middle of a transaction is not waited for, and is not in its way.
    connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO cache VALUES ('later', 'x', 0, 0, 0)").unwrap();
    assert_eq!(walked(&url, 1).0.len(), 3);
    connection.execute_batch("ROLLBACK").unwrap();
    assert!(contents(dir.path())["shop.db"] == before["shop.db"]);
}

#[test]
fn what_is_no_database_is_refused_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.db");
    assert!(refused(&format!("django+sqlite:{}", missing.display())).starts_with("io"));
    assert!(!missing.exists());
    let text = dir.path().join("text");
    std::fs::write(&text, "not a database at all, but long enough to have a header of a hundred bytes. ".repeat(20))
        .unwrap();
    let why = refused(&format!("django+sqlite:{}", text.display()));
    assert!(why.starts_with("corrupt"), "{why}");
}
