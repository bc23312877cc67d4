//! The scripts that run on the server: each operation is one of them, and so one round trip.
//!
//! A script is sent by its digest; a server that does not know it yet (new, restarted, flushed)
//! answers NOSCRIPT and then gets the source once. Every key that a script touches is declared.

use std::sync::LazyLock;

use redis::{FromRedisValue, ToRedisArgs, Value};
use sessile_core::{Error, ErrorKind, Key, Result};

use super::bounded::Bounded;
use super::failure::unexpected;
use crate::connections::key_value::corrupt;

pub struct Script {
    source: &'static str,
    digest: LazyLock<String>,
}

macro_rules! script {
    ($file:literal) => {{
        const SOURCE: &str = concat!(include_str!("session.lua"), include_str!($file));
        fn digest() -> String {
            redis::Script::new(SOURCE).get_hash().to_owned()
        }
        Script { source: SOURCE, digest: LazyLock::new(digest) }
    }};
}

pub static BEGIN: Script = script!("begin.lua");
pub static COMMIT: Script = script!("commit.lua");
pub static CREATE: Script = script!("create.lua");
pub static DESTROY: Script = script!("destroy.lua");
pub static REGENERATE: Script = script!("regenerate.lua");
pub static RELEASE: Script = script!("release.lua");
pub static TOUCH: Script = script!("touch.lua");

impl Bounded<'_> {
    /// Runs a script on the keys of a session, and on others, in one round trip (two when the
    /// server does not know the script yet).
    pub fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        key: &Key,
        others: &[String],
        args: impl ToRedisArgs,
    ) -> Result<T> {
        let command = |name: &str, body: &str| {
            let mut command = redis::cmd(name);
            command.arg(body).arg(3 + others.len()).arg(&self.names.of(key)).arg(others).arg(&args);
            command
        };
        let by_digest = command("EVALSHA", &script.digest);
        self.pool.with(self.deadline, |connection| match by_digest.query(connection) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                command("EVAL", script.source).query(connection)
            }
            answer => answer,
        })
    }
}

/// The meaning of an answer, see `session.lua`: `None` for "done", or the bytes that a script has
/// to say.
pub fn done(answer: Value) -> Result<Option<Vec<u8>>> {
    Err(match answer {
        Value::Int(0) => return Ok(None),
        Value::BulkString(bytes) => return Ok(Some(bytes)),
        Value::Int(1) => stale(),
        Value::Int(2) => ErrorKind::Destroyed.into(),
        Value::Int(3) => ErrorKind::Gone.into(),
        Value::Int(4) => ErrorKind::Exists.into(),
        Value::Int(5) => corrupt(),
        _ => unexpected(),
    })
}

pub fn stale() -> Error {
    Error::from(ErrorKind::Stale).advice("raise lock_ttl_ms if requests may take longer than it")
}
