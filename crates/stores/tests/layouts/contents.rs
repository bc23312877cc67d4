//! The sessions of other programs copied into a store of ours: each with its content and its life,
//! and nothing else of what is there.

use mysql::prelude::Queryable;
use rusqlite::Connection;
use sessile_core::{Clock, Error, Key, Owner, Record, Sessions};
use sessile_stores::copy::{Compared, Import};
use sessile_stores::{Context, layouts};

use crate::setup::{Private, refused_copy};
use crate::tables::{Kind, psql};

/// Far from now.
const USED: u64 = 1_700_000_000;
const LIFE: u64 = 300_000_000;

/// Bytes that are no text, and what a statement could trip over.
const DATA: &[u8] = b"cart|s:4:\"\0\xff'\\\";";

/// A new store.
struct Copied(Sessions);

impl Copied {
    fn new() -> Copied {
        Copied(sessile_stores::open("memory:", &Context::default()).unwrap())
    }

    /// Copies all sessions in pages of this size, and returns the outcome of each.
    fn all(&self, from: &str, page: usize) -> (Vec<Compared>, Vec<Error>) {
        let clock = Clock::system();
        let opened = layouts::open_to_copy(from, &clock);
        let opened = opened.unwrap_or_else(|error| panic!("{from}: {error:#}"));
        let mut import = Import::new(opened, self.0.clone(), clock);
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let (counted, mut seen) = (import.count().unwrap(), 0);
        for _ in 0..1_000 {
            let (entries, more) = import.page(page).unwrap();
            seen += entries.len() as u64;
            for entry in &entries {
                match import.copy(entry) {
                    Ok(outcome) => found.push(outcome),
                    Err(error) => refused.push(error),
                }
            }
            if !more {
                // In Redis with all that is no session.
                assert!(counted == seen || counted > seen && from.starts_with("php+redis"));
                found.sort_unstable();
                let told = format!("{refused:?}");
                assert!(!told.contains("secret"), "an id is shown: {told}");
                return (found, refused);
            }
        }
        panic!("no end in pages of {page}");
    }

    fn record(&self, id: &str) -> Record {
        self.0.peek(&Key::session(id).unwrap()).unwrap().unwrap_or_else(|| panic!("{id}"))
    }
}

fn bytes(kind: Kind, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match kind {
        Kind::Mysql | Kind::Sqlite => format!("x'{hex}'"),
        Kind::Postgres => format!("'\\x{hex}'::bytea"),
    }
}

/// Tables as the programs make them, with sessions that live, have ended, or cannot be copied.
fn statements(kind: Kind) -> Vec<String> {
    let (blob, id, date) = match kind {
        Kind::Mysql => ("LONGBLOB", "VARBINARY(128)", "DATETIME(6)"),
        Kind::Postgres => ("BYTEA", "VARCHAR(128)", "TIMESTAMPTZ"),
        Kind::Sqlite => ("BLOB", "TEXT", "DATETIME"),
    };
    let time = if kind == Kind::Mysql { "`timestamp`" } else { "\"timestamp\"" };
    let (data, empty) = (bytes(kind, DATA), bytes(kind, b""));
    let zone = if kind == Kind::Postgres { "+00" } else { ".000000" };
    let (old, late) = (USED, USED + LIFE);
    let mut all = vec![
        format!(
            "CREATE TABLE sessions (uid INT NOT NULL, sid VARCHAR(128) NOT NULL, ssid VARCHAR(128) \
             NOT NULL DEFAULT '', hostname VARCHAR(128), {time} INT NOT NULL, cache INT, session \
             {blob}, PRIMARY KEY (sid, ssid))"
        ),
        format!(
            "CREATE TABLE cache (cid VARCHAR(255) NOT NULL PRIMARY KEY, data {blob}, expire INT, \
             created INT)"
        ),
        format!(
            "CREATE TABLE sf_sessions (sess_id {id} NOT NULL PRIMARY KEY, sess_data {blob} NOT \
             NULL, sess_lifetime INTEGER NOT NULL, sess_time INTEGER NOT NULL)"
        ),
        format!(
            "CREATE TABLE django_session (session_key VARCHAR(40) NOT NULL PRIMARY KEY, \
             session_data {} NOT NULL, expire_date {date} NOT NULL)",
            if kind == Kind::Mysql { "LONGTEXT" } else { "TEXT" }
        ),
        format!(
            "CREATE TABLE later_sessions (uid INT, sid VARCHAR(128) PRIMARY KEY, {time} INT, \
             session {blob})"
        ),
        format!("INSERT INTO cache VALUES ('secretcache', {data}, 0, {old})"),
    ];
    for (uid, sid, ssid, moment, session) in [
        (0, "secret-visitor", "", old, &data),
        (17, "secret-http", "", old, &data),
        (18, "secret-https", "secret-https", old, &data),
        // The variable https: two cookies, and in another session the insecure one of them alone.
        (19, "secret-insecure", "secret-secure", old, &data),
        (0, "secret-insecure", "", old, &data),
        (20, "secret-empty", "", old, &empty),
        (21, "secret-ended", "", 5, &data),
        (22, "secret.malformed", "", old, &data),
    ] {
        all.push(format!(
            "INSERT INTO sessions VALUES ({uid}, '{sid}', '{ssid}', 'host', {moment}, 0, {session})"
        ));
    }
    for (id, lifetime) in [("secret-new", late), ("secret-old", LIFE), ("secret-ended", old + 1)] {
        all.push(format!("INSERT INTO sf_sessions VALUES ('{id}', {data}, {lifetime}, {old})"));
    }
    // {"_auth_user_id":"17","cart":[1]}, {} and a pickle.
    for (key, text, year) in [
        ("secretuser", "eyJfYXV0aF91c2VyX2lkIjoiMTciLCJjYXJ0IjpbMV19:1tGx0A:c2ln", 2_033),
        ("secretvisitor", "e30:1tGx0A:c2ln", 2_033),
        ("secretpickle", "gAV9cQAu:1tGx0A:c2ln", 2_033),
        ("secretended", "e30:1tGx0A:c2ln", 2_023),
    ] {
        all.push(format!(
            "INSERT INTO django_session VALUES ('{key}', '{text}', '{year}-05-18 03:33:20{zone}')"
        ));
    }
    all
}

