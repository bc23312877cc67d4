//! Wants the locks of dead holders, at once, so that it is seen when they are free.
//!
//! It is a client of the store like any other, on a thread of the checker's process; its calls are reported and
//! judged like those of the workers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use sessile_core::{Result, Sessions};

use super::actor::Actor;
use super::event::Event;
use super::payload::Content;

/// The number under which the checker knows it.
pub const PROBER: usize = 0;

/// What it is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Take and release the lock of a session.
    Lock(u64),
    /// The holder of this session died while it moved to the second id: is the record under either?
    Moved(u64, u64),
    /// Read a session.
    Read(u64),
}

/// Does errands until nobody can give any more.
pub fn serve(store: Sessions, nonce: u64, errands: &Receiver<Errand>, report: Sender<(u64, Event)>) -> Result<()> {
    // Fails only when the checker has ended, and then nobody needs the report.
    let say = move |at_ns, event| drop(report.send((at_ns, event)));
    let mut actor = Actor::new(store, nonce, Box::new(say));
    loop {
        match errands.recv_timeout(Duration::from_secs(3_600)) {
            Ok(Errand::Lock(id)) => {
                if let Some(held) = actor.begin(id) {
                    actor.release(held, false);
                }
            }
            Ok(Errand::Moved(id, new)) => {
                if let Some(held) = actor.begin(id) {
                    // Under the lock of the one, so that it cannot arrive there meanwhile.
                    if held.id == id && held.content == Content::Missing {
                        actor.peek(new);
                    }
                    actor.release(held, false);
                }
            }
            Ok(Errand::Read(id)) => actor.peek(id),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
