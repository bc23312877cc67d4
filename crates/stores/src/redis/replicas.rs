//! `min_replicas`: how many replicas must have a change before it is told as done.
//!
//! WAIT counts the replicas that have all that this connection has written. A change that turns out
//! to have been made before, over another connection, writes something again for that reason.
//! Source: the vendor's page on WAIT. It does not make a failover lose nothing: a replica may be
//! promoted that is none of those counted.

use std::time::Duration;

use redis::Cmd;
use sessile_core::{Error, ErrorKind, Result};

use crate::connections::deadline::Deadline;

#[derive(Clone, Copy)]
pub struct Replicas(pub u64);

impl Replicas {
    /// Waits for a part of what is left, so that the answer arrives within it.
    pub fn wait(self, deadline: Deadline) -> Cmd {
        let time = deadline.left().mul_f32(0.8).max(Duration::from_millis(1));
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.0).arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        wait
    }

    /// In doubt if fewer have confirmed it.
    pub fn check(self, confirmed: u64) -> Result<()> {
        if confirmed >= self.0 {
            return Ok(());
        }
        let wanted = self.0;
        let why = format!(
            "the change was made, but only {confirmed} of {wanted} replicas have confirmed it in \
             time: a failover may lose it"
        );
        Err(Error::new(ErrorKind::Unreachable, why).advice(
            "begin anew and look at the session; bring the replicas back, or lower min_replicas",
        ))
    }
}
