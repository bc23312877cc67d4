//! Where the pooled connections of a store lead: to one server, or to the primary that sentinels
//! name.

use std::time::{Duration, Instant};

use redis::{ConnectionLike, RedisError, RedisResult};
use sessile_core::{Error, Result};

use super::connection::{Connection, Settings};
use super::failure::translate;
use super::sentinel::Sentinels;
use crate::connections::deadline::Deadline;
use crate::connections::options::Timeouts;
use crate::connections::pool::{FAILOVER_MAX, PooledConnection};
use crate::store_url::StoreUrl;

pub struct Target {
    pub settings: Settings,
    sentinels: Option<Sentinels>,
}

impl Target {
    pub fn parse(url: &StoreUrl) -> Result<Target> {
        Ok(Target { settings: Settings::parse(url)?, sentinels: Sentinels::parse(url)? })
    }

    pub fn server(settings: Settings) -> Target {
        Target { settings, sentinels: None }
    }
}

impl PooledConnection for Connection {
    type Settings = Target;
    type Failure = RedisError;

    fn timeouts(target: &Target) -> Timeouts {
        target.settings.timeouts
    }

    fn open(target: &Target, deadline: Instant) -> RedisResult<Connection> {
        match &target.sentinels {
            None => Connection::connect(&target.settings, deadline),
            Some(sentinels) => sentinels.connect(&target.settings, deadline),
        }
    }

    fn set_deadline(&mut self, deadline: Instant) {
        Connection::set_deadline(self, deadline);
    }

    fn is_reusable(&self) -> bool {
        self.is_open()
    }

    fn translate(_: &Target, failure: RedisError) -> Error {
        translate(failure)
    }

    fn is_current(&self, target: &Target, deadline: Deadline) -> bool {
        let check =
            |sentinels: &Sentinels| sentinels.still_lead_to(self, &target.settings, deadline);
        target.sentinels.as_ref().is_none_or(check)
    }

    fn failover(target: &Target) -> Option<Duration> {
        target.sentinels.as_ref().map(|_| FAILOVER_MAX)
    }
}
