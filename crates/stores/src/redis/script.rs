//! The scripts that run on the server: each operation is one of them, and so one round trip.
//!
//! A script is sent by its digest; a server that does not know it yet (new, restarted, flushed)
//! answers NOSCRIPT and then gets the source once. Every key that a script touches is declared.

use std::sync::LazyLock;

use redis::{Cmd, FromRedisValue, RedisError, RedisResult, ToRedisArgs, Value};
use sessile_core::{Error, ErrorKind, Key, Result};

use super::bounded::Bounded;
use super::connection::Connection;
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

pub static ARRIVE: Script = script!("arrive.lua");
pub static BEGIN: Script = script!("begin.lua");
pub static COMMIT: Script = script!("commit.lua");
pub static CREATE: Script = script!("create.lua");
pub static DEPART: Script = script!("depart.lua");
pub static DESTROY: Script = script!("destroy.lua");
pub static DESTROY_OWNED: Script = script!("destroy_owned.lua");
pub static REGENERATE: Script = script!("regenerate.lua");
pub static RELEASE: Script = script!("release.lua");
pub static TOUCH: Script = script!("touch.lua");
pub static WITHDRAW: Script = script!("withdraw.lua");

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
        let send = |command: &Cmd, connection: &mut Connection| command.query(connection);
        self.run_as(script, key, others, args, send)
    }

    fn run_as<T>(
        &self,
        script: &Script,
        key: &Key,
        others: &[String],
        args: impl ToRedisArgs,
        send: impl Fn(&Cmd, &mut Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let command = |name: &str, body: &str| {
            let mut command = redis::cmd(name);
            command.arg(body).arg(3 + others.len()).arg(&self.names.of(key)).arg(others).arg(&args);
            command
        };
        let by_digest = command("EVALSHA", &script.digest);
        self.servers.with(self.deadline, key, |connection| match send(&by_digest, connection) {
            Err(error) if says(&error, "NOSCRIPT") => {
                send(&command("EVAL", script.source), connection)
            }
            answer => answer,
        })
    }

    /// Runs a script that changes a session. If it has, `min_replicas` have the change, too.
    pub fn change(
        &self,
        script: &Script,
        key: &Key,
        others: &[String],
        args: impl ToRedisArgs,
    ) -> Result<Option<Vec<u8>>> {
        let Some(replicas) = self.replicas() else {
            return done(self.run(script, key, others, args)?);
        };
        let send = |command: &Cmd, connection: &mut Connection| {
            let mut both = redis::pipe();
            both.add_command(command.clone()).add_command(replicas.wait(self.deadline));
            // A change that was made is not refused because WAIT is: nobody has confirmed it.
            both.ignore_errors();
            let (answer, confirmed) = both.query::<Answers>(connection)?;
            Ok((answer?, confirmed.unwrap_or(0)))
        };
        type Answers = (RedisResult<Value>, RedisResult<u64>);
        let (answer, confirmed) = self.run_as(script, key, others, args, send)?;
        let said = done(answer)?;
        replicas.check(confirmed).map(|()| said)
    }
}

/// The first answer with an error decides.
fn says(error: &RedisError, code: &str) -> bool {
    let refused = error.clone().into_server_errors();
    refused.is_some_and(|all| all.first().is_some_and(|(_, first)| first.code() == code))
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
