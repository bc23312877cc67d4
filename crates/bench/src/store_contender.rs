//! A store of the registry as a contender, opened by URL as applications do.

use std::time::Duration;

use sessile_core::{
    Budget, Error, ErrorKind, Expiry, Key, Lease, Record, Result, Sessions, Swept, Ttl,
};
use sessile_stores::Context;

use crate::contender::Contender;
use crate::defaults::WAIT_MAX;
use crate::ids;
use crate::worker::protocol::OpenRequest;

pub(crate) struct StoreContender {
    sessions: Sessions,
    /// The URL, if each request reopens the store.
    reopened: Option<String>,
    keys: Vec<Key>,
    ttl: Ttl,
    lease: Option<Lease>,
    /// The record read last, so that the caller sees it without a copy.
    record: Option<Record>,
}

impl StoreContender {
    pub(crate) fn open(
        url: &str,
        reconnects: bool,
        opening: &OpenRequest,
    ) -> Result<StoreContender> {
        Ok(StoreContender {
            sessions: sessile_stores::open(url, &Context::default())?,
            reopened: reconnects.then(|| url.to_owned()),
            keys: ids::keys(opening.seed, opening.ids)?,
            ttl: Ttl::sliding(opening.ttl)?,
            lease: None,
            record: None,
        })
    }

    fn key(&self, session: usize) -> Result<&Key> {
        self.keys
            .get(session)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no id was prepared for it"))
    }

    fn payload(&self) -> Option<&[u8]> {
        self.record.as_ref().map(|record| record.payload.as_slice())
    }
}

impl Contender for StoreContender {
    fn prefetch_ids(&mut self, sessions: &[usize]) {
        let ids = sessions
            .iter()
            .filter_map(|session| self.keys.get(*session))
            .map(|key| key.id().as_bytes());
        // An id may span two cache lines.
        std::hint::black_box(
            ids.fold(0, |all, id| all ^ id.first().unwrap_or(&0) ^ id.last().unwrap_or(&0)),
        );
    }

