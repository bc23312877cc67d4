//! Drupal, Symfony and Django on MariaDB, PostgreSQL and SQLite: the same rows, the same answers.

use std::path::Path;
use std::process::Command;

use mysql::prelude::Queryable;
use sessile_core::{ErrorKind, Timestamp};
use sessile_stores::layouts::{EntryName, ScannedEntry};
use sessile_stores::{Context, registry};

use crate::setup::{Private, refused, walked};

/// Rows of each table of sessions: more than a page of most tests.
pub const ROWS: u64 = 23;
/// The moment of the rows, in seconds.
pub const MOMENT: u64 = 1_700_000_000;

/// A database, in the words that differ.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Mysql,
    Postgres,
    Sqlite,
}

/// The statements that make the tables as the programs do, and fill them.
pub fn statements(kind: Kind) -> Vec<String> {
    let (bytes, id, date) = match kind {
        Kind::Mysql => ("LONGBLOB", "VARBINARY(128)", "DATETIME(6)"),
        Kind::Postgres => ("BYTEA", "VARCHAR(128)", "TIMESTAMPTZ"),
        Kind::Sqlite => ("BLOB", "TEXT", "DATETIME"),
    };
    let quoted =
        |name: &str| if kind == Kind::Mysql { format!("`{name}`") } else { format!("\"{name}\"") };
    let content = |bytes: u64| match kind {
        Kind::Sqlite => format!("zeroblob({bytes})"),
        Kind::Mysql => format!("REPEAT('x', {bytes})"),
        Kind::Postgres => format!("REPEAT('x', {bytes})::bytea"),
    };
    let time = quoted("timestamp");
    let mut all = vec![
        format!(
            "CREATE TABLE sessions (uid INT, sid VARCHAR(128) NOT NULL, ssid VARCHAR(128) NOT NULL \
             DEFAULT '',
            hostname VARCHAR(128), {time} INT, cache INT, session {bytes}, PRIMARY KEY (sid, ssid))"
        ),
        format!(
            "CREATE TABLE sf_sessions (sess_id {id} NOT NULL PRIMARY KEY, sess_data {bytes} NOT \
             NULL,
            sess_lifetime INTEGER NOT NULL, sess_time INTEGER NOT NULL)"
        ),
        format!(
            "CREATE TABLE django_session (session_key VARCHAR(40) NOT NULL PRIMARY KEY, \
             session_data {} NOT NULL,
            expire_date {date} NOT NULL)",
            if kind == Kind::Mysql { "LONGTEXT" } else { "TEXT" }
        ),
        "CREATE TABLE cached_prices (cid VARCHAR(10), data VARCHAR(10))".to_owned(),
    ];
    for cache in ["cache", "cache_form", "cache_menu"] {
        all.push(format!(
            "CREATE TABLE {cache} (cid VARCHAR(255) NOT NULL PRIMARY KEY, data {bytes}, expire INT \
             NOT NULL,
            created NUMERIC(14, 3) NOT NULL, serialized SMALLINT)"
        ));
    }
    for row in 0..ROWS {
        // Two rows share each sid, so that a page can end between them; quotes and backslashes are
        // part of an id here.
        let (sid, ssid) =
            (format!("secret''%\\{}", row / 2), if row % 2 == 0 { "" } else { "secure" });
        let sid = if kind == Kind::Mysql { sid.replace('\\', "\\\\") } else { sid };
        all.push(format!(
            "INSERT INTO sessions VALUES (1, '{sid}', '{ssid}', 'host', {}, 0, {})",
            MOMENT + row,
            content(100 + row)
        ));
        // Half of them as version 4.3 had it: a number of seconds.
        let lifetime = if row % 2 == 0 { 1_440 } else { MOMENT + 1_440 };
        all.push(format!(
            "INSERT INTO sf_sessions VALUES ('secret{row}', {}, {lifetime}, {MOMENT})",
            content(200 + row)
        ));
        all.push(format!(
            "INSERT INTO django_session VALUES ('secret{row}', '{}', '2023-11-14 22:13:20{}')",
            "x".repeat(300 + row as usize),
            if kind == Kind::Postgres { "+00" } else { ".000000" }
        ));
    }
    for (cache, cid, size, expire) in [
        ("cache", "theme_registry:garland", 1_200_000, 0),
        ("cache", "variables", 50, MOMENT as i64),
        ("cache_form", "form_secret", 60, -1),
    ] {
        let values = format!("'{cid}', {}, {expire}, {MOMENT}.125, 1", content(size));
        all.push(format!("INSERT INTO {cache} VALUES ({values})"));
    }
    all
}

