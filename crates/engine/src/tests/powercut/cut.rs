//! A power cut: an image of what the disk may have, its recovery by the engine's own code, and the
//! verdict. Recovery is cut short in its turn, and so is the recovery from that.
//!
//! Invariant: what a recovery has shown, the next one shows again, whatever came between them but
//! operations.

use std::cell::RefCell;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use sessile_core::{Budget, Clock, ErrorKind, Filter, Found, Store};

use super::count::count_image;
use super::history::{FILES, History, START, StoreDisk, key, open_in, session_of};
use super::model::{Change, Content, EARLIER_PART, LATER_PART, Session};
use super::plan::Plan;
use crate::memory::REFUSED;
use crate::tests::disk::{Disk, SECTOR, SectorWrite, apply, is_zero, sector_hash};
use crate::{Engine, SyncMode};

const PIECE: usize = 16 << 10;
/// The files of a store, in the order in which they come into its directory.
const NAMES: [&str; 4] = ["format", FILES[0], FILES[1], FILES[2]];

/// What a disk may have after a power cut.
#[derive(Clone)]
pub struct Image {
    /// Of each file its bytes, and its length if that is greater.
    files: [(Vec<u8>, u64); FILES.len()],
    /// How many of the names.
    names: usize,
    hash: u64,
}

/// Chooses for a sector the last write that is on the disk.
type Choice<'a> = Box<dyn FnMut(u64, &[SectorWrite]) -> Option<usize> + 'a>;

/// A choice, and the moment after which the file has not grown.
fn drawn_choice<'a>(disk: &Disk, random: &'a mut fastrand::Rng) -> (Choice<'a>, u64) {
    let mut moments: Vec<u64> = disk.pending.values().flatten().map(|write| write.moment).collect();
    moments.sort_unstable();
    moments.dedup();
    let chosen = moments.get(random.usize(0..moments.len().max(1))).copied().unwrap_or(0);
    let grown = if random.bool() { u64::MAX } else { random.u64(0..=disk.moment) };
    let kept = [3, 20, 50, 80, 97][random.usize(0..5)];
    let last = |writes: &[SectorWrite], moment: u64| {
        writes.partition_point(|write| write.moment <= moment).checked_sub(1)
    };
    match random.u8(0..10) {
        0 => (Box::new(move |_, writes| writes.len().checked_sub(1)), grown),
        1 => (Box::new(move |_, writes| last(writes, chosen)), chosen),
        2 | 3 => {
            // The write of that moment is torn.
            let torn = Box::new(move |_, writes: &[SectorWrite]| {
                let until = if random.bool() { chosen } else { chosen.saturating_sub(1) };
                last(writes, until)
            });
            (torn, chosen)
        }
        4 => {
            let but_one = move |_, writes: &[SectorWrite]| {
                writes.iter().rposition(|write| write.moment != chosen)
            };
            (Box::new(but_one), grown)
        }
        5 => {
            let one = move |_, writes: &[SectorWrite]| {
                writes.iter().rposition(|write| write.moment == chosen)
            };
            (Box::new(one), u64::MAX)
        }
        6 | 7 => {
            // Whole writes in any order.
            moments.retain(|_| random.u8(0..100) < kept);
            let some = move |_, writes: &[SectorWrite]| {
                writes.iter().rposition(|write| moments.binary_search(&write.moment).is_ok())
            };
            (Box::new(some), grown)
        }
        _ => {
            let any = move |_, writes: &[SectorWrite]| {
                writes.iter().rposition(|_| random.u8(0..100) < kept)
            };
            (Box::new(any), grown)
        }
    }
}

