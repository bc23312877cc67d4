//! The same tables in a SQLite file, which nobody changes and beside which nothing is left.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use sessile_core::Timestamp;

use crate::setup::{refused, walked};
use crate::tables::{Kind, MOMENT, ROWS, check_all, statements};

fn filled(path: &Path, journal: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA journal_mode = {journal}; BEGIN")).unwrap();
    connection.execute_batch(&statements(Kind::Sqlite).join(";")).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    connection
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_file_is_seen_and_left_as_it_was_with_and_without_a_log() {
    for journal in ["DELETE", "WAL"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a shop?#%.db");
        drop(filled(&path, journal));
        let before = contents(dir.path());
        assert_eq!(before.len(), 1, "{journal}");
        let place =
            path.display().to_string().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
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
    connection
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO cache VALUES ('later', 'x', 0, 0, 0)")
        .unwrap();
    assert_eq!(walked(&url, 1).0.len(), 3);
    connection.execute_batch("ROLLBACK").unwrap();
    assert!(contents(dir.path())["shop.db"] == before["shop.db"]);
    // The log is beside the file, not beside a link to it.
    std::os::unix::fs::symlink("shop.db", dir.path().join("link.db")).unwrap();
    assert_eq!(walked(&url.replace("shop.db", "link.db"), 10).0.len(), 3);
}

/// What a crash or a copy leaves: a log with content, and no index. SQLite reads that by making the
/// index, even where it may only read.
#[test]
fn a_log_without_an_index_is_refused_and_none_is_made() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "WAL");
    connection
        .execute_batch(
            "PRAGMA wal_autocheckpoint = 0; INSERT INTO cache VALUES ('late', 'x', 0, 0, 0)",
        )
        .unwrap();
    for name in ["shop.db", "shop.db-wal"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let before = contents(copy.path());
    assert!(!before["shop.db-wal"].is_empty());
    let why = refused(&format!("drupal+sqlite:{}/shop.db", copy.path().display()));
    assert!(why.starts_with("incompatible") && why.contains("its own program"), "{why}");
    assert!(contents(copy.path()) == before);
}

/// A table for a full-text search needs a module that only its program has; all other tables were
/// unreadable for that.
#[test]
fn a_virtual_table_of_an_unknown_module_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "DELETE");
    let search = "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema (type, name, tbl_name, \
                  rootpage, sql) VALUES
        ('table', 'search', 'search', 0, 'CREATE VIRTUAL TABLE search USING nobody_has_this(cid)')";
    connection.execute_batch(search).unwrap();
    drop(connection);
    assert_eq!(walked(&format!("drupal+sqlite:{}?table=cache", path.display()), 10).0.len(), 2);
}

/// The keys of a table were shown when its name looked like that of a cache: sessions lay open
/// under a prefix that ends in one, and in a table that an administrator had called so.
#[test]
fn ids_stay_secret_in_a_table_that_is_called_like_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "DELETE");
    let names = [
        ("sessions", "shop_cache_sessions"),
        ("cache", "shop_cache_cache"),
        ("cache_form", "shop_cache_cache_form"),
        ("sf_sessions", "session_cache"),
        ("django_session", "cache_sessions"),
    ];
    for (old, new) in names {
        connection.execute_batch(&format!("ALTER TABLE {old} RENAME TO {new}")).unwrap();
    }
    drop(connection);
    let place = path.display();
    let drupal = walked(&format!("drupal+sqlite:{place}?prefix=shop_cache_"), 10).0;
    let shown = |bin: &str| -> Vec<bool> {
        drupal
            .iter()
            .filter(|seen| &*seen.bin == bin)
            .map(|seen| seen.name.shown().is_some())
            .collect()
    };
    assert_eq!(shown("shop_cache_sessions"), [false; 23]);
    assert_eq!(shown("shop_cache_cache"), [true; 2]);
    assert_eq!(shown("shop_cache_cache_form"), [false]);
    for url in
        ["symfony+sqlite:PLACE?table=session_cache", "django+sqlite:PLACE?table=cache_sessions"]
    {
        let seen = walked(&url.replace("PLACE", &place.to_string()), 10).0;
        assert!(seen.len() == 23 && seen.iter().all(|seen| seen.name.shown().is_none()), "{url}");
    }
    // The table is named without the prefix; the prefix was ignored.
    let only = walked(&format!("drupal+sqlite:{place}?prefix=shop_cache_&table=cache"), 10).0;
    assert_eq!(only.len(), 2);
    let forms = walked(&format!("drupal+sqlite:{place}?table=shop_cache_cache_form"), 10).0;
    assert!(forms.len() == 1 && forms[0].name.shown().is_none());
}

/// Symfony's table and all of its columns may have other names.
#[test]
fn the_columns_of_symfony_are_those_that_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "DELETE");
    for (old, new) in [("id", "guid"), ("data", "value"), ("lifetime", "life"), ("time", "at")] {
        connection
            .execute_batch(&format!("ALTER TABLE sf_sessions RENAME COLUMN sess_{old} TO {new}"))
            .unwrap();
    }
    drop(connection);
    let url = format!("symfony+sqlite:{}?table=sf_sessions", path.display());
    let named = "&id_col=guid&data_col=value&lifetime_col=life&time_col=at";
    let seen = walked(&format!("{url}{named}"), 10).0;
    assert_eq!(
        (seen.len() as u64, seen.iter().map(|entry| entry.bytes).sum::<u64>()),
        (ROWS, 211 * ROWS)
    );
    let end = Timestamp::from_ms((MOMENT + 1_440) * 1_000);
    assert!(seen.iter().all(|entry| entry.expires == Some(end)), "{seen:?}");
    assert!(refused(&url).contains("?id_col="));
    assert!(refused(&format!("{url}{named}%22%20--")).contains("option time_col must be a word"));
}

/// A module for Drupal 7 keeps sessions in a cache, and their ids in its keys.
#[test]
fn the_keys_of_a_cache_of_sessions_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = filled(&path, "DELETE");
    connection.execute_batch("ALTER TABLE cache RENAME TO cache_session_cache").unwrap();
    drop(connection);
    let seen = walked(&format!("drupal+sqlite:{}?table=cache_session_cache", path.display()), 10).0;
    assert!(seen.len() == 2 && seen.iter().all(|entry| entry.name.shown().is_none()), "{seen:?}");
}

#[test]
fn what_is_no_database_is_refused_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.db");
    assert!(refused(&format!("django+sqlite:{}", missing.display())).starts_with("io"));
    assert!(!missing.exists());
    let text = dir.path().join("text");
    std::fs::write(
        &text,
        "not a database at all, but long enough to have a header of a hundred bytes. ".repeat(20),
    )
    .unwrap();
    let why = refused(&format!("django+sqlite:{}", text.display()));
    assert!(why.starts_with("corrupt"), "{why}");
}
