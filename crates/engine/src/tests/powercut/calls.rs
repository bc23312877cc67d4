//! The calls of a history: one operation of the contract each, with what it makes of its sessions.

use std::time::Duration;

use sessile_core::{Budget, OwnerChange, Store, Timestamp, Ttl};

use super::history::{History, START, key};
use super::model::ChangeKind::{Destroy, Touch, Write};
use super::model::{Change, Content, payload};
use crate::Engine;
use crate::operations::HeldEntry;

/// How long a regenerated id leads on.
pub const GRACE: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(86_400);

impl History {
    pub fn call(&self, engine: &Engine, depth: usize) {
        let mut number = self.draw(0..self.plan.sessions as u64) as usize;
        if depth == 0 {
            self.about.set(number);
        } else if self.chance(50) {
            number = self.about.get(); // two changes of one session
        }
        let now = self.clock.now();
        let content = self.content(number);
        let live = content.is_live(now);
        let alias = matches!(content, Content::Alias { until, .. } if until > now);
        match self.draw(0..100) {
            draw if draw < u64::from(self.plan.destroys) => self.destroy(engine, number),
            0..40 if alias => {}
            0..62 => self.commit(engine, number, depth),
            62..70 if !live && !alias => self.create(engine, number),
            62..80 if live => self.touch(engine, number),
            80..85 if live => self.regenerate(engine, number),
            85..88 => {
                let budget = Budget { records_max: 1_000, time_max: Duration::from_secs(5) };
                if let Err(error) = engine.sweep(budget) {
                    self.refused(&error);
                }
            }
            88..91 => self.sync(engine, depth),
            91..98 if depth == 0 => self.wait(),
            _ => {}
        }
    }

    fn refused(&self, error: &sessile_core::Error) {
        if self.plan.faults == 0 && self.plan.room.is_none() && !self.may_fail(error) {
            self.wrong(format!("maintenance fails: {error:#}"));
        }
    }

    fn content(&self, number: usize) -> Content {
        self.sessions.borrow()[number].latest().content
    }

    fn is_changing(&self, number: usize) -> bool {
        self.sessions.borrow()[number].under_way().next().is_some()
    }

    fn ttl(&self) -> Duration {
        let short = self.chance(self.plan.short);
        let times = if short { [2, 5, 20] } else { [600, 7_200, 30 * DAY.as_secs()] };
        Duration::from_secs(times[self.draw(0..3) as usize])
    }

    fn payload_bytes(&self) -> usize {
        if self.chance(self.plan.chunked) {
            return self.draw(66_000..200_000) as usize;
        }
        self.draw(8..self.plan.payload_bytes_max as u64) as usize
    }

    /// A record written now, and with which time to live.
    fn fresh(&self, before: Content) -> (Content, Vec<u8>, Ttl) {
        let (now, idle, bytes) = (self.clock.now(), self.ttl(), self.payload_bytes());
        let mut ttl = Ttl::sliding(idle).unwrap();
        let ends = match before {
            Content::Record { expires, ends, .. } if expires > now => ends,
            _ if self.chance(10) => {
                let lifetime = idle * 2;
                ttl = ttl.within(lifetime).unwrap();
                Some(now.plus(lifetime))
            }
            _ => None,
        };
        let (expires, tag) = (end(now.plus(idle), ends), self.random.borrow_mut().u64(..));
        let ttl_ms = idle.as_millis() as u64;
        let content = Content::Record { tag, bytes, expires, ttl_ms, ends };
        (content, payload(tag, bytes), ttl)
    }

    fn take(&self, engine: &Engine, number: usize) -> Option<HeldEntry> {
        let begun = self.change(&[], Write, || engine.begin(&key(number), Duration::ZERO));
        let (held, _, found) = begun?;
        if found.record.is_none() {
            self.sessions.borrow_mut()[number].end_refused_destroy(self.moment());
        }
        Some(held)
    }

    fn commit(&self, engine: &Engine, number: usize, depth: usize) {
        let now = self.clock.now();
        let leads_on = matches!(self.content(number), Content::Alias { until, .. } if until > now);
        if leads_on || self.is_touched(number) {
            return;
        }
        let Some(held) = self.take(engine, number) else { return };
        if depth == 0 && self.chance(self.plan.nested) {
            self.step(1);
            self.active.borrow_mut().truncate(1);
        }
        let (content, payload, ttl) = self.fresh(self.content(number));
        self.change(&[(number, content)], Write, || {
            engine.commit(held, &payload, ttl, OwnerChange::Keep)
        });
    }

    /// Whether a touch is under way, which may be for the record of before or after.
    fn is_touched(&self, number: usize) -> bool {
        let touches = |change: &Change| change.kind == Touch;
        self.sessions.borrow()[number].under_way().any(touches)
    }

