//! The contender of these tests, and all the ways in which it can be broken.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sessile_bench::contender::Contender;
use sessile_core::{Error, ErrorKind, Result};

/// Sessions in files, each replaced by a rename; broken in the way of its name.
pub struct Files {
    fault: String,
    dir: PathBuf,
    held: Option<(usize, Option<fs::File>)>,
    /// What was acknowledged and not written yet.
    unwritten: HashMap<usize, Vec<u8>>,
    payload: Vec<u8>,
    calls: u64,
    written: HashMap<usize, u64>,
    /// Locked as long as this process has the store open.
    _users: Option<fs::File>,
}

/// What it takes to open the store that nobody else has open, of one that recovers.
pub const RECOVERY: Duration = Duration::from_millis(200);

pub fn open(name: &str, dir: &Path, _ids: usize) -> Option<Box<dyn Contender>> {
    let (fault, dir) = match name.strip_suffix("-once") {
        Some(fault) => in_setup(fault, dir),
        None => (name.to_owned(), dir.to_owned()),
    };
    if name == "evaporating" {
        // Sessions of those that live until all are killed; gone whenever somebody opens the store.
        for session in [60, 61] {
            let _ = fs::remove_file(dir.join(session.to_string()));
        }
    }
    let _users = (name == "recovering").then(|| recover(&dir));
    let (unwritten, written) = (HashMap::new(), HashMap::new());
    Some(Box::new(Files {
        fault,
        dir,
        held: None,
        unwritten,
        payload: Vec::new(),
        calls: 0,
        written,
        _users,
    }))
}

/// Each setup, which has one worker, has a place of its own. Only the first one is broken, or all
/// but that.
fn in_setup(fault: &str, dir: &Path) -> (String, PathBuf) {
    let is_first = fs::create_dir(dir.join("first")).is_ok();
    let own = dir.join(std::process::id().to_string());
    fs::create_dir(&own).unwrap();
    let fault = match (fault, is_first) {
        ("fading", true) => "locked",
        ("fading", false) => "full",
        (fault, true) => fault,
        (_, false) => "locked",
    };
    (fault.to_owned(), own)
}

/// Takes its time when nobody else has the store open, and has it open then.
fn recover(dir: &Path) -> fs::File {
    let users = fs::File::create(dir.join("users")).unwrap();
    if users.try_lock().is_ok() {
        std::thread::sleep(RECOVERY);
        users.unlock().unwrap();
    }
    users.lock_shared().unwrap();
    users
}

impl Files {
    fn is(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn path(&self, session: usize) -> PathBuf {
        self.dir.join(session.to_string())
    }

    fn write(&mut self, session: usize, payload: &[u8]) {
        let temporary = self.dir.join(format!("{session}.{}", std::process::id()));
        fs::write(&temporary, payload).unwrap();
        fs::rename(temporary, self.path(session)).unwrap();
        *self.written.entry(session).or_default() += 1;
    }

    /// A lock that outlives its holder: the file is there until somebody removes it.
    fn lasting_lock(&self, session: usize) -> PathBuf {
        self.dir.join(format!("{session}.held"))
    }
}

impl Contender for Files {
    fn create(&mut self, session: usize, payload: &[u8], ttl: Duration) -> Result<()> {
        if self.is("frozen") || self.is("sluggish") {
            std::thread::sleep(Duration::from_millis(20)); // what is filled slowly is verified last
        }
        if self.is("unreachable") && session >= 5 || self.is("full") && session == 5 {
            let kind = if self.is("full") { ErrorKind::Full } else { ErrorKind::Unreachable };
            return Err(Error::new(kind, format!("no to {session}")));
        }
        if self.is("hesitant") && session == 5 {
            self.calls += 1;
            if self.calls < 3 {
                return Err(Error::new(ErrorKind::Unreachable, "locked for longer than it waits"));
            }
        }
        if ttl < Duration::from_secs(60) {
            fs::File::create(self.path(session).with_extension("until")).unwrap();
            let until = fs::File::options()
                .write(true)
                .open(self.path(session).with_extension("until"))
                .unwrap();
            until.set_modified(SystemTime::now() + ttl).unwrap();
        }
        if !self.is("vain") || session < 20 {
            self.write(session, payload);
        }
        Ok(())
    }

