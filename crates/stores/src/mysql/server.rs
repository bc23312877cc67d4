//! The private MariaDB server.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sessile_core::Durability;

use crate::server_kind::ServerKind;

pub(super) const SERVER: ServerKind = ServerKind {
    name: "mariadbd",
    package: "mariadb-server",
    programs: &["mariadbd"],
    places: Vec::new,
    socket: "socket",
    refuses_root: true,
    ends_on: "TERM",
    prepare: Some(prepare),
    arguments,
    when_measured: &MEASURED,
    serves,
};

/// Creates a user `root` without a password (the socket is private) and the database `test`.
///
/// With its own directory for temporary tables: a starting server removes those that it finds, even
/// other servers' tables. The script takes no space in a path; it is run in the directory.
fn prepare(_server: &Path, _dir: &Path) -> Vec<OsString> {
    let words = [
        "mariadb-install-db",
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--datadir=./data",
        "--tmpdir=.",
    ];
    words.map(OsString::from).to_vec()
}

/// The buffer pool is only reserved until it is used. With the default of 128 MiB larger tables are
/// read from the disk past the system's cache, and readers wait for writes of changed pages. With
/// the default redo log of 96 MiB commits wait: a sweep of 100,000 sessions writes 370 MB.
const MEASURED: [&str; 2] = ["--innodb-buffer-pool-size=4G", "--innodb-log-file-size=1G"];

fn arguments(dir: &Path, socket: &Path, durability: Durability) -> Vec<OsString> {
    // None: written and synced about once a second. Second: written at each commit. The binary log
    // is off by default.
    let flush = match durability {
        Durability::None => "0",
        Durability::Second => "2",
        Durability::Commit => "1",
    };
    vec![
        "--no-defaults".into(),
        named("--datadir=", &dir.join("data")),
        named("--tmpdir=", dir),
        named("--socket=", socket),
        named("--pid-file=", &dir.join("pid")),
        "--skip-networking".into(),
        // Each lease has its own connection, and a case holds 300; the default is 151.
        "--max-connections=1000".into(),
        format!("--innodb-flush-log-at-trx-commit={flush}").into(),
    ]
}

fn named(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// The server listens before it serves; when it serves, it speaks first. A server that is stopped
/// before never does.
fn serves(mut stream: UnixStream) -> bool {
    let patient = stream.set_read_timeout(Some(Duration::from_secs(5)));
    patient.and_then(|()| stream.read_exact(&mut [0])).is_ok()
}
