//! The idle connections of one opened store to its server.
//!
//! Invariant: a process never gets a connection that another one opened. A child drops inherited
//! connections at its first request. So dropping a connection must send nothing: it may only close
//! this process's descriptors, which the server does not see while the parent has its own.

use crate::locks::process_local::ProcessLocal;

/// The most idle connections; beyond, each request opens and closes its own.
const IDLE_MAX: usize = 32;

pub struct Idle<C>(ProcessLocal<Vec<C>>);

impl<C> Default for Idle<C> {
    fn default() -> Idle<C> {
        Idle(ProcessLocal::default())
    }
}

impl<C> Idle<C> {
    /// The connection that was put back last: the likeliest to be alive.
    pub fn take(&self) -> Option<C> {
        self.0.with(Vec::pop).flatten()
    }

    pub fn put(&self, connection: C) {
        self.0.with(|idle| {
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        });
    }

    /// Drops all, after one was found broken: a restart of the server must not cost one retry for
    /// each.
    pub fn clear(&self) {
        drop(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_bounded_number_is_kept() {
        let idle = Idle::default();
        (0..1_000).for_each(|number| idle.put(number));
        assert_eq!(std::iter::from_fn(|| idle.take()).count(), IDLE_MAX);
    }
}
