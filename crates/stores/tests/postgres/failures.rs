//! What goes wrong when a store is opened or asked too much: each is one clear error, and nothing
//! is harmed.

use std::process::Command;
use std::time::Duration;

use sessile_core::{Error, ErrorKind, Filter, Sessions};
use sessile_fixtures::ServerOptions;
use sessile_stores::Context;

use crate::setup::support::certificate;
use crate::setup::{Private, WAIT, key, ttl, until};

fn open(url: &str) -> Result<Sessions, Error> {
    sessile_stores::open(url, &Context::default())
}

fn refusal(url: &str) -> Error {
    let error = open(url).unwrap_err();
    let shown = format!("{error:#} {error:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    error
}

fn refused(url: &str) -> &'static str {
    refusal(url).kind().code()
}

#[test]
fn a_login_that_is_not_accepted_says_which_part() {
    let Some(private) = Private::start() else { return };
    private.sql("CREATE ROLE shop LOGIN PASSWORD 's3cret'; CREATE ROLE nobody_here NOLOGIN");
    let rules = private.dir().join("data/pg_hba.conf");
    std::fs::write(&rules, "local all postgres trust\nlocal all all scram-sha-256\n").unwrap();
    private.sql("SELECT pg_reload_conf()");
    private.sql("GRANT CREATE ON SCHEMA public TO shop");
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let (right, wrong) = (file("right", "s3cret\n"), file("wrong", "s3cret2\n"));
    let url = |user: &str, rest: &str| {
        format!("postgres+unix:{}?user={user}{rest}", private.dir().display())
    };
    let shop = |rest: &str| url("shop", &format!("&database=postgres{rest}"));
    open(&shop(&format!("&password_file={right}")))
        .unwrap()
        .create(&key("a"), b"x", ttl())
        .unwrap();
    assert_eq!(refused(&shop(&format!("&password_file={wrong}"))), "denied");
    assert_eq!(refused(&shop("")), "denied", "no password");
    assert_eq!(
        refused(&url("nobody", &format!("&database=postgres&password_file={wrong}"))),
        "denied"
    );
    assert_eq!(refused(&url("postgres", "&database=nowhere")), "invalid-url");
    assert_eq!(refused(&shop(&format!("&password_file={right}&schema=nowhere"))), "incompatible");
    let elsewhere = dir.path().join("no-socket").display().to_string();
    assert_eq!(refused(&format!("postgres+unix:{elsewhere}?user=postgres")), "unreachable");
}

#[test]
fn rights_that_are_missing_are_named_and_those_of_the_page_suffice() {
    let Some(private) = Private::start() else { return };
    private.sql("CREATE ROLE shop LOGIN");
    let url = format!("postgres+unix:{}?user=shop&database=postgres", private.dir().display());
    assert_eq!(refused(&url), "denied", "may not create the tables");
    private.open();
    assert_eq!(refused(&url), "denied", "may not read them");
    private.sql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON sessile TO shop; GRANT SELECT ON sessile_about TO \
         shop;
         GRANT USAGE, SELECT, UPDATE ON sessile_fence TO shop",
    );
    let store = open(&url).unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    let mut begun = store.begin(&key("a"), WAIT).unwrap();
    assert_eq!(
        store.begin(&key("a"), Duration::from_millis(5)).unwrap_err().kind().code(),
        "lock-timeout"
    );
    begun.lease.regenerate(&key("b"), WAIT).unwrap();
    begun.lease.commit(b"y", ttl()).unwrap();
    store.destroy(&key("b")).unwrap();
    store.sweep(Default::default()).unwrap();
    private.sql("ALTER ROLE shop SET default_transaction_read_only = on");
    let error = open(&url).unwrap().create(&key("c"), b"x", ttl()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Denied, "{error:?}");
    private.sql(
        "CREATE ROLE looker LOGIN; ALTER ROLE looker SET default_transaction_read_only = on;
         GRANT SELECT ON sessile, sessile_about, sessile_fence TO looker",
    );
    open(&url.replace("shop", "looker")).unwrap().stat().unwrap();
    // A fence that is behind was to be lifted by everybody who connects.
    private.sql(
        "ALTER ROLE looker RESET default_transaction_read_only; SELECT setval('sessile_fence', 1)",
    );
    open(&url.replace("shop", "looker")).unwrap().stat().unwrap();
    private.sql("ALTER ROLE shop RESET default_transaction_read_only");
    open(&url).unwrap().stat().unwrap();
    assert!(private.number("SELECT last_value FROM sessile_fence") > 1);
}

#[test]
fn tables_of_others_and_newer_ones_are_refused_and_left_alone() {
    let Some(private) = Private::start() else { return };
    private.sql("CREATE TABLE carts (book text); INSERT INTO carts VALUES ('1')");
    assert_eq!(refused(&format!("{}&table=carts", private.url())), "incompatible");
    assert_eq!(private.sql("SELECT * FROM carts"), ["1"]);
    let store = private.open();
    store.create(&key("a"), b"x", ttl()).unwrap();
    private.sql("UPDATE sessile_about SET version = 2");
    assert_eq!(refused(&private.url()), "incompatible");
    private.sql("UPDATE sessile_about SET version = 1");
    assert!(private.open().peek(&key("a")).unwrap().is_some());
    private.sql("DROP TABLE sessile");
    assert_eq!(store.peek(&key("a")).unwrap_err().kind(), &ErrorKind::Incompatible);
}

