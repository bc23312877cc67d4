//! One request of a workload. What it does is drawn in the timed part, which costs as much as the choice of a session.

use sessile_core::Result;

use super::{Outcome, Sample, Times};
use crate::traffic::{Deed, Workload};

impl Sample<'_> {
    /// Nobody comes for the first time in the warm-up: there are only so many ids.
    pub(super) fn request(&mut self, workload: Workload, times: &mut Times) -> Result<Outcome> {
        match workload.mix().deed(self.random.u8(..100)) {
            Deed::Read => self.read(),
            Deed::Touch => self.touch(),
            Deed::First if self.recording => match self.fresh.next() {
                Some(session) => self.start_anew(session),
                None => self.cycle(times),
            },
            Deed::Change | Deed::First => self.cycle(times),
        }
    }

    /// A request that changes nothing.
    fn touch(&mut self) -> Result<Outcome> {
        let session = self.choose();
        let found = self.contender.begin(session)?;
        let missed = found.is_none();
        let intact = found.is_some_and(|payload| self.payloads.check(session as u64, payload).is_some());
        if !intact {
            self.contender.release()?;
            return Ok(if missed { Outcome::Missed } else { Outcome::Damaged });
        }
        self.contender.touch()?;
        Ok(Outcome::Done)
    }
}
