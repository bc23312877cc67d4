//! A history: what several processes do to one store, in an order that a seed chooses. While one of
//! them has just written or begun a sync, another one may work, and the power may fail.
//!
//! Invariant: everything runs on one thread, so a seed repeats its history.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use sessile_core::{Clock, Error, ErrorKind, Key, Result, Store, Timestamp};

use super::cut::{Image, examine};
use super::interval::UnsyncedChange;
use super::model::{ChangeKind, Content, EARLIER_PART, Outcome, Session};
use super::plan::Plan;
use crate::memory::{
    DataFile, LockWord, REFUSED, Relaxed, SimulatedDisk, header, with_simulated_disk,
};
use crate::tests::disk::{Disk, DiskCall, DiskEvent, Recorder};
use crate::{Engine, EngineOptions, SyncMode, open};

pub const START: Timestamp = Timestamp::from_ms(1_800_000_000_000);
/// Sessions of these remainders are in bins of their own, and regenerated only among each other.
const BIN_CLASSES: usize = 8;
const DEPTH_MAX: usize = 2;

/// The files of the log.
pub const FILES: [&str; 3] = ["data", "bins", "sealed"];

/// The disk below one store, and what notices its changes.
pub struct StoreDisk {
    pub data: Arc<Mutex<Disk>>,
    /// Of each of the files; the first is `data`.
    pub files: [Arc<Mutex<Disk>>; FILES.len()],
    pub names_synced: Cell<bool>,
    notice: fn(DiskEvent),
}

impl StoreDisk {
    pub fn new(mut files: [Disk; FILES.len()], notice: fn(DiskEvent)) -> Rc<StoreDisk> {
        let fault = Arc::clone(&files[0].fault);
        files.iter_mut().for_each(|disk| disk.fault = Arc::clone(&fault));
        let files = files.map(|disk| Arc::new(Mutex::new(disk)));
        let data = Arc::clone(&files[0]);
        Rc::new(StoreDisk { data, files, names_synced: Cell::new(false), notice })
    }
}

impl SimulatedDisk for StoreDisk {
    fn opened(&self, name: &str, file: Box<dyn DataFile>) -> Box<dyn DataFile> {
        let at = FILES.iter().position(|known| *known == name).unwrap();
        Box::new(Recorder::new(file, Arc::clone(&self.files[at]), Box::new(self.notice)))
    }

    fn names_synced(&self) {
        self.names_synced.set(true);
    }
}

/// Opens the store in a folder; its control plane is beside it.
pub fn open_in(
    folder: &Path,
    disk: &Rc<StoreDisk>,
    clock: &Clock,
    (tier, size_bytes_max): (SyncMode, u64),
) -> Result<Engine> {
    let control = Some(folder.to_owned());
    let options = EngineOptions { size_bytes_max, sync: Some(tier), control };
    let disk = Rc::clone(disk) as Rc<dyn SimulatedDisk>;
    with_simulated_disk(disk, || open(&folder.join("store"), clock.clone(), &options))
}

thread_local! {
    /// The history whose disk is changing.
    static PRESENT: RefCell<Option<Rc<History>>> = const { RefCell::new(None) };
}

fn notice(event: DiskEvent) {
    if let Some(history) = PRESENT.with_borrow(Clone::clone) {
        history.notice(event);
    }
}

pub struct History {
    pub plan: Plan,
    pub folder: PathBuf,
    pub clock: Clock,
    pub disk: Rc<StoreDisk>,
    pub sessions: RefCell<Vec<Session>>,
    pub random: RefCell<fastrand::Rng>,
    /// What is wrong; nothing more is done then.
    pub fault: RefCell<Option<String>>,
    engines: RefCell<Vec<Rc<Engine>>>,
    /// The processes that are in a call, the innermost last.
    pub active: RefCell<Vec<usize>>,
    /// What the outermost call is about.
    pub about: Cell<usize>,
    changes: Cell<u64>,
    /// Calls that the planned fault has made fail.
    pub refusals: Cell<u64>,
    pub unsynced: RefCell<Vec<UnsyncedChange>>,
    next_cut: Cell<u64>,
}

