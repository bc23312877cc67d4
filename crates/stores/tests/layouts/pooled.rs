//! What a walk leaves behind on a connection to the server: a proxy that pools transactions gives
//! it to whoever comes next.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::setup::{Private, walked};
use crate::tables::psql;

/// A connection to the server that outlives its client, and all that the server has said on it.
struct Kept {
    server: UnixStream,
    said: Arc<Mutex<Vec<u8>>>,
}

/// Serves one client, and keeps the connection to the server when that has gone.
fn pool(socket: &Path, server: &Path) -> JoinHandle<Kept> {
    let listener = UnixListener::bind(socket).unwrap();
    let mut server = UnixStream::connect(server).unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (mut from, mut to, heard) =
            (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut buffer = [0; 8_192];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                heard.lock().unwrap().extend_from_slice(&buffer[..count]);
                // The client may have gone; whoever comes next is heard, too.
                let _ = to.write_all(&buffer[..count]);
            }
        });
        let _ = std::io::copy(&mut client, &mut server);
        Kept { server, said }
    })
}

impl Kept {
    /// The settings that the next client meets.
    fn settings(mut self) -> String {
        let sql =
            b"SELECT 'settings: ' || current_setting('default_transaction_read_only') || '|' ||
            current_setting('statement_timeout') || '|' || current_setting('search_path') || '.'\0";
        let length = u32::try_from(4 + sql.len()).unwrap().to_be_bytes();
        self.server.write_all(&[b"Q".as_slice(), &length, sql].concat()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let said = String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned();
            if let Some((settings, _)) =
                said.split_once("settings: ").and_then(|(_, rest)| rest.split_once('.'))
            {
                return settings.to_owned();
            }
            assert!(Instant::now() < deadline, "the server says nothing more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A scan through PgBouncer with `pool_mode = transaction` set its session to read-only. The
/// setting stayed on the connection, and the application that was served by it next could not write
/// its sessions.
#[test]
fn whoever_is_given_the_connection_next_can_write() {
    let Some(private) = Private::start("postgres", &[]) else { return };
    psql(
        private.server.socket().parent().unwrap(),
        "CREATE TABLE django_session (session_key VARCHAR(40) PRIMARY KEY, session_data TEXT, \
         expire_date TIMESTAMPTZ);
        INSERT INTO django_session VALUES ('secret', 'x', now())",
    );
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pool");
    let kept = pool(&socket, private.server.socket());
    let options = "user=postgres&database=postgres&schema=public&response_timeout_ms=4000";
    assert_eq!(
        walked(&format!("django+postgres+unix:{}?{options}", socket.display()), 10).0.len(),
        1
    );
    assert_eq!(kept.join().unwrap().settings(), "off|0|\"$user\", public");
}