fn of_bin<'s>(seen: &'s [ScannedEntry], bin: &str) -> Vec<&'s ScannedEntry> {
    let mut found: Vec<&ScannedEntry> = seen.iter().filter(|entry| &*entry.bin == bin).collect();
    found.sort_by_key(|entry| entry.bytes);
    found
}

/// The URL of each program in one database, from what stands before and behind the place of the
/// options.
pub fn check_all(url: &dyn Fn(&str, &str) -> String) {
    for page in [1, 2, 5, 23, 1_000] {
        check_drupal(&walked(&url("drupal", "maxlifetime=1000"), page).0);
        let (seen, _) = walked(&url("symfony", "table=sf_sessions"), page);
        let sizes: Vec<u64> =
            of_bin(&seen, "sf_sessions").iter().map(|entry| entry.bytes).collect();
        assert_eq!(sizes, (200..200 + ROWS).collect::<Vec<u64>>(), "symfony in pages of {page}");
        let end = Timestamp::from_ms((MOMENT + 1_440) * 1_000);
        assert!(seen.iter().all(|entry| entry.expires == Some(end)), "{seen:?}");
        assert!(
            seen.iter().all(|entry| entry.used == Some(Timestamp::from_ms(MOMENT * 1_000))),
            "{seen:?}"
        );
        let (seen, _) = walked(&url("django", ""), page);
        let sizes: Vec<u64> =
            of_bin(&seen, "django_session").iter().map(|entry| entry.bytes).collect();
        assert_eq!(sizes, (300..300 + ROWS).collect::<Vec<u64>>(), "django in pages of {page}");
        assert!(
            seen.iter().all(|entry| entry.expires == Some(Timestamp::from_ms(MOMENT * 1_000))),
            "{seen:?}"
        );
        assert!(seen.iter().all(|entry| entry.used.is_none() && entry.created.is_none()));
    }
    let only = walked(&url("drupal", "table=cache"), 10).0;
    assert_eq!(only.len(), 2);
    for (program, option) in
        [("symfony", "table=nowhere"), ("django", "table=sessions"), ("drupal", "prefix=shop_")]
    {
        let why = refused(&url(program, option));
        assert!(
            why.starts_with("incompatible") && why.contains("the database has no table"),
            "{why}"
        );
    }
    assert!(refused(&url("django", "table=a%22b")).contains("must be a word"));
}

/// To ask for our own table in the database of another program does not make it; to open our store
/// does.
fn check_existence(own: &str) {
    for _ in 0..2 {
        assert_eq!(registry::check_exists(own).unwrap_err().kind(), &ErrorKind::Incompatible);
    }
    drop(sessile_stores::open(own, &Context::default()).unwrap());
    registry::check_exists(own).unwrap();
}

fn check_drupal(seen: &[ScannedEntry]) {
    let sessions = of_bin(seen, "sessions");
    let sizes: Vec<u64> = sessions.iter().map(|entry| entry.bytes).collect();
    assert_eq!(sizes, (100..100 + ROWS).collect::<Vec<u64>>());
    let last = sessions.last().unwrap();
    assert_eq!(last.used, Some(Timestamp::from_ms((MOMENT + ROWS - 1) * 1_000)));
    assert_eq!(last.expires, Some(Timestamp::from_ms((MOMENT + ROWS - 1 + 1_000) * 1_000)));
    assert_eq!(last.name, EntryName::Secret(format!("secret'%\\{}", (ROWS - 1) / 2).into_bytes()));
    let caches = of_bin(seen, "cache");
    let shown: Vec<_> = caches.iter().map(|entry| (entry.bytes, entry.name.shown())).collect();
    assert_eq!(
        shown,
        [
            (50, Some("variables".to_owned())),
            (1_200_000, Some("theme_registry:garland".to_owned()))
        ]
    );
    assert_eq!(caches[0].expires, Some(Timestamp::from_ms(MOMENT * 1_000)));
    assert_eq!(
        (caches[1].expires, caches[1].created),
        (None, Some(Timestamp::from_ms(MOMENT * 1_000)))
    );
    let forms = of_bin(seen, "cache_form");
    assert_eq!((forms.len(), forms[0].name.shown()), (1, None));
    assert_eq!(seen.len() as u64, ROWS + 3, "tables that are not Drupal's are seen");
}