pub fn key(number: usize) -> Key {
    let id = format!("session-{number}");
    match number % BIN_CLASSES {
        class @ 0..2 => {
            let bin = sessile_core::Bin::new(&format!("bin{class}")).unwrap();
            Key::in_bin(bin, &id).unwrap()
        }
        _ => Key::session(&id).unwrap(),
    }
}

/// The session whose id is stored as this key.
pub fn session_of(engine: &Engine, stored: &Key) -> usize {
    (0..).find(|number| engine.stored_key(&key(*number)) == *stored).unwrap()
}

impl History {
    /// A life of a store, from an image and what it has of each session, or from nothing.
    pub fn begin(
        plan: &Plan,
        folder: &Path,
        from: Option<(&Image, Vec<Session>)>,
        now: Timestamp,
    ) -> Rc<History> {
        let mut random = fastrand::Rng::with_seed(plan.seed ^ now.as_ms());
        let nothing = vec![Session::holding(Content::Nothing); plan.sessions];
        let (image, sessions) = from.map_or((None, nothing), |(image, now)| (Some(image), now));
        let mut files = image.map_or_else(Default::default, Image::disks);
        let data = &mut files[0];
        data.room = plan.room.map(|segments| segments * crate::memory::SEGMENT_BYTES);
        data.tells_once = plan.tells_once;
        data.background_calls = plan.background_calls;
        data.random = random.fork();
        data.is_told = plan.told;
        let disk = StoreDisk::new(files, notice);
        match plan.fault {
            Some((DiskCall::Memory, number)) => REFUSED.set(Some(number)),
            fault => *disk.data.lock().unwrap().fault.lock().unwrap() = fault,
        }
        disk.names_synced.set(image.is_some());
        let next_cut = Cell::new(random.u64(0..=plan.cut_every));
        Rc::new(History {
            plan: plan.clone(),
            folder: folder.to_owned(),
            clock: Clock::manual(now),
            disk,
            sessions: RefCell::new(sessions),
            random: RefCell::new(random),
            fault: RefCell::default(),
            engines: RefCell::default(),
            active: RefCell::default(),
            about: Cell::new(0),
            changes: Cell::new(1),
            refusals: Cell::new(0),
            unsynced: RefCell::default(),
            next_cut,
        })
    }

    /// Runs it; the error says what is wrong.
    pub fn run(self: &Rc<History>) -> std::result::Result<(), String> {
        let before = PRESENT.replace(Some(Rc::clone(self)));
        self.open_processes();
        for _ in 0..self.plan.steps {
            if self.is_over() {
                break;
            }
            self.step(0);
            self.active.borrow_mut().clear();
            if self.draw(0..400) == 0 {
                self.lose_plane();
            }
        }
        PRESENT.set(None);
        self.engines.borrow_mut().clear();
        PRESENT.set(before);
        self.fault.borrow().clone().map_or(Ok(()), Err)
    }

    pub fn wrong(&self, what: String) {
        self.fault.borrow_mut().get_or_insert(what);
    }

    fn is_over(&self) -> bool {
        self.fault.borrow().is_some() || self.plan.until.is_some_and(|end| Instant::now() >= end)
    }

    pub fn draw(&self, range: std::ops::Range<u64>) -> u64 {
        self.random.borrow_mut().u64(range)
    }

    pub fn chance(&self, of_100: u8) -> bool {
        self.random.borrow_mut().u8(0..100) < of_100
    }

