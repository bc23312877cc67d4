//! One request of a workload. Its operation is drawn in the timed part, which costs as much as
//! choosing a session.

use sessile_core::Result;
use sessile_results::workload::{RequestKind, Workload};

use super::{OpOutcome, OpTimes, SampleRun};

impl SampleRun<'_> {
    /// The warm-up creates no sessions: the ids are limited.
    pub(super) fn request(&mut self, workload: Workload, times: &mut OpTimes) -> Result<OpOutcome> {
        match workload.mix().kind_at(self.random.u8(..100)) {
            RequestKind::Touch => self.touch(),
            RequestKind::NewSession if self.recording => match self.fresh.next() {
                Some(session) => self.create_missing(session),
                None => self.cycle(times),
            },
            RequestKind::Change | RequestKind::NewSession => self.cycle(times),
        }
    }

    fn touch(&mut self) -> Result<OpOutcome> {
        let session = self.choose();
        let found = self.contender.begin(session)?;
        let missed = found.is_none();
        let intact =
            found.is_some_and(|payload| self.payloads.check(session as u64, payload).is_some());
        if !intact {
            self.contender.release()?;
            return Ok(if missed { OpOutcome::Missed } else { OpOutcome::Damaged });
        }
        self.contender.touch()?;
        Ok(OpOutcome::Done)
    }
}