#[test]
fn tables_on_mariadb_are_seen_by_a_user_who_may_only_read() {
    let Some(private) = Private::start("mariadbd", &[]) else { return };
    let settings =
        mysql::OptsBuilder::new().socket(private.server.socket().to_str()).user(Some("root"));
    let mut root = mysql::Conn::new(settings.db_name(Some("test"))).unwrap();
    statements(Kind::Mysql).iter().for_each(|statement| root.query_drop(statement).unwrap());
    for statement in ["CREATE USER reader@localhost", "GRANT SELECT ON test.* TO reader@localhost"]
    {
        root.query_drop(statement).unwrap();
    }
    let mut sums = || -> Vec<(String, Option<u64>)> {
        root.query("CHECKSUM TABLE sessions, cache, cache_form, sf_sessions, django_session")
            .unwrap()
    };
    let before = sums();
    let socket = private.server.socket().display();
    check_all(&|program, options| {
        format!("{program}+mysql+unix:{socket}?user=reader&database=test&{options}")
    });
    assert_eq!(sums(), before);
    check_existence(&format!("mysql+unix:{socket}?user=root&database=test"));
}

#[test]
fn tables_on_postgresql_are_seen_in_sessions_that_may_only_read() {
    let Some(private) = Private::start("postgres", &[]) else { return };
    let dir = private.server.socket().parent().unwrap().to_owned();
    psql(&dir, &statements(Kind::Postgres).join(";"));
    let sums = || psql(&dir, "SELECT sum(xmin::text::bigint), count(*) FROM sessions");
    let (before, socket) = (sums(), private.server.socket().display());
    check_all(&|program, options| {
        format!("{program}+postgres+unix:{socket}?user=postgres&database=postgres&{options}")
    });
    assert_eq!(sums(), before);
    // Tables are looked for in the first schema of the user's search_path, or in the one that is
    // named.
    psql(&dir, "CREATE SCHEMA postgres");
    let url = format!("django+postgres+unix:{socket}?user=postgres&database=postgres");
    assert!(refused(&url).contains("?schema="), "{}", refused(&url));
    assert_eq!(walked(&format!("{url}&schema=public"), 10).0.len() as u64, ROWS);
    psql(&dir, "DROP SCHEMA postgres");
    // The end of the column's type. With the lifetime it lay beyond, and the server refused the
    // whole page.
    let last = i64::from(i32::MAX);
    psql(
        &dir,
        &format!(
            "UPDATE sessions SET timestamp = {last}; UPDATE sf_sessions SET sess_time = {last}, \
             sess_lifetime = 1440"
        ),
    );
    for (url, end) in [("drupal", last + 200_000), ("symfony", last + 1_440)] {
        let table = if url == "drupal" { "sessions" } else { "sf_sessions" };
        let url =
            format!("{url}+postgres+unix:{socket}?user=postgres&database=postgres&table={table}");
        let end = Some(Timestamp::from_ms(end.unsigned_abs() * 1_000));
        assert!(walked(&url, 10).0.iter().all(|entry| entry.expires == end), "{url}");
    }
    check_existence(&format!("postgres+unix:{socket}?user=postgres&database=postgres"));
}

pub fn psql(dir: &Path, sql: &str) -> String {
    let words = [
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        "postgres",
        "-d",
        "postgres",
        "-c",
        sql,
        "-h",
    ];
    let output = Command::new("psql").args(words).arg(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
