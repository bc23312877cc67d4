//! Connections: how commands get to the server and their answers back.
//!
//! Invariants: a connection that failed is never used again; every request that is sent again is one that recognises
//! itself on the server by a token. What a fork must not share is the business of `idle.rs`: dropping a connection of
//! this client closes this process's descriptors and sends nothing (no QUIT, no TLS alert).

use std::time::Duration;

use redis::{Cmd, Connection, ConnectionLike, RedisError, RedisResult, Value};
use sessile_core::Result;

use super::failure::{breaks_connection, is_transient, translate};
use super::options::Options;
use super::script::Script;
use crate::idle::{Idle, retry};

pub(super) struct Pool {
    options: Options,
    idle: Idle<Connection>,
}

impl Pool {
    pub(super) fn new(options: Options) -> Pool {
        Pool { options, idle: Idle::default() }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Runs a script in one round trip (two when the server does not know it yet).
    pub(super) fn run(&self, script: &Script, keys: &[String], args: &[&[u8]]) -> Result<Value> {
        let command = |name: &str, body: &str| {
            let mut command = redis::cmd(name);
            command.arg(body).arg(keys.len()).arg(keys);
            for arg in args {
                command.arg(*arg);
            }
            command
        };
        let by_digest = command("EVALSHA", &script.digest);
        self.retry(|connection| match send(connection, &by_digest) {
            Err(error) if error.code() == Some("NOSCRIPT") => send(connection, &command("EVAL", script.source)),
            answer => answer,
        })
    }

    /// Sends one idempotent command.
    pub(super) fn call(&self, command: &Cmd) -> Result<Value> {
        self.retry(|connection| send(connection, command))
    }

    /// Sends several idempotent commands in one write.
    pub(super) fn pipeline(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>> {
        self.retry(|connection| pipeline.query(connection))
    }

    /// Sends several idempotent commands in one write, and keeps the connection for [`Pool::finish`].
    pub(super) fn pin(&self, pipeline: &redis::Pipeline) -> Result<(Vec<Value>, Connection)> {
        self.retry_on(|pool| {
            let mut connection = pool.take()?;
            match pipeline.query(&mut connection) {
                Ok(answers) => Ok((answers, connection)),
                Err(error) => Err(pool.put_away(connection, error)),
            }
        })
    }

    /// Sends several commands in one write over a pinned connection, once. `None` when it broke or the server
    /// refused one of them: whether they were carried out must then be found out another way.
    pub(super) fn finish(&self, mut connection: Connection, pipeline: &redis::Pipeline) -> Option<Vec<Value>> {
        let answers = connection.req_packed_commands(&pipeline.get_packed_pipeline(), 0, pipeline.len()).ok()?;
        self.give_back(connection);
        Some(answers)
    }

    /// Takes back a connection that is pinned no longer. What it watches is forgotten with its next begin.
    pub(super) fn unpin(&self, connection: Connection) {
        self.give_back(connection);
    }

    /// Sends a command that blocks on the server for at most `wait`, once. `Nil` when the connection broke:
    /// the caller looks again anyway.
    pub(super) fn block(&self, command: &Cmd, wait: Duration) -> Result<Value> {
        let timeout = self.options.response_timeout;
        let answer = self.take().and_then(|mut connection| {
            connection.set_read_timeout(Some(timeout + wait))?;
            let answer = send(&mut connection, command)?;
            connection.set_read_timeout(Some(timeout))?;
            self.give_back(connection);
            Ok(answer)
        });
        match answer {
            Err(error) if is_transient(&error) => Ok(Value::Nil),
            answer => answer.map_err(translate),
        }
    }

    fn retry<T>(&self, mut request: impl FnMut(&mut Connection) -> RedisResult<T>) -> Result<T> {
        self.retry_on(|pool| {
            let mut connection = pool.take()?;
            match request(&mut connection) {
                Ok(answer) => {
                    pool.give_back(connection);
                    Ok(answer)
                }
                Err(error) => Err(pool.put_away(connection, error)),
            }
        })
    }

    fn retry_on<T>(&self, mut attempt: impl FnMut(&Pool) -> RedisResult<T>) -> Result<T> {
        retry(is_transient, || attempt(self)).map_err(translate)
    }

    /// What becomes of a connection on which a request failed.
    fn put_away(&self, connection: Connection, error: RedisError) -> RedisError {
        if breaks_connection(&error) {
            drop(connection);
            self.idle.clear();
        } else {
            self.give_back(connection);
        }
        error
    }

    fn take(&self) -> RedisResult<Connection> {
        if let Some(connection) = self.idle.take() {
            return Ok(connection);
        }
        let options = &self.options;
        let connection = options.client.get_connection_with_timeout(options.connect_timeout)?;
        connection.set_read_timeout(Some(options.response_timeout))?;
        connection.set_write_timeout(Some(options.response_timeout))?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        if connection.is_open() {
            self.idle.put(connection);
        }
    }
}

fn send(connection: &mut Connection, command: &Cmd) -> RedisResult<Value> {
    match connection.req_command(command)? {
        Value::ServerError(error) => Err(error.into()),
        value => Ok(value),
    }
}
