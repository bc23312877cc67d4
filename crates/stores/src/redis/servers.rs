//! The servers of one opened store: one, the primary behind sentinels, or a cluster.
//!
//! Invariant: a request is sent to the server that has its session, and a connection is given back
//! to the server to which it leads.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use sessile_core::{Key, Result};

use super::cluster::{Cluster, Node};
use super::connection::{Connection, is_cluster};
use super::failure::translate;
use super::names::Names;
use super::slots::slot_of;
use super::target::Target;
use crate::connections::deadline::Deadline;
use crate::connections::options::{Address, Timeouts};
use crate::connections::pool::{Pool, PooledConnection};
use crate::store_url::{StoreUrl, invalid};

pub enum Servers {
    One(Node),
    Cluster(Box<Cluster>),
}

impl Servers {
    pub fn parse(url: &StoreUrl) -> Result<Servers> {
        let target = Target::parse(url)?;
        if !is_cluster(url) {
            return Ok(Servers::One(Arc::new(Pool::new(target))));
        }
        if !matches!(url.parts().path(), "" | "/" | "/0") {
            return Err(invalid("a cluster has only the database 0").advice("leave the path out"));
        }
        let cluster = Cluster::new(target.settings, Address::all(url, 6_379)?);
        Ok(Servers::Cluster(Box::new(cluster)))
    }

    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Servers::One(_) => None,
            Servers::Cluster(cluster) => Some(cluster),
        }
    }

    fn timeouts(&self) -> Timeouts {
        match self {
            Servers::One(node) => Connection::timeouts(&node.settings),
            Servers::Cluster(cluster) => cluster.settings.timeouts,
        }
    }

    /// For an operation that begins now, and may wait this long for a lock.
    pub fn deadline(&self, wait: Duration) -> Deadline {
        Deadline::new(wait, self.timeouts().response)
    }

    /// The server of a session.
    pub fn node_of(&self, deadline: Deadline, key: &Key) -> Result<Node> {
        match self {
            Servers::One(node) => Ok(Arc::clone(node)),
            Servers::Cluster(cluster) => cluster.node_of(deadline, slot_of(&Names::tag(key))),
        }
    }

    /// All servers with sessions, in a fixed order, by the names that they have in a cursor.
    pub fn all(&self, deadline: Deadline) -> Result<Vec<(String, Node)>> {
        match self {
            Servers::One(node) => Ok(vec![(String::new(), Arc::clone(node))]),
            Servers::Cluster(cluster) => {
                let named = |address: Address| Ok((address.to_string(), cluster.node(&address)?));
                cluster.primaries(deadline)?.into_iter().map(named).collect()
            }
        }
    }

    /// Runs an attempt on a connection to the server of a session, again while its failures are
    /// transient.
    pub fn with<T>(
        &self,
        deadline: Deadline,
        key: &Key,
        attempt: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let (answer, connection) = self.with_kept(deadline, key, attempt)?;
        self.give_back(connection);
        Ok(answer)
    }

    /// As [`Servers::with`], and keeps the connection.
    pub fn with_kept<T>(
        &self,
        deadline: Deadline,
        key: &Key,
        mut attempt: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<(T, Connection)> {
        match self {
            Servers::One(node) => node.with_kept(deadline, attempt),
            Servers::Cluster(cluster) => {
                let slot = slot_of(&Names::tag(key));
                cluster.retry(deadline, slot, |node, connection| node.on(connection, &mut attempt))
            }
        }
    }

    /// Runs an attempt once.
    pub fn once<T>(
        &self,
        deadline: Deadline,
        key: &Key,
        attempt: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<RedisResult<T>> {
        Ok(self.node_of(deadline, key)?.once(deadline, attempt))
    }

    /// Runs an attempt once on this connection, which is given back if it failed and is fit.
    pub fn on<T>(
        &self,
        connection: Connection,
        attempt: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<(T, Connection)> {
        self.owner(&connection)?.on(connection, attempt).map_err(translate)
    }

    /// Whether requests of the same session would still be sent over this connection.
    pub fn is_current(&self, connection: &Connection, deadline: Deadline) -> bool {
        let owner = self.owner(connection);
        owner.is_ok_and(|node| connection.is_current(&node.settings, deadline))
    }

    /// Takes back a connection that holds nothing.
    pub fn give_back(&self, connection: Connection) {
        if let Ok(node) = self.owner(&connection) {
            node.give_back(connection);
        }
    }

    fn owner(&self, connection: &Connection) -> Result<Node> {
        match self {
            Servers::One(node) => Ok(Arc::clone(node)),
            Servers::Cluster(cluster) => cluster.node(&connection.address),
        }
    }
}