/// Bytes, length, and what identifies them.
fn drawn_bytes(disk: &Disk, random: &mut fastrand::Rng) -> (Vec<u8>, u64, u64) {
    let (mut choice, grown) = drawn_choice(disk, random);
    let (mut bytes, mut hash) = (disk.synced.clone(), disk.hash);
    for (sector, writes) in &disk.pending {
        if let Some(at) = choice(*sector, writes) {
            let (old, new) = (disk.sector(*sector), &writes[at].bytes);
            hash = hash.wrapping_sub(sector_hash(*sector, &old));
            hash = hash.wrapping_add(sector_hash(*sector, &new[..]));
            apply(&mut bytes, *sector, new);
        }
    }
    drop(choice);
    let grown = disk.lengths.iter().rfind(|(moment, _)| *moment <= grown);
    let mut length = grown.map_or(disk.synced_length, |(_, length)| *length);
    if length > disk.synced_length && random.u8(0..8) == 0 {
        // A file system may grow a file in steps.
        length = random.u64(disk.synced_length..=length).next_multiple_of(SECTOR as u64);
    }
    bytes.truncate(length as usize);
    (bytes, length, hash.wrapping_add(length.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

impl Image {
    /// A store that has only its file `format`.
    pub fn of_nothing() -> Image {
        Image { files: Default::default(), names: 1, hash: 0 }
    }

    pub fn drawn(history: &History) -> Image {
        let mut random = history.random.borrow_mut();
        let names = if history.disk.names_synced.get() { NAMES.len() } else { random.usize(0..=4) };
        Image::of(&history.disk, names, &mut random)
    }

    fn of(disk: &StoreDisk, names: usize, random: &mut fastrand::Rng) -> Image {
        let mut hash = names as u64;
        let files = disk.files.each_ref().map(|file| {
            let (bytes, length, of_file) = drawn_bytes(&file.lock().unwrap(), random);
            hash = hash.rotate_left(21) ^ of_file;
            (bytes, length)
        });
        Image { files, names, hash }
    }

    /// Disks that have it for sure.
    pub fn disks(&self) -> [Disk; FILES.len()] {
        self.files.each_ref().map(|(bytes, length)| Disk::holding(bytes.clone(), *length))
    }

    /// Makes a store of it, with a file `plane` as a cut may leave it.
    pub fn make_store(&self, folder: &Path, plan: &Plan, random: &mut fastrand::Rng) {
        let store = folder.join("store");
        std::fs::create_dir_all(&store).unwrap();
        let private = PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&store, private).unwrap();
        for name in &NAMES[..self.names] {
            let file = std::fs::File::create(store.join(name)).unwrap();
            let Some(at) = FILES.iter().position(|known| known == name) else {
                file.write_all_at(format_of(plan.seed).as_bytes(), 0).unwrap();
                continue;
            };
            let (bytes, length) = &self.files[at];
            file.set_len(*length).unwrap();
            let pieces = bytes.chunks(PIECE).enumerate();
            for (at, piece) in pieces.filter(|(_, piece)| !is_zero(piece)) {
                file.write_all_at(piece, (at * PIECE) as u64).unwrap();
            }
        }
        let plane = "control /dev/shm/gone\nfile 1 1\ndata 1 1\nboot 00\n";
        match random.u8(0..3) {
            0 => {}
            1 => std::fs::write(store.join("plane"), plane).unwrap(),
            _ => std::fs::write(store.join("plane"), &plane[..random.usize(0..20)]).unwrap(),
        }
    }
}

/// The file `format` of a history: digests and checksums come from its seed.
fn format_of(seed: u64) -> String {
    static MADE: LazyLock<String> = LazyLock::new(|| {
        let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let disk = StoreDisk::new(Default::default(), drop);
        let clock = Clock::manual(START);
        let engine = open_in(folder.path(), &disk, &clock, (SyncMode::Never, 0)).unwrap();
        drop(engine);
        std::fs::read_to_string(folder.path().join("store/format")).unwrap()
    });
    let line = |line: &str| match line.split_once(' ') {
        Some(("uuid", _)) => format!("uuid {seed:032x}\n"),
        Some(("secret", _)) => format!("secret {seed:064x}\n"),
        _ => format!("{line}\n"),
    };
    MADE.lines().map(line).collect()
}

/// What a recovery has to show.
struct Expected<'a> {
    history: &'a History,
    /// What an earlier recovery has shown; else what the history allows.
    shown: Option<&'a [Content]>,
}

/// A recovery under way, for cuts in it.
struct Recovery {
    disk: Rc<StoreDisk>,
    random: fastrand::Rng,
    images: Vec<Image>,
}

thread_local! {
    static PRESENT: RefCell<Option<Recovery>> = const { RefCell::new(None) };
}

fn cut_recovery(_: crate::tests::disk::DiskEvent) {
    PRESENT.with_borrow_mut(|present| {
        if let Some(Recovery { disk, random, images }) = present
            && images.len() < 4
            && random.u8(0..3) == 0
        {
            images.push(Image::of(disk, NAMES.len(), random));
        }
    });
}

/// Recovers an image. The error says what is wrong with it, and where it is kept.
pub fn examine(history: &History, image: &Image) -> Result<Vec<Content>, String> {
    let planned = REFUSED.take(); // of the history: what recovers has memory
    let shown = recover(&Expected { history, shown: None }, image, 1);
    REFUSED.set(planned);
    shown
}

/// What a recovery of an image shows, if that is right.
fn recover(expected: &Expected<'_>, image: &Image, depth: usize) -> Result<Vec<Content>, String> {
    let history = expected.history;
    if history.plan.told {
        println!("image {:016x}, recovery {depth}", image.hash);
    }
    if history.plan.mutation.is_none() {
        count_image(image.hash, history.plan.tier, depth);
    }
    let folder = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let mut random = history.random.borrow_mut().fork();
    image.make_store(folder.path(), &history.plan, &mut random);
    let disk = StoreDisk::new(image.disks(), cut_recovery);
    let inner = Recovery { disk: Rc::clone(&disk), random: random.fork(), images: Vec::new() };
    let outer = PRESENT.replace((depth < history.plan.recoveries).then_some(inner));
    let clock = Clock::manual(history.clock.now());
    let shown = recovered(expected, folder.path(), &disk, &clock, &mut random);
    let inner = PRESENT.replace(outer);
    let shown = match shown {
        Ok(shown) => shown,
        Err(fault) if history.plan.mutation.is_some() => return Err(fault),
        Err(fault) => {
            let kept = keep(image, history, &mut random);
            let kept = kept.display();
            return Err(format!("{fault}\nrecovery {depth}, the image is in {kept}"));
        }
    };
    for cut in inner.into_iter().flat_map(|inner| inner.images) {
        recover(&Expected { history, shown: Some(&shown) }, &cut, depth + 1)?;
    }
    Ok(shown)
}

fn recovered(
    expected: &Expected<'_>,
    folder: &Path,
    disk: &Rc<StoreDisk>,
    clock: &Clock,
    random: &mut fastrand::Rng,
) -> Result<Vec<Content>, String> {
    let plan = &expected.history.plan;
    let engine = open_in(folder, disk, clock, (plan.tier, plan.size_bytes_max))
        .map_err(|error| format!("the store cannot be opened: {error:#}"))?;
    let shown = look(&engine, plan)?;
    expected.check(&shown, clock)?;
    if random.u8(0..6) == 0 {
        // What no caller asked for: a sync, expiry and compaction.
        let budget = Budget { records_max: 1_000, time_max: Duration::from_secs(5) };
        let worked = engine.sync().and_then(|()| engine.sweep(budget)).map(drop);
        worked.map_err(|error| format!("maintenance fails after a recovery: {error:#}"))?;
        let again = look(&engine, plan)?;
        Expected { shown: Some(&shown), ..*expected }.check(&again, clock)?;
    }
    Ok(shown)
}

/// What a store has of each session; `verify` and the listing agree.
///
/// In the tier `none` a session may be damaged: its segment is used again at once, and a cut may
/// leave the seal of one use with parts of the next.
fn look(engine: &Engine, plan: &Plan) -> Result<Vec<Content>, String> {
    let mut shown = Vec::new();
    let mut stored = Vec::new();
    let may_be_damaged = plan.tier == SyncMode::Never;
    for number in 0..plan.sessions {
        let found = match engine.peek(&key(number)) {
            Err(error) if may_be_damaged && *error.kind() == ErrorKind::Corrupt => Found::default(),
            found => {
                found.map_err(|error| format!("session {number} cannot be read: {error:#}"))?
            }
        };
        let content = Content::found(&found, |key| session_of(engine, key))
            .ok_or_else(|| format!("session {number} has a payload that was never written"))?;
        if matches!(content, Content::Record { .. }) {
            stored.push(engine.stored_key(&key(number)));
        }
        shown.push(content);
    }
    let verified = engine.verify(&mut |_| ()).map_err(|error| format!("{error:#}"))?;
    if !verified.problems.is_empty() && !may_be_damaged {
        return Err(format!("verify finds {:?}", verified.problems));
    }
    let listed = engine.list(None, &Filter::default()).map_err(|error| format!("{error:#}"))?;
    let mut listed: Vec<_> = listed.entries.into_iter().map(|listed| listed.key).collect();
    listed.sort_unstable_by_key(|key| (key.bin().name().to_owned(), key.id().to_owned()));
    stored.sort_unstable_by_key(|key| (key.bin().name().to_owned(), key.id().to_owned()));
    if listed != stored {
        return Err("the listing has other sessions than there are, or other bins".to_owned());
    }
    Ok(shown)
}

impl Expected<'_> {
    fn check(&self, shown: &[Content], clock: &Clock) -> Result<(), String> {
        let (history, now, floor) = (self.history, clock.now(), self.history.floor());
        let sessions = history.sessions.borrow();
        for (number, (session, found)) in sessions.iter().zip(shown).enumerate() {
            let alias = |target: usize| shown.get(target).copied().unwrap_or(Content::Nothing);
            if history.plan.tier == SyncMode::Never && session.had(*found) {
                continue;
            }
            let (held, part, right) = match self.shown {
                Some(before) if history.plan.tier != SyncMode::Never => {
                    (Session::holding(before[number]), LATER_PART, "a recovery")
                }
                _ => (session.clone(), EARLIER_PART, "the history"),
            };
            let floor = if self.shown.is_some() { 0 } else { floor };
            if !held.allows(floor, *found, (now, part), alias) {
                let possible: Vec<&Change> = held.possible(floor).collect();
                return Err(format!(
                    "session {number} is {found:?} at {now:?}, {right} has {possible:#?}\nof {:#?}",
                    session.changes
                ));
            }
        }
        Ok(())
    }
}

/// Keeps the files of a store that was recovered in a wrong way.
fn keep(image: &Image, history: &History, random: &mut fastrand::Rng) -> PathBuf {
    static KEPT: Mutex<u32> = Mutex::new(0);
    let mut kept = KEPT.lock().unwrap();
    *kept += 1;
    let name = format!("seed-{}-{}", history.plan.seed, *kept);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/powercut").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    image.make_store(&folder, &history.plan, random);
    folder.canonicalize().unwrap()
}
