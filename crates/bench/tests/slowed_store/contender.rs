//! A store behind the contract that can be slowed by a part of the time that each request takes.

use std::fs::{File, OpenOptions, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sessile_bench::contender::Contender;
use sessile_core::{Error, ErrorKind, Key, Lease, Record, Result, Sessions, Ttl};
use sessile_stores::Context;

const TTL: Duration = Duration::from_secs(3_600);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// A longer time between two requests is a pause of the harness, or the turn of another one.
const PAUSE: Duration = Duration::from_millis(10);
/// No time between the samples of two rounds is shorter, even where the turns of a worker follow
/// each other.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(2);
/// Waited for in pieces of this length and not after each request, because the clock is too coarse
/// for a tenth of a microsecond.
const PIECE_SECONDS: f64 = 2e-6;

/// In the directory of a store: process and processors of its worker, a line when requests begin
/// after a pause.
pub const NOTES: &str = "processors";

/// The store, and how much slower it is made.
pub struct Slowed {
    sessions: Sessions,
    keys: Vec<Key>,
    lease: Option<Lease>,
    record: Option<Record>,
    part: f64,
    last: Instant,
    /// Still to be waited for.
    owed: f64,
    notes: File,
    own: PathBuf,
}

/// `sessile+0.1` is a store of the scheme `sessile` whose requests take a tenth longer.
pub fn open(name: &str, dir: &Path, ids: usize) -> Option<Box<dyn Contender>> {
    let (scheme, part) = name.split_once('+')?;
    // Each setup has a worker and a store of its own.
    let own = dir.join(std::process::id().to_string());
    std::fs::create_dir(&own).unwrap();
    let url = format!("{scheme}:{}/store", own.display());
    let keys = (0..ids).map(|number| Key::session(&format!("{number:032x}")));
    let notes = OpenOptions::new().create(true).append(true).open(dir.join(NOTES)).unwrap();
    Some(Box::new(Slowed {
        sessions: sessile_stores::open(&url, &Context::default()).unwrap(),
        keys: keys.collect::<Result<Vec<Key>>>().unwrap(),
        lease: None,
        record: None,
        part: part.parse().ok()?,
        last: Instant::now(),
        owed: 0.0,
        notes,
        own,
    }))
}

impl Slowed {
    /// At the first request of a sample, which is one of its warm-up.
    fn note_processors(&mut self) {
        if self.last.elapsed() < BETWEEN_SAMPLES {
            return;
        }
        let status = read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        self.notes
            .write_all(format!("{} {}\n", std::process::id(), list.trim()).as_bytes())
            .unwrap();
    }

    fn payload(&self) -> Option<&[u8]> {
        self.record.as_ref().map(|record| record.payload.as_slice())
    }

    /// Everything between the ends of two requests takes that part longer: what the harness does,
    /// too.
    fn slow_down(&mut self) {
        let taken = self.last.elapsed();
        if taken < PAUSE {
            self.owed += taken.as_secs_f64() * self.part;
        }
        if self.owed > PIECE_SECONDS {
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < self.owed {
                std::hint::spin_loop();
            }
            self.owed -= start.elapsed().as_secs_f64();
        }
        self.last = Instant::now();
    }
}

/// As with the private directory of a store: the next setup may get its memory.
impl Drop for Slowed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.own);
    }
}

impl Contender for Slowed {
    fn create(&mut self, session: usize, payload: &[u8], _ttl: Duration) -> Result<()> {
        self.sessions.create(&self.keys[session], payload, Ttl::sliding(TTL)?)
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.record = self.sessions.peek(&self.keys[session])?;
        Ok(self.payload())
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        self.note_processors();
        self.record = None;
        let begun = self.sessions.begin(&self.keys[session], WAIT_MAX)?;
        self.lease = Some(begun.lease);
        self.record = begun.record;
        Ok(self.payload())
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let missing = || Error::new(ErrorKind::InvalidArgument, "nothing was begun");
        self.lease.take().ok_or_else(missing)?.commit(payload, Ttl::sliding(TTL)?)?;
        self.slow_down();
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        self.lease.take().map_or(Ok(()), Lease::release)
    }

    fn destroy(&mut self, session: usize) -> Result<()> {
        self.sessions.destroy(&self.keys[session])
    }
}