    fn read(&mut self, session: usize) -> Result<Option<&[u8]>> {
        if self.is("frozen") && self.held.is_none() && session == 0 {
            // Longer than two signals in a row count as one; and then for good.
            std::thread::sleep(Duration::from_millis(1_500));
            interrupt_parent();
            std::thread::sleep(Duration::from_secs(60));
        }
        if self.is("forgetful") && session == 7 {
            return Ok(None);
        }
        let until = self.path(session).with_extension("until");
        let expired =
            fs::metadata(&until).is_ok_and(|it| it.modified().unwrap() <= SystemTime::now());
        if expired {
            fs::remove_file(until).unwrap();
            fs::remove_file(self.path(session)).unwrap();
        }
        if let Some(payload) = self.unwritten.get(&session) {
            self.payload = payload.clone();
            return Ok(Some(&self.payload));
        }
        let read_from = if self.is("confused") && session == 7 { 8 } else { session };
        match fs::read(self.path(read_from)) {
            Ok(payload) => self.payload = payload,
            Err(_) => return Ok(None),
        }
        Ok(Some(&self.payload))
    }

    fn begin(&mut self, session: usize) -> Result<Option<&[u8]>> {
        let alone =
            ["locked", "amnesic", "evaporating", "recovering"].contains(&self.fault.as_str());
        let lock = alone.then(|| {
            let file = fs::File::create(self.dir.join(format!("{session}.lock"))).unwrap();
            file.lock().unwrap();
            file
        });
        while self.is("sticky") && fs::File::create_new(self.lasting_lock(session)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.held = Some((session, lock));
        self.read(session)
    }

    fn commit(&mut self, payload: &[u8]) -> Result<()> {
        let missing = || Error::new(ErrorKind::InvalidArgument, "nothing was begun");
        let (session, _lock) = self.held.take().ok_or_else(missing)?;
        self.calls += 1;
        if self.is("dying") && self.calls > 50 {
            std::process::abort();
        }
        if self.is("interrupting") && self.calls == 50
            || self.is("interrupting-later") && self.calls == 150
        {
            interrupt_parent();
        }
        if self.is("slow") || self.is("interrupting-later") {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.is("wasteful") {
            fs::write(self.dir.join(format!("{session}.old")), [1; 1 << 16]).unwrap();
        }
        if self.is("hollow") && session >= 100 {
            return Ok(());
        }
        if self.is("sticky") {
            self.write(session, payload);
            fs::remove_file(self.lasting_lock(session)).unwrap();
            return Ok(());
        }
        if self.is("amnesic") && !self.calls.is_multiple_of(10) {
            self.unwritten.insert(session, payload.to_vec());
            return Ok(());
        }
        if self.is("amnesic") {
            for (session, payload) in std::mem::take(&mut self.unwritten) {
                self.write(session, &payload);
            }
        }
        if self.is("grudging") {
            self.write(session, payload);
            return Err(Error::new(ErrorKind::Io, "it says that it could not"));
        }
        if self.is("dull") && self.calls < 60 {
            return Ok(());
        }
        if !self.is("lazy") || !self.calls.is_multiple_of(10) {
            self.write(session, payload);
        }
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        self.held = None;
        Ok(())
    }

    fn destroy(&mut self, session: usize) -> Result<()> {
        let _ = fs::remove_file(self.path(session));
        Ok(())
    }
}

/// What Ctrl-C does.
fn interrupt_parent() {
    let parent = std::os::unix::process::parent_id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &parent]).status().unwrap().success());
}
