//! The real PgBouncer before the server: refused where it pools transactions, used where it pools
//! sessions.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::unistd::{Uid, User, chown};
use sessile_core::{ErrorKind, Result, Sessions};
use sessile_fixtures::PrivateDir;
use sessile_stores::Context;

use crate::setup::support::server::free_port;
use crate::setup::{Private, WAIT, key, ttl, until};

/// It refuses to run as root.
const ORDINARY_USER: &str = "nobody";

struct Pooler {
    child: Child,
    port: u16,
    _dir: PrivateDir,
}

impl Pooler {
    fn before(private: &Private, pool_mode: &str) -> Option<Pooler> {
        let Some(program) = program() else {
            assert!(std::env::var_os("CI").is_none(), "pgbouncer is not installed");
            eprintln!("SKIPPED: pgbouncer is not installed");
            return None;
        };
        let (dir, port) = (PrivateDir::on_disk().unwrap(), free_port());
        let settings = dir.path().join("pgbouncer.ini");
        let server = private.dir();
        let text = format!(
            "[databases]\npostgres = host={} port=5432 user=postgres\n[pgbouncer]\nlisten_addr = \
             127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = \
             {pool_mode}\n",
            server.display()
        );
        std::fs::write(&settings, text).unwrap();
        let mut command = Command::new(program);
        if Uid::effective().is_root() {
            let user = User::from_name(ORDINARY_USER).unwrap().unwrap();
            chown(dir.path(), Some(user.uid), Some(user.gid)).unwrap();
            command.args(["--user", ORDINARY_USER]);
        }
        let child = command.arg(&settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let pooler = Pooler { child: child.unwrap(), port, _dir: dir };
        until("the pooler listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(pooler)
    }

    fn open(&self) -> Result<Sessions> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        sessile_stores::open(&url, &Context::default())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]
        .map(PathBuf::from)
        .into_iter()
        .find(|it| it.exists())
}

#[test]
fn a_pooler_of_transactions_is_refused_with_advice() {
    let Some(private) = Private::start() else { return };
    for mode in ["transaction", "statement"] {
        let Some(pooler) = Pooler::before(&private, mode) else { return };
        let error = pooler.open().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Incompatible, "{mode}: {error:#}");
        assert!(format!("{error:#}").contains("pool_mode = session"), "{mode}: {error:#}");
    }
}

#[test]
fn a_pooler_of_sessions_is_used() {
    let Some(private) = Private::start() else { return };
    let Some(pooler) = Pooler::before(&private, "session") else { return };
    let store = pooler.open().unwrap();
    for number in 0..20_u8 {
        let begun = store.begin(&key("a"), WAIT).unwrap();
        let taken = store.begin(&key("a"), std::time::Duration::ZERO).unwrap_err();
        assert!(matches!(taken.kind(), ErrorKind::LockTimeout { .. }), "{taken:#}");
        begun.lease.commit(&[number], ttl()).unwrap();
    }
    assert_eq!(store.begin(&key("a"), WAIT).unwrap().record.unwrap().payload, [19]);
}
