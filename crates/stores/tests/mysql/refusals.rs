//! What cannot be opened: each trouble is an error of its own that says what to do, without the
//! password.

use sessile_core::ErrorKind;

use crate::setup::support::certificate;
use crate::setup::support::moving::Moving;
use crate::setup::support::server::free_port;
use crate::setup::{Private, WAIT, key, open, payload_of, refusal, ttl};

#[test]
fn passwords_databases_and_rights_are_told_apart() {
    let port = free_port().to_string();
    let tcp = ["--skip-networking=0", "--bind-address=127.0.0.1", "--port", &port];
    let Some(private) = Private::start_with(&tcp) else { return };
    private.run("CREATE USER shop@localhost IDENTIFIED BY 's3cret'");
    private.run("CREATE USER reader@localhost IDENTIFIED BY 's3cret'");
    private.run("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON test.* TO shop@localhost");
    let url = |login: &str, database: &str| format!("mysql://{login}@127.0.0.1:{port}/{database}");
    // The table does not exist yet, and the user may not create it.
    private.run("CREATE DATABASE bare");
    private.run("GRANT SELECT ON bare.* TO reader@localhost");
    let (kind, text) = refusal(&url("reader:s3cret", "bare"));
    assert!(kind == ErrorKind::Denied && text.contains("CREATE"), "{text}");
    let store = open(&url("shop:s3cret", "test")).unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    assert_eq!(payload_of(&store, "a").unwrap(), b"x");
    let (kind, text) = refusal(&url("shop:s3cret-but-wrong", "test"));
    assert!(kind == ErrorKind::Denied && text.contains("password"), "{text}");
    let (kind, text) = refusal(&url("shop:s3cret", "nowhere"));
    assert!(
        matches!(kind, ErrorKind::Denied | ErrorKind::InvalidUrl) && text.contains("database"),
        "{text}"
    );
    let (kind, text) = refusal(&format!(
        "{}&table=t",
        private.url("").replace("database=test", "database=nowhere")
    ));
    assert!(kind == ErrorKind::InvalidUrl && text.contains("database"), "{text}");
    let nobody = free_port();
    let (kind, _) = refusal(&format!("mysql://shop:s3cret@127.0.0.1:{nobody}/test"));
    assert_eq!(kind, ErrorKind::Unreachable);
    assert_eq!(
        refusal("mysql+unix:/nowhere/socket?user=shop&database=test").0,
        ErrorKind::Unreachable
    );
    let (kind, text) = refusal(&format!("{}?tls=1", url("shop:s3cret", "test")));
    assert!(kind == ErrorKind::Denied && text.contains("TLS"), "{text}");
}

#[test]
fn a_server_without_a_free_connection_is_unreachable_and_says_so() {
    let Some(private) = Private::start_with(&["--max-connections=10"]) else { return };
    private.run("CREATE USER shop@localhost IDENTIFIED BY ''");
    private.run("GRANT ALL ON test.* TO shop@localhost");
    let store = open(&private.url("").replace("user=root", "user=shop")).unwrap();
    let mut held = Vec::new();
    let error = loop {
        match store.begin(&key(&format!("s{}", held.len())), WAIT) {
            Ok(begun) => held.push(begun),
            Err(error) => break error,
        }
        assert!(held.len() < 20, "it goes on without end");
    };
    assert_eq!(error.kind(), &ErrorKind::Unreachable);
    assert!(error.to_string().contains("max_connections"), "{error}");
    held.pop().unwrap().lease.commit(b"x", ttl()).unwrap();
    drop(store.begin(&key("s0x"), WAIT).unwrap());
}

#[test]
fn a_read_only_server_takes_no_sessions_and_says_so() {
    let Some(private) = Private::start() else { return };
    private.run("CREATE USER shop@localhost IDENTIFIED BY ''");
    private.run("GRANT ALL ON test.* TO shop@localhost");
    let store = open(&private.url("").replace("user=root", "user=shop")).unwrap();
    store.create(&key("a"), b"x", ttl()).unwrap();
    private.run("SET GLOBAL read_only = 1");
    let begun = store.begin(&key("a"), WAIT).unwrap();
    let error = begun.lease.commit(b"y", ttl()).unwrap_err();
    assert!(
        error.kind() == &ErrorKind::Denied && error.to_string().contains("read-only"),
        "{error}"
    );
    assert_eq!(payload_of(&store, "a").unwrap(), b"x");
}

