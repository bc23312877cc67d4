//! The private PostgreSQL server.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sessile_core::Durability;

use crate::server_kind::ServerKind;

pub(super) const SERVER: ServerKind = ServerKind {
    name: "postgres",
    package: "postgresql",
    programs: &["postgres"],
    places,
    socket: ".s.PGSQL.5432",
    refuses_root: true,
    ends_on: "INT", // TERM would wait for clients
    prepare: Some(prepare),
    arguments,
    // As much as MariaDB gets for its pages; the default is 128 MB.
    when_measured: &["-c", "shared_buffers=4GB"],
    serves,
};

/// Debian has a directory for each version, not in PATH. The newest comes first.
fn places() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    versions.into_iter().map(|path| path.join("bin")).collect()
}

/// Creates a user `postgres` without a password: the socket is private.
fn prepare(server: &Path, dir: &Path) -> Vec<OsString> {
    // The program may be a link; the others are next to its target.
    let real = server.canonicalize().unwrap_or_else(|_| server.to_owned());
    let words = [
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        "--pgdata",
    ];
    let line = std::iter::once(real.with_file_name("initdb").into_os_string());
    line.chain(words.iter().map(OsString::from))
        .chain([dir.join("data").into_os_string()])
        .collect()
}

fn arguments(dir: &Path, _socket: &Path, durability: Durability) -> Vec<OsString> {
    let (fsync, synchronous_commit) = match durability {
        // Without fsync, asynchronous commits gain nothing and cost much: in this version each
        // transaction, even a read that prunes a page, wakes the WAL writer.
        Durability::None => ("off", "on"),
        Durability::Second => ("on", "off"),
        Durability::Commit => ("on", "on"),
    };
    let settings = [
        // Pages that are torn at a power cut matter to nobody who does not sync.
        format!("full_page_writes={fsync}"),
        format!("fsync={fsync}"),
        format!("synchronous_commit={synchronous_commit}"),
        "listen_addresses=".into(),
        // Each lease has its own connection, and a case holds 300; the default is 100.
        "max_connections=400".into(),
    ];
    let settings = settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting.into()]);
    let places = [OsString::from("-D"), dir.join("data").into(), "-k".into(), dir.into()];
    places.into_iter().chain(settings).collect()
}

/// The server listens before it serves. It answers the startup message of the user `postgres` with
/// an authentication request (R) or an error (E).
fn serves(mut stream: UnixStream) -> bool {
    let parameters = b"user\0postgres\0\0";
    let length = 8 + parameters.len() as u32;
    let message = [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), parameters].concat();
    let mut first = [0];
    let answered = stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .and_then(|()| stream.write_all(&message))
        .and_then(|()| stream.read_exact(&mut first));
    answered.is_ok() && first == *b"R"
}
