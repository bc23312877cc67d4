//! The connections of one opened store: how requests get one, and what becomes of it.
//!
//! Invariants: an idle link holds no lock and is in no transaction; a link that failed is dropped, and with it the idle
//! ones, which are as old; what is tried again is idempotent.

use postgres_types::ToSql;
use sessile_core::Result;

use super::answer::Answer;
use super::failure::{Failure, Tried};
use super::link::{Call, Link};
use super::options::Options;
use super::schema::Names;
use super::statements::{Sql, Statements};
use crate::idle::{Idle, retry};

pub(super) struct Pool {
    pub options: Options,
    pub names: Names,
    pub statements: Statements,
    idle: Idle<Link>,
}

impl Pool {
    /// With the connection that has looked at the tables.
    pub fn new(options: Options, names: Names, first: Link) -> Pool {
        let pool = Pool { statements: Statements::new(&names), options, names, idle: Idle::default() };
        pool.give_back(first);
        pool
    }

    /// Runs an attempt on a connection, again while its failures are transient.
    pub fn with<T>(&self, mut attempt: impl FnMut(&mut Link) -> Tried<T>) -> Result<T> {
        self.retry(|| {
            let mut link = self.take()?;
            let done = attempt(&mut link);
            self.put_away(link, &done);
            done
        })
    }

    /// Runs an attempt that takes and returns connections itself, again while its failures are transient.
    pub fn retry<T>(&self, attempt: impl FnMut() -> Tried<T>) -> Result<T> {
        retry(Failure::is_transient, attempt).map_err(Failure::translate)
    }

    /// Statements on a link, with the usual patience.
    pub fn run<const N: usize>(&self, link: &mut Link, calls: [Call<'_>; N]) -> Tried<[Tried<Answer>; N]> {
        link.run(&self.statements, calls, self.options.timeouts.response)
    }

    /// Statements on a link in one transaction, with the usual patience.
    pub fn run_as_one<const N: usize>(&self, link: &mut Link, calls: [Call<'_>; N]) -> Tried<[Tried<Answer>; N]> {
        link.run_as_one(&self.statements, calls, self.options.timeouts.response)
    }

    /// One statement on a link, with the usual patience.
    pub fn run_one(&self, link: &mut Link, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Tried<Answer> {
        link.run_one(&self.statements, sql, values, self.options.timeouts.response)
    }

    /// A connection for a request or a lease.
    pub fn take(&self) -> Tried<Link> {
        match self.idle.take() {
            Some(link) => Ok(link),
            None => self.connect(),
        }
    }

    /// A new connection.
    pub fn connect(&self) -> Tried<Link> {
        let mut link = Link::connect(&self.options)?;
        link.greet(&self.options)?;
        link.meet(&self.names, self.options.timeouts.response)?;
        Ok(link)
    }

    /// What becomes of a connection after a request.
    pub fn put_away<T>(&self, link: Link, done: &Tried<T>) {
        match done {
            Err(failure) if failure.breaks_connection() => {
                drop(link);
                self.idle.clear();
            }
            _ => self.give_back(link),
        }
    }

    /// Takes back a connection that holds nothing.
    pub fn give_back(&self, link: Link) {
        if link.usable() {
            self.idle.put(link);
        }
    }
}
