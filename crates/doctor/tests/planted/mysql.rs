//! Faults of a MariaDB server.

use std::path::Path;
use std::process::Command;

use sessile_core::Durability;
use sessile_doctor::Examination;
use sessile_stores::with_option;

use crate::started::{codes, filled, server};

fn run(socket: &Path, sql: &str) {
    let line = ["--no-defaults", "--user=root", "--database=test", "-e", sql];
    let socket = format!("--socket={}", socket.display());
    let output =
        Command::new("mariadb").arg(line[0]).arg(socket).args(&line[1..]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_packet_that_is_smaller_than_sessions_is_found() {
    let Some(instance) = server("mysql", &["--max-allowed-packet=1M"]) else { return };
    drop(filled(instance.url()));
    let url = with_option(instance.url(), "payload_bytes_max", "8000000");
    assert_eq!(codes(&Examination::new(url)), ["packet-small"]);
}

#[test]
fn a_mysql_that_flushes_later_than_the_site_needs_is_found() {
    let arguments = ["--innodb-flush-log-at-trx-commit=2"];
    let Some(instance) = server("mysql", &arguments) else { return };
    drop(filled(instance.url()));
    let keep = Some(Durability::Commit);
    let examination = Examination { keep, ..Examination::new(instance.url()) };
    assert_eq!(codes(&examination), ["weaker-tier"]);
}

#[test]
fn a_mysql_without_double_writes_is_found() {
    let Some(instance) = server("mysql", &["--innodb-doublewrite=OFF"]) else { return };
    drop(filled(instance.url()));
    assert_eq!(codes(&Examination::new(instance.url())), ["without-doublewrite"]);
}

#[test]
fn a_table_without_its_index_and_a_server_with_few_connections_are_found() {
    let Some(mut instance) = server("mysql", &["--max-connections=20"]) else { return };
    drop(filled(instance.url()));
    let url = instance.url().to_owned();
    let many = Examination { workers: Some(200), ..Examination::new(url.clone()) };
    assert_eq!(codes(&many), ["few-connections"]);
    let socket = instance.server().unwrap().socket().to_owned();
    run(&socket, "ALTER TABLE sessile_session DROP KEY due");
    assert_eq!(codes(&Examination::new(url.clone())), ["index-missing"]);
    run(&socket, "ALTER TABLE sessile_session ADD KEY due (due)");
    run(&socket, "SET GLOBAL read_only = ON");
    assert_eq!(codes(&Examination::new(url)), ["server-read-only"]);
}