    fn start_request(&mut self) -> Result<()> {
        if let Some(url) = &self.reopened {
            self.record = None;
            self.sessions = sessile_stores::open(url, &Context::default())?;
        }
        Ok(())
    }

    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        self.sessions.create(self.key(session)?, payload, Ttl::sliding(ttl)?)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        // A request has dropped what the previous one read.
        self.record = None;
        self.record = self.sessions.peek(self.key(session)?)?;
        Ok(self.payload())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.record = None;
        let begun = self.sessions.begin(self.key(session)?, WAIT_MAX)?;
        self.lease = Some(begun.lease);
        self.record = begun.record;
        Ok(self.payload())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        match self.lease.take() {
            Some(lease) => lease.commit(payload, self.ttl),
            None => Err(Error::new(ErrorKind::InvalidArgument, "no session was begun")),
        }
    }

    fn release(&mut self) -> Result<()> {
        self.lease.take().map_or(Ok(()), Lease::release)
    }

    fn touch(&mut self) -> Result<()> {
        let mut lease = self
            .lease
            .take()
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "no session was begun"))?;
        lease.touch(self.ttl)?;
        lease.release()
    }

    fn destroy(&mut self, session: usize) -> Result<()> {
        self.sessions.destroy(self.key(session)?)
    }

    fn sweep(&mut self, budget: Budget) -> Result<Swept> {
        self.sessions.sweep(budget)
    }

    fn collect_garbage(&mut self) -> Result<()> {
        match self.sessions.capabilities().expiry {
            Expiry::Sweep => self.sweep(Budget::default()).map(drop),
            Expiry::Native | Expiry::Changes => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sessile_fixtures::{Instance, ServerOptions, StartError};

    use super::*;
    use crate::payload_spread::PayloadSpread;
    use crate::reference::tests::Place;
    use crate::worker::protocol::ContenderSpec;

    fn opening(what: ContenderSpec) -> OpenRequest {
        let (ttl, spread) = (Duration::from_secs(60), PayloadSpread::Fixed);
        OpenRequest {
            contender: what,
            worker: 0,
            seed: 7,
            ids: 2,
            payload_bytes: 64,
            spread,
            ttl,
            lock_ttl: None,
        }
    }

    /// Two sessions live for a second; one of them is touched and must outlive the other, as it is.
    fn touched(contender: &mut dyn Contender) {
        let second = Duration::from_secs(1);
        contender.create(0, b"touched", second).unwrap();
        contender.create(1, b"left alone", second).unwrap();
        assert_eq!(contender.begin(0).unwrap(), Some(&b"touched"[..]));
        contender.touch().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while contender.read(1).unwrap().is_some() {
            assert!(Instant::now() < deadline, "it never expires");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(contender.read(0).unwrap(), Some(&b"touched"[..]));
        assert_eq!(contender.begin(0).unwrap(), Some(&b"touched"[..]), "its lock is free");
        contender.release().unwrap();
    }

    #[test]
    fn a_touch_moves_the_expiry_and_keeps_the_payload() {
        let what = ContenderSpec::Store { url: "memory:".to_owned(), reconnects: false };
        touched(&mut StoreContender::open("memory:", false, &opening(what)).unwrap());
        for name in [
            "lmdb",
            "redis-four-trips",
            "redis-two-trips",
            "memcached-four-trips",
            "memcached-two-trips",
        ] {
            if let Some(place) = Place::start(name) {
                touched(&mut *place.open());
            }
        }
    }

    #[test]
    fn a_request_connects_anew_only_where_that_is_measured() {
        let entry = sessile_stores::registry::by_name("redis").unwrap();
        let mut instance =
            match Instance::start(entry, &entry.fixtures[0], &ServerOptions::default()) {
                Err(error @ StartError::Missing { .. }) if std::env::var_os("CI").is_none() => {
                    return println!("skipped: {error}");
                }
                started => started.unwrap(),
            };
        let socket = instance.server().unwrap().socket().display().to_string();
        let mut asking =
            redis::Client::open(format!("redis+unix:{socket}")).unwrap().get_connection().unwrap();
        let mut connections = move || {
            let info: String = redis::cmd("INFO").arg("stats").query(&mut asking).unwrap();
            let count =
                info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
            count.unwrap().trim().parse::<u64>().unwrap()
        };
        let what = ContenderSpec::Store { url: instance.url().to_owned(), reconnects: false };
        let opening = opening(what);
        for (reconnects, expected) in [(false, 0), (true, 5)] {
            let mut contender = StoreContender::open(instance.url(), reconnects, &opening).unwrap();
            contender.read(0).unwrap();
            let before = connections();
            for _ in 0..5 {
                contender.start_request().unwrap();
                contender.read(0).unwrap();
            }
            let after = connections();
            assert!(
                after - before >= expected && (reconnects || after == before),
                "{} connections",
                after - before
            );
        }
    }

    #[test]
    fn garbage_is_collected_where_it_waits_for_that_and_left_where_it_goes_by_itself() {
        for (name, left) in [("files", 0), ("sessile", 1)] {
            let entry = sessile_stores::registry::by_name(name).unwrap();
            let instance =
                Instance::start(entry, &entry.fixtures[0], &ServerOptions::default()).unwrap();
            let what = ContenderSpec::Store { url: instance.url().to_owned(), reconnects: false };
            let (ttl, spread) = (Duration::from_secs(60), PayloadSpread::Fixed);
            let opening = OpenRequest {
                contender: what,
                worker: 0,
                seed: 7,
                ids: 1,
                payload_bytes: 64,
                spread,
                ttl,
                lock_ttl: None,
            };
            let mut contender = StoreContender::open(instance.url(), false, &opening).unwrap();
            contender.create(0, b"a cart", Duration::from_millis(1)).unwrap();
            while contender.read(0).unwrap().is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
            contender.collect_garbage().unwrap();
            assert_eq!(contender.sweep(Budget::default()).unwrap().removed, left, "{name}");
        }
    }
}