/// Connections to the primary of before stay open, and begin sessions that cannot be saved.
#[test]
fn a_demoted_primary_is_left_for_the_one_that_the_address_leads_to() {
    let (Some(private), Some(successor)) = (Private::start(), Private::start()) else { return };
    for server in [&private, &successor] {
        server.run("CREATE USER shop@localhost IDENTIFIED BY ''");
        server.run("GRANT ALL ON test.* TO shop@localhost");
        drop(server.open(""));
    }
    let address = Moving::to(private.server.socket());
    let socket = address.socket();
    let store = open(&format!("mysql+unix:{}?user=shop&database=test", socket.display())).unwrap();
    let held = ["a", "b", "c", "d"].map(|id| store.begin(&key(id), WAIT).unwrap());
    let [lost, held @ ..] = held;
    held.into_iter().for_each(|begun| begun.lease.commit(b"cart", ttl()).unwrap());
    private.run("SET GLOBAL read_only = 1");
    address.move_to(successor.server.socket());
    assert_eq!(lost.lease.commit(b"cart", ttl()).unwrap_err().kind(), &ErrorKind::Denied);
    for id in ["a", "b", "c", "d"] {
        store.begin(&key(id), WAIT).unwrap().lease.commit(b"cart", ttl()).unwrap();
    }

    successor.run("SET GLOBAL read_only = 1");
    private.run("SET GLOBAL read_only = 0");
    address.move_to(private.server.socket());
    store.create(&key("e"), b"cart", ttl()).unwrap();
}

/// A begin on the old primary found nothing wrong, and the commit was refused: each worker lost a
/// request.
#[test]
fn a_demoted_primary_costs_no_request_of_a_worker_that_was_idle_meanwhile() {
    let (Some(private), Some(successor)) = (Private::start(), Private::start()) else { return };
    for server in [&private, &successor] {
        server.run("CREATE USER shop@localhost IDENTIFIED BY ''");
        server.run("GRANT ALL ON test.* TO shop@localhost");
        drop(server.open(""));
    }
    let address = Moving::to(private.server.socket());
    let socket = address.socket();
    let url = format!("mysql+unix:{}?user=shop&database=test", socket.display());
    // From the second begin on sessions are found; from the ninth on statements are prepared.
    for (round, begins) in [1, 3, 12, 30, 30].into_iter().enumerate() {
        let [old, new] =
            if round % 2 == 0 { [&private, &successor] } else { [&successor, &private] };
        new.run("SET GLOBAL read_only = 0");
        let store = open(&url).unwrap();
        let serve = || store.begin(&key("a"), WAIT).unwrap().lease.commit(b"cart", ttl());
        (0..begins).for_each(|_| serve().unwrap());
        old.run("SET GLOBAL read_only = 1");
        if round == 4 {
            assert_eq!(serve().unwrap_err().kind(), &ErrorKind::Denied, "no successor yet");
            store.begin(&key("a"), WAIT).unwrap().lease.release().unwrap();
        }
        address.move_to(new.server.socket());
        serve().unwrap();
    }
}

#[test]
fn a_table_that_is_not_ours_is_refused_and_left_alone() {
    let Some(private) = Private::start() else { return };
    private.run("CREATE TABLE carts (id INT PRIMARY KEY)");
    private.run("INSERT INTO carts VALUES (17)");
    assert_eq!(refusal(&private.url("&table=carts")).0, ErrorKind::Incompatible);
    assert_eq!(private.number("SELECT id FROM carts"), 17);
    drop(private.open(""));
    private.run("ALTER TABLE sessile_session COMMENT 'sessions of sessile, schema 3'");
    let (kind, text) = refusal(&private.url(""));
    assert!(kind == ErrorKind::Incompatible && text.contains("schema 2"), "{text}");
}

#[test]
fn many_that_open_a_new_database_at_once_find_one_table() {
    let Some(private) = Private::start() else { return };
    std::thread::scope(|scope| {
        for n in 0..8 {
            let private = &private;
            scope.spawn(move || {
                private.open("").create(&key(&format!("s{n}")), b"x", ttl()).unwrap()
            });
        }
    });
    assert_eq!(private.open("").stat().unwrap().sessions, 8);
}

#[test]
fn tls_is_spoken_and_an_unknown_authority_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    if !certificate::make(dir.path(), "DNS:localhost,IP:127.0.0.1") {
        return;
    }
    // The server runs as somebody else.
    for (file, mode) in [("", 0o755), ("key.pem", 0o644), ("cert.pem", 0o644)] {
        std::fs::set_permissions(dir.path().join(file), std::fs::Permissions::from_mode(mode))
            .unwrap();
    }
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (port, cert) = (free_port().to_string(), path("cert.pem"));
    let files = [
        format!("--ssl-cert={cert}"),
        format!("--ssl-key={}", path("key.pem")),
        format!("--port={port}"),
    ];
    let mut extra = vec!["--skip-networking=0", "--bind-address=127.0.0.1"];
    extra.extend(files.iter().map(String::as_str));
    let Some(private) = Private::start_with(&extra) else { return };
    private.run("CREATE USER shop@localhost IDENTIFIED BY 's3cret' REQUIRE SSL");
    private.run("GRANT ALL ON test.* TO shop@localhost");
    let url = format!("mysql://shop:s3cret@localhost:{port}/test");
    let store = open(&format!("{url}?tls=1&tls_ca_file={cert}")).unwrap();
    store.begin(&key("a"), WAIT).unwrap().lease.commit(b"x", ttl()).unwrap();
    assert_eq!(payload_of(&store, "a").unwrap(), b"x");
    assert_eq!(
        refusal(&format!("{url}?tls=1")).0,
        ErrorKind::Denied,
        "not signed by a known authority"
    );
    assert_eq!(refusal(&url).0, ErrorKind::Denied, "the user must use TLS");
}