#[test]
fn a_new_store_may_be_opened_by_many_at_once_in_any_schema() {
    let Some(private) = Private::start() else { return };
    private.sql(
        "CREATE SCHEMA web; CREATE SCHEMA \"odd \"\"name'\"; ALTER ROLE postgres SET search_path = \
         \"odd \"\"name'\"",
    );
    for options in ["&schema=web", "&table=_1", ""] {
        let url = format!("{}{options}", private.url());
        std::thread::scope(|scope| {
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&url))).collect();
            for (number, opener) in openers.into_iter().enumerate() {
                let store = opener.join().unwrap().unwrap();
                store.create(&key(&format!("a{number}")), b"x", ttl()).unwrap();
            }
        });
        assert_eq!(open(&url).unwrap().stat().unwrap().sessions, 8, "{options}");
    }
}

#[test]
fn large_payloads_are_stored_or_refused_with_their_size() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    let large = vec![7; 64 << 20];
    store.create(&key("a"), b"old", ttl()).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(&large, ttl()).unwrap();
    assert!(store.peek(&key("a")).unwrap().is_some_and(|record| record.payload == large));
    let small = open(&format!("{}&payload_bytes_max=1000", private.url())).unwrap();
    small.create(&key("b"), b"old", ttl()).unwrap();
    for _ in 0..100 {
        let error =
            small.begin(&key("b"), WAIT).unwrap().lease.commit(&[1; 1_001], ttl()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TooLarge { size: 1_001, limit: 1_000 });
    }
    assert_eq!(small.peek(&key("b")).unwrap().unwrap().payload, b"old");
    assert_eq!(small.count(sessile_core::Counter::FailedSaves), 100);
}

#[test]
fn a_damaged_row_is_reported_left_alone_and_passed_over() {
    let Some(private) = Private::start() else { return };
    let store = private.open();
    for id in ["a", "b", "c", "fine"] {
        store.create(&key(id), b"1", ttl()).unwrap();
    }
    private.sql(
        "UPDATE sessile SET payload = NULL WHERE id = 'a'; UPDATE sessile SET expires = -1 \
                 WHERE id = 'b'",
    );
    private.sql("UPDATE sessile SET kind = 7 WHERE id = 'c'");
    for id in ["a", "b", "c"] {
        for _ in 0..2 {
            // Twice: the lock is not held after the failure.
            let error = store.begin(&key(id), Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Corrupt, "{error:?}");
        }
        assert_eq!(store.peek(&key(id)).unwrap_err().kind(), &ErrorKind::Corrupt);
    }
    assert_eq!(
        store.list(None, &Filter::default()).unwrap().entries.len(),
        2,
        "a without its payload, and fine"
    );
}

#[test]
fn tls_is_spoken_and_an_unknown_authority_refused() {
    // Another address of this host instead of another port, which would change the name of the unix
    // socket.
    let address =
        format!("127.{}.{}.{}", fastrand::u8(1..), fastrand::u8(..), fastrand::u8(1..255));
    let extra = ["-c".into(), format!("listen_addresses={address}").into()].to_vec();
    let Some(private) = Private::start_with(ServerOptions { extra, ..ServerOptions::default() })
    else {
        return;
    };
    let data = private.dir().join("data");
    if !certificate::make(&data, &format!("IP:{address}")) {
        return;
    }
    // The server wants its key owned by itself, and nobody else to read it.
    let give = "chown --reference=PG_VERSION key.pem cert.pem && chmod 600 key.pem";
    assert!(Command::new("sh").args(["-c", give]).current_dir(&data).status().unwrap().success());
    private.sql("CREATE ROLE shop LOGIN PASSWORD 's3cret'; GRANT CREATE ON SCHEMA public TO shop");
    std::fs::write(
        data.join("pg_hba.conf"),
        "local all all trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n",
    )
    .unwrap();
    let url = |options: &str| format!("postgres://shop:s3cret@{address}/postgres?{options}");
    let ours = format!("tls=on&tls_ca_file={}", data.join("cert.pem").display());
    private.sql("SELECT pg_reload_conf()");
    assert_eq!(refused(&url(&ours)), "denied", "a server without TLS");
    for setting in ["ssl_cert_file = 'cert.pem'", "ssl_key_file = 'key.pem'", "ssl = on"] {
        private.sql(&format!("ALTER SYSTEM SET {setting}"));
    }
    private.sql("SELECT pg_reload_conf()");
    until("the server has TLS", || private.sql("SHOW ssl") == ["on"]);
    let store = open(&url(&ours)).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(&vec![1; 1 << 20], ttl()).unwrap();
    assert_eq!(store.peek(&key("a")).unwrap().unwrap().payload.len(), 1 << 20);
    assert_eq!(refused(&url("tls=on")), "denied", "not signed by a known authority");
    assert_eq!(refused(&url("")), "denied", "the server wants TLS");
}
