//! The timed loop with contenders that only a test knows.

use super::*;
use crate::payload_spread::PayloadSpread;
use crate::worker::protocol::{ContenderSpec, OpenRequest};

const ANNOUNCE_NS: u64 = 2_000_000;
const MEASURE_NS: u64 = 100_000_000;

/// Costs nothing but its announcements.
struct Announcing {
    payload: Vec<u8>,
    announced: u64,
}

impl Contender for Announcing {
    fn prefetch_ids(&mut self, _: &[usize]) {
        self.announced += 1;
        wait_until(now_ns() + ANNOUNCE_NS);
    }
    fn create(&mut self, _: usize, _: &[u8], _: Duration) -> Result<()> {
        Ok(())
    }
    fn read(&mut self, _: usize) -> Result<Option<&[u8]>> {
        Ok(Some(&self.payload))
    }
    fn commit(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn payloads(ids: usize) -> Payloads {
    let what = ContenderSpec::Store { url: String::new(), reconnects: false };
    Payloads::new(&OpenRequest {
        contender: what,
        worker: 0,
        seed: 7,
        ids,
        payload_bytes: 64,
        spread: PayloadSpread::Fixed,
        ttl: Duration::MAX,
        lock_ttl: None,
    })
}

fn sample(rate: Option<f64>) -> (SampleResult, u64) {
    let (payloads, ttl) = (payloads(1), Duration::MAX);
    let mut contender = Announcing { payload: Vec::new(), announced: 0 };
    payloads.compose(0, 0, &mut contender.payload);
    let plan = SamplePlan {
        sessions: 0..1,
        measure_ns: MEASURE_NS,
        rate,
        ..SamplePlan::new(SampleAction::Read)
    };
    let sampled = SampleRun::new(&mut contender, &payloads, ttl, plan).run(now_ns(), || None);
    assert_eq!((sampled.errors, sampled.misses), (0, 0));
    (sampled, contender.announced)
}

#[test]
fn the_rate_of_a_closed_loop_is_that_of_the_operations_without_the_announcements() {
    let elapsed = || {
        let (sampled, announced) = sample(None);
        assert!(sampled.operations >= (announced - 1) * AHEAD as u64, "{sampled:?}");
        (announced > 10).then_some(sampled.elapsed_ns)
    };
    // Nearly all of the time went into announcements; half of it, once of several times, is for
    // a busy machine.
    assert!((0..8).filter_map(|_| elapsed()).any(|elapsed_ns| elapsed_ns < MEASURE_NS / 2));
}

/// Notes how long created sessions live, and checks their payloads.
struct Creating<'a>(&'a Payloads, Vec<Duration>);

impl Contender for Creating<'_> {
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        assert_eq!(self.0.check(session as u64, payload), Some(0));
        self.1.push(ttl);
        Ok(())
    }
    fn read(&mut self, _: usize) -> Result<Option<&[u8]>> {
        Ok(None)
    }
    fn commit(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn as_published_a_payload_is_drawn_for_each_write_and_a_created_session_lives_briefly() {
    let (payloads, ttl) = (payloads(9), Duration::MAX);
    for (as_published, lives) in [(false, ttl), (true, CREATED_TTL)] {
        let plan = SamplePlan {
            fresh: 0..9,
            measure_ns: u64::MAX / 4,
            as_published,
            ..SamplePlan::new(SampleAction::Create)
        };
        let mut contender = Creating(&payloads, Vec::new());
        let mut sample = SampleRun::new(&mut contender, &payloads, ttl, plan);
        let before = sample.random.clone();
        sample.compose(3, 5);
        assert_eq!(payloads.check(3, &sample.payload), Some(5), "what is written can be verified");
        assert_eq!(sample.random != before, as_published, "characters are drawn");
        let sampled = sample.run(now_ns(), || None);
        assert_eq!((sampled.operations, sampled.errors), (9, 0));
        assert_eq!(contender.1, [lives; 9]);
    }
}

/// Does nothing until something stops it once.
struct Stalling {
    payload: Vec<u8>,
    calls: u64,
}

impl Contender for Stalling {
    fn create(&mut self, _: usize, _: &[u8], _: Duration) -> Result<()> {
        Ok(())
    }
    fn read(&mut self, _: usize) -> Result<Option<&[u8]>> {
        self.calls += 1;
        if self.calls == 20 {
            wait_until(now_ns() + 30_000_000);
        }
        Ok(Some(&self.payload))
    }
    fn commit(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Requests beside a removal came in pieces of 10 ms, and the piece was dropped in which the
/// removal ended: a store that answered nobody until it had removed all had no slow request.
#[test]
fn what_was_due_before_the_end_counts_however_late_it_is_served_and_nothing_else() {
    let payloads = payloads(1);
    let mut contender = Stalling { payload: Vec::new(), calls: 0 };
    payloads.compose(0, 0, &mut contender.payload);
    let plan = SamplePlan {
        sessions: 0..1,
        measure_ns: 3_600_000_000_000,
        rate: Some(2_000.0),
        until_told: true,
        ..SamplePlan::new(SampleAction::Read)
    };
    let (start, mut asked) = (now_ns(), 0);
    // It is told some time after the stall that only the time until its middle counts.
    let counted = start + 1_000_000..start + 20_000_000;
    let told = || {
        asked += 1;
        (now_ns() > start + 70_000_000).then(|| counted.clone())
    };
    let sampled = SampleRun::new(&mut contender, &payloads, Duration::MAX, plan).run(start, told);
    assert!(asked > 20 && sampled.errors == 0, "{sampled:?}");
    // 2,000 a second for 19 ms.
    assert!((18..70).contains(&sampled.operations), "{sampled:?}");
    assert_eq!(sampled.elapsed_ns, 19_000_000);
    let latencies = Latencies::from_text(&sampled.latency).unwrap();
    assert_eq!(latencies.count(), sampled.operations);
    assert!(latencies.max_us() >= 15_000.0, "what waited for the stall is among them");
}

#[test]
fn at_a_fixed_rate_all_of_the_time_counts() {
    let mut samples = (0..8).map(|_| sample(Some(8_000.0)));
    let (sampled, _) =
        samples.find(|(_, announced)| *announced > 10).expect("a sample with announcements");
    assert!(sampled.elapsed_ns > MEASURE_NS / 4 * 3, "{sampled:?}");
}