/// The URL of each program in one database, from what stands before and behind the place of the
/// options.
fn check_all(url: &dyn Fn(&str, &str) -> String) {
    for page in [1, 3, 1_000] {
        check_drupal(&url("drupal", &format!("maxlifetime={LIFE}")), page);
        check_symfony(&url("symfony", "table=sf_sessions"), page);
        check_django(&url("django", ""), page);
    }
    let why = refused_copy(&url("drupal", "table=later_sessions"));
    assert!(why.starts_with("unsupported") && why.contains("Drupal 8"), "{why}");
    let why = refused_copy(&url("drupal", "table=cache"));
    assert!(why.starts_with("unsupported") && why.contains("a cache"), "{why}");
}

fn check_drupal(url: &str, page: usize) {
    let copied = Copied::new();
    let (found, refused) = copied.all(url, page);
    assert_eq!(found, [vec![Compared::Missing; 6], vec![Compared::Ended]].concat(), "{page}");
    assert_eq!((refused.len(), refused[0].kind().code()), (1, "invalid-id"));
    for (id, user) in [
        ("secret-visitor", 0),
        ("secret-http", 17),
        ("secret-https", 18),
        ("secret-secure", 19),
        ("secret-insecure", 0),
        ("secret-empty", 20),
    ] {
        let record = copied.record(id);
        let data = if user == 20 { &b""[..] } else { DATA };
        let payload = [format!("sessile_uid|i:{user};").as_bytes(), data].concat();
        assert_eq!(record.payload, payload, "{id}");
        let owner = (user > 0).then(|| Owner::new(user.to_string().as_bytes()).unwrap());
        assert_eq!(record.head.owner, owner, "{id}");
        check_life(&record, Some(USED));
    }
    let (found, _) = copied.all(url, page);
    assert_eq!(found.iter().filter(|outcome| **outcome == Compared::Same).count(), 6);
}

fn check_symfony(url: &str, page: usize) {
    let copied = Copied::new();
    let (found, refused) = copied.all(url, page);
    assert_eq!(found, [Compared::Missing, Compared::Missing, Compared::Ended]);
    assert!(refused.is_empty());
    for id in ["secret-new", "secret-old"] {
        let record = copied.record(id);
        assert_eq!((record.payload.as_slice(), record.head.owner), (DATA, None));
        check_life(&record, Some(USED));
    }
}