    fn create(&self, engine: &Engine, number: usize) {
        let (content, payload, ttl) = self.fresh(Content::Nothing);
        self.change(&[(number, content)], Write, || engine.create(&key(number), &payload, ttl));
    }

    fn touch(&self, engine: &Engine, number: usize) {
        let Content::Record { tag, bytes, ends, .. } = self.content(number) else { return };
        if self.is_changing(number) || self.sessions.borrow()[number].refused_destroy().is_some() {
            return; // it may be for the record of before or after, or end the log-out
        }
        let idle = self.ttl();
        let expires = end(self.clock.now().plus(idle), ends);
        let ttl_ms = idle.as_millis() as u64;
        let content = Content::Record { tag, bytes, expires, ttl_ms, ends };
        let ttl = Ttl::sliding(idle).unwrap();
        self.change(&[(number, content)], Touch, || engine.touch(&key(number), ttl));
    }

    fn destroy(&self, engine: &Engine, number: usize) {
        let leads_on = |change: &Change| matches!(change.content, Content::Alias { .. });
        if self.sessions.borrow()[number].under_way().any(leads_on) {
            return; // it may destroy what the id leads to
        }
        let (now, before) = (self.clock.now(), self.content(number));
        let leads_on = matches!(before, Content::Alias { until, .. } if until > now);
        if !before.is_live(now) && !leads_on && !self.is_changing(number) {
            // Leaves no tombstone. A rebuild may put off the end of what has expired, and a power
            // cut may show what was refused: DESIGN.md, "Known weaknesses".
            self.change(&[(number, before)], Touch, || engine.destroy(&key(number)));
            return;
        }
        let (mut effects, mut next) = (vec![(number, Content::Nothing)], number);
        while let Content::Alias { session, until } = self.content(next)
            && until > self.clock.now()
            && effects.iter().all(|(known, _)| *known != session)
        {
            effects.push((session, Content::Nothing));
            next = session;
        }
        self.change(&effects, Destroy, || engine.destroy(&key(number)));
    }

    fn regenerate(&self, engine: &Engine, number: usize) {
        let now = self.clock.now();
        let is_free = |other: &usize| {
            let content = self.content(*other);
            let alias = matches!(content, Content::Alias { until, .. } if until > now);
            *other != number && !content.is_live(now) && !alias
        };
        if self.is_touched(number) {
            return;
        }
        let Some(new) = (number % 8..self.plan.sessions).step_by(8).find(is_free) else { return };
        let Some(mut held) = self.take(engine, number) else { return };
        let grace = if self.chance(30) { GRACE } else { Duration::ZERO };
        let left = if grace.is_zero() {
            Content::Nothing
        } else {
            Content::Alias { session: new, until: now.plus(grace) }
        };
        // A rebuild takes the time since the last commit for the time to live of the copy.
        let copy = match self.content(number) {
            Content::Record { tag, bytes, expires, ends, .. } => {
                let ttl_ms = expires.as_ms() - START.as_ms();
                Content::Record { tag, bytes, expires, ttl_ms, ends }
            }
            content => content,
        };
        let effects = [(new, copy), (number, left)];
        let moved = self.change(&effects, Write, || engine.regenerate(&mut held, &key(new), grace));
        if moved.is_some() && self.chance(50) {
            let (content, payload, ttl) = self.fresh(self.content(new));
            self.change(&[(new, content)], Write, || {
                engine.commit(held, &payload, ttl, OwnerChange::Keep)
            });
        } else {
            self.change(&[], Write, || engine.release(held));
        }
    }

    fn sync(&self, engine: &Engine, depth: usize) {
        let (began, failures) = {
            let disk = self.disk.data.lock().unwrap();
            (disk.moment, disk.failures)
        };
        match engine.sync() {
            Ok(()) if depth == 0 => {
                let mut disk = self.disk.data.lock().unwrap();
                if disk.failures > failures {
                    return;
                }
                disk.checkpoint = disk.checkpoint.max(began);
                disk.failed = false;
            }
            Ok(()) => {}
            Err(error) => self.refused(&error),
        }
    }

    /// Time passes: mostly some of a second, now and then so much that sessions and tombstones
    /// expire.
    fn wait(&self) {
        let by = match self.draw(0..40) {
            _ if self.chance(self.plan.long_waits) => self.draw(3_000_000..8_000_000),
            0..3 => self.draw(2_000..700_000),
            _ => self.draw(10..1_500),
        };
        self.clock.advance(Duration::from_millis(by));
    }
}

fn end(expires: Timestamp, ends: Option<Timestamp>) -> Timestamp {
    ends.map_or(expires, |ends| ends.min(expires))
}