    fn data(&self) -> MutexGuard<'_, Disk> {
        self.disk.data.lock().unwrap()
    }

    pub fn moment(&self) -> u64 {
        self.data().moment
    }

    /// What had ended then is on the disk, if the store keeps its word.
    pub fn floor(&self) -> u64 {
        match self.plan.tier {
            SyncMode::Never => 0,
            SyncMode::Interval(_) => self.data().checkpoint,
            SyncMode::EachChange => u64::MAX - 1,
        }
    }

    fn open_processes(&self) {
        let options = (self.plan.tier, self.plan.size_bytes_max);
        let mut engines = Vec::new();
        while engines.len() < self.plan.processes {
            match open_in(&self.folder, &self.disk, &self.clock, options) {
                Ok(engine) => engines.push(Rc::new(engine)),
                Err(error) if self.may_fail(&error) => self.refusals.set(self.refusals.get() + 1),
                Err(error) => return self.wrong(format!("the store cannot be opened: {error:#}")),
            }
        }
        *self.engines.borrow_mut() = engines;
    }

    /// All processes die, and the control plane is lost without a reboot.
    fn lose_plane(&self) {
        let before = PRESENT.take();
        self.engines.borrow_mut().clear();
        PRESENT.set(before);
        // A disk that fails at this moment keeps the store closed.
        self.data().fails = None;
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("sessile-") {
                std::fs::remove_dir_all(path).unwrap();
            }
        }
        self.open_processes();
        for number in 0..self.plan.sessions {
            if self.is_over() {
                return;
            }
            let Some(found) = self.remembered(number) else { return };
            self.check_memory(number);
            let is_alias =
                matches!(self.sessions.borrow()[number].latest().content, Content::Alias { .. });
            if !is_alias {
                // A rebuild may have put its end off.
                let (change, moment) = (self.next_change(), self.moment());
                let session = &mut self.sessions.borrow_mut()[number];
                session.began(change, found, ChangeKind::Touch);
                session.ended(change, moment, Outcome::Done);
            }
        }
    }

    fn notice(&self, event: DiskEvent) {
        if self.is_over() {
            return;
        }
        self.cut_if_due();
        let depth = self.active.borrow().len();
        let most = if event == DiskEvent::Changed { u8::MAX } else { 1 };
        let of_100 = self.plan.nested.min(most);
        if depth > 0 && depth < DEPTH_MAX && self.chance(of_100) && !self.is_any_stuck() {
            self.step(depth);
            self.active.borrow_mut().truncate(depth);
        }
    }

    /// Whether the process that stands still has a lock for which others would wait long.
    fn is_any_stuck(&self) -> bool {
        let engines = self.engines.borrow();
        let Some(engine) = engines.first() else { return true };
        [header::SYNC_LOCK, header::ROOM_LOCK, header::BINS_LOCK, header::SHARED]
            .iter()
            .any(|word| LockWord(engine.plane.header(*word).load(Relaxed)).owner().is_some())
    }

    fn cut_if_due(&self) {
        let moment = self.moment();
        if moment >= self.next_cut.get() {
            self.next_cut.set(moment + self.draw(1..self.plan.cut_every + 1));
            for _ in 0..self.plan.images {
                if self.is_over() {
                    break;
                }
                let image = Image::drawn(self);
                if let Err(fault) = examine(self, &image) {
                    self.wrong(fault);
                }
            }
            let floor = self.floor();
            let mut sessions = self.sessions.borrow_mut();
            sessions.iter_mut().for_each(|session| session.forget(floor));
        }
    }

    /// One call of a process that is in none.
    pub fn step(&self, depth: usize) {
        let engines: Vec<Rc<Engine>> = self.engines.borrow().clone();
        let idle = (0..engines.len()).filter(|at| !self.active.borrow().contains(at));
        let idle: Vec<usize> = idle.collect();
        if idle.is_empty() {
            return;
        }
        let process = idle[self.draw(0..idle.len() as u64) as usize];
        self.active.borrow_mut().push(process);
        if self.chance(self.plan.faults) {
            self.data().fails = Some(self.random.borrow_mut().u8(0..=100));
        }
        self.call(&engines[process], depth);
        if depth == 0 && !self.is_over() {
            self.cut_if_due();
            for number in 0..self.plan.sessions {
                let overlapped = self.sessions.borrow()[number].overlapped;
                if overlapped && let Some(found) = self.remembered(number) {
                    let (now, moment) = (self.clock.now(), self.moment());
                    let session = &mut self.sessions.borrow_mut()[number];
                    if found == Content::Nothing {
                        session.end_refused_destroy(moment);
                    }
                    session.settle(found, now);
                }
            }
        }
    }

    pub fn next_change(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }

    /// Carries a change out and notes its effect: sessions with what they are afterwards.
    pub fn change<T>(
        &self,
        effects: &[(usize, Content)],
        kind: ChangeKind,
        call: impl FnOnce() -> Result<T>,
    ) -> Option<T> {
        let number = self.next_change();
        for (session, content) in effects {
            self.sessions.borrow_mut()[*session].began(number, *content, kind);
        }
        let result = call();
        let ended = self.moment();
        if self.plan.told {
            let (now, error) = (self.clock.now(), result.as_ref().err());
            println!("{now:?} moment {ended}: {kind:?} {effects:?} {error:?}");
        }
        let outcome = match &result {
            Ok(_) => Outcome::Done,
            Err(error) => self.refusal(error),
        };
        for (session, _) in effects {
            self.sessions.borrow_mut()[*session].ended(number, ended, outcome);
        }
        if self.active.borrow().len() == 1 && !self.is_over() {
            effects.iter().for_each(|(session, _)| self.check_memory(*session));
            if !effects.is_empty() {
                self.check_interval(result.is_ok());
            }
        }
        result.ok()
    }

    /// Whether an error tells of the planned fault.
    pub fn may_fail(&self, error: &Error) -> bool {
        let kind = match self.plan.fault {
            Some((DiskCall::Allocation | DiskCall::Memory, _)) => ErrorKind::Full,
            Some(_) => ErrorKind::Io,
            None => return false,
        };
        *error.kind() == kind && self.was_met() && self.refusals.get() < 10
    }

    /// Whether the planned fault has come.
    pub fn was_met(&self) -> bool {
        self.data().fault.lock().unwrap().is_none() && REFUSED.get().is_none()
    }

    fn refusal(&self, error: &Error) -> Outcome {
        match error.kind() {
            _ if self.may_fail(error) => {
                self.refusals.set(self.refusals.get() + 1);
                Outcome::Refused
            }
            ErrorKind::Io if self.plan.faults > 0 => Outcome::Refused,
            ErrorKind::Full if self.plan.room.is_some() || self.plan.size_bytes_max > 0 => {
                Outcome::Refused
            }
            ErrorKind::Destroyed
            | ErrorKind::Gone
            | ErrorKind::Exists
            | ErrorKind::LockTimeout { .. }
                if self.plan.nested > 0 || self.active.borrow().len() > 1 =>
            {
                Outcome::Void
            }
            _ => {
                self.wrong(format!("a call fails: {error:#}"));
                Outcome::Refused
            }
        }
    }

    /// What the store says without a disk in between.
    fn remembered(&self, number: usize) -> Option<Content> {
        let engine = self.engines.borrow().first().cloned()?;
        match engine.peek(&key(number)) {
            Ok(found) => Content::found(&found, |key| session_of(&engine, key)).or_else(|| {
                self.wrong(format!("session {number} has a payload that nobody wrote"));
                None
            }),
            Err(error) => {
                self.wrong(format!("session {number} cannot be read: {error:#}"));
                None
            }
        }
    }

    /// What a process sees is what was acknowledged last, and nothing that was refused.
    fn check_memory(&self, number: usize) {
        if self.sessions.borrow()[number].overlapped {
            return;
        }
        let Some(found) = self.remembered(number) else { return };
        let latest = *self.sessions.borrow()[number].latest();
        let mut session = Session::holding(latest.content);
        session.changes[0].ended = 0;
        let alias = |target| self.remembered(target).unwrap_or(Content::Nothing);
        if !session.allows(0, found, (self.clock.now(), EARLIER_PART), alias) {
            self.wrong(format!(
                "session {number} is {found:?} in memory, not {:?}: {:?}",
                latest.content,
                self.sessions.borrow()[number].changes
            ));
        }
    }
}