fn check_django(url: &str, page: usize) {
    let copied = Copied::new();
    let (found, refused) = copied.all(url, page);
    assert_eq!(found, [Compared::Missing, Compared::Missing, Compared::Ended]);
    assert_eq!((refused.len(), refused[0].kind().code()), (1, "corrupt"));
    let user = copied.record("secretuser");
    assert_eq!(user.payload, br#"{"_auth_user_id":"17","cart":[1]}"#);
    assert_eq!(user.head.owner, Owner::new(b"17").ok());
    check_life(&user, None);
    let visitor = copied.record("secretvisitor");
    assert_eq!((visitor.payload.as_slice(), visitor.head.owner), (&b"{}"[..], None));
}

/// The end of all that live: 2033-05-18 03:33:20.
fn check_life(record: &Record, created: Option<u64>) {
    let expires = record.head.expires.as_ms();
    assert!(expires.abs_diff((USED + LIFE) * 1_000) < 1_000, "{expires}");
    if let Some(created) = created {
        assert_eq!(record.head.created.as_ms(), created * 1_000);
    }
}

#[test]
fn sessions_of_tables_on_mariadb_are_copied_by_a_user_who_may_only_read() {
    let Some(private) = Private::start("mariadbd", &[]) else { return };
    let settings =
        mysql::OptsBuilder::new().socket(private.server.socket().to_str()).user(Some("root"));
    let mut root = mysql::Conn::new(settings.db_name(Some("test"))).unwrap();
    statements(Kind::Mysql).iter().for_each(|statement| root.query_drop(statement).unwrap());
    for statement in ["CREATE USER reader@localhost", "GRANT SELECT ON test.* TO reader@localhost"]
    {
        root.query_drop(statement).unwrap();
    }
    let socket = private.server.socket().display();
    check_all(&|program, options| {
        format!("{program}+mysql+unix:{socket}?user=reader&database=test&{options}")
    });
}

#[test]
fn sessions_of_tables_on_postgresql_are_copied() {
    let Some(private) = Private::start("postgres", &[]) else { return };
    let dir = private.server.socket().parent().unwrap().to_owned();
    psql(&dir, &statements(Kind::Postgres).join(";"));
    let socket = private.server.socket().display();
    check_all(&|program, options| {
        format!("{program}+postgres+unix:{socket}?user=postgres&database=postgres&{options}")
    });
}

#[test]
fn sessions_of_tables_in_a_file_are_copied_and_the_file_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&statements(Kind::Sqlite).join(";")).unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let place = path.display();
    check_all(&|program, options| format!("{program}+sqlite:{place}?{options}"));
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn sessions_of_phpredis_are_copied_and_what_is_none_is_not() {
    let Some(private) = Private::start("redis-server", &[]) else { return };
    let socket = private.server.socket().display().to_string();
    let mut raw = redis::Client::open(format!("unix:{socket}"))
        .and_then(|client| client.get_connection())
        .unwrap();
    let mut set = |key: &str, payload: &[u8], seconds: u32| {
        let mut command = redis::cmd("SET");
        command.arg(format!("PHPREDIS_SESSION:{key}")).arg(payload);
        if seconds > 0 {
            command.arg("EX").arg(seconds);
        }
        command.exec(&mut raw).unwrap();
    };
    for number in 0..50 {
        set(&format!("secret{number}"), DATA, 1_440);
    }
    set("secretempty", b"", 1_440);
    set("secret1_LOCK", b"token", 60);
    set("secret.malformed", DATA, 1_440);
    set("secretendless", DATA, 0);
    set("secretcompressed", b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00x", 1_440);
    redis::cmd("SET").arg("shop:secret").arg("xyz").exec(&mut raw).unwrap();
    let copied = Copied::new();
    let (found, refused) = copied.all(&format!("php+redis+unix:{socket}"), 10);
    assert_eq!(found, vec![Compared::Missing; 51]);
    let mut codes: Vec<&str> = refused.iter().map(|error| error.kind().code()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["corrupt", "corrupt", "invalid-id"]);
    let record = copied.record("secret7");
    assert_eq!(record.payload, DATA);
    let left = record.head.expires.since(Clock::system().now()).as_secs();
    assert!((1_300..=1_440).contains(&left), "{left}");
    assert_eq!(copied.record("secretempty").payload, b"");
}

#[test]
fn what_can_only_be_counted_is_refused_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let why = refused_copy(&format!("php+files:{}", dir.path().display()));
    assert!(why.starts_with("unsupported") && why.contains("files:DIRECTORY?php=1"), "{why}");
}
