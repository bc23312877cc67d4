//! What was only in a stage when its control plane was lost: brought to the file before a rebuild reads that.
//!
//! Invariants: it runs while nobody is attached; it only puts records where their writers would have put them, in the
//! latest generation of their segment, and none that was there already and was given up; when it is done the stages are
//! empty on the disk, so that none of this is read again beside what is written later. docs/engine.md, "Stages".

use std::os::fd::OwnedFd;

use sessile_core::{Error, ErrorKind, Result};

use crate::disklog::{Log, parse};
use crate::layout::{GRANULE_BYTES, SEGMENT_BYTES, SEGMENTS_MAX, SLOTS_MAX, STAGES, STAGES_AT};
use crate::map::LINE_BYTES;
use crate::segment::location;
use crate::staging;

/// Empties the stages, which may be left of an earlier control plane, into the file. Also where stages are not used: they
/// may come from elsewhere with the directory.
///
/// # Errors
///
/// `Io` when they or the file cannot be read or written.
pub fn salvage(log: &Log, stages: &OwnedFd) -> Result<()> {
    let mut words = vec![0; STAGES_AT as usize];
    read(stages, &mut words, 0)?;
    let (mut named, mut found) = (false, 0);
    for stage in 0..STAGES {
        let word = words.get(staging::segment_at(stage)..).and_then(<[u8]>::first_chunk).copied();
        let segment = u64::from_le_bytes(word.unwrap_or_default()).checked_sub(1);
        if let Some(segment) = segment.filter(|segment| *segment < SEGMENTS_MAX) {
            named = true;
            found += salvage_one(log, stages, stage, segment)?;
        }
    }
    if named {
        // Before the stages are emptied, or a power cut could find the records in neither: also what one who was killed
        // has brought there.
        log.file.sync()?;
    }
    if found > 0 {
        log::info!("{found} records of processes that were killed were brought to the log");
    }
    empty(stages)
}

/// The records of a stage that the file does not have yet. Returns how many there were.
fn salvage_one(log: &Log, stages: &OwnedFd, stage: u64, segment: u64) -> Result<u64> {
    let (mut staged, mut stored) = (vec![0; SEGMENT_BYTES as usize], vec![0; SEGMENT_BYTES as usize]);
    read(stages, &mut staged, staging::place(stage))?;
    log.file.read(&mut stored, segment * SEGMENT_BYTES)?;
    let (records, latest) = (records(log, &staged, segment), records(log, &stored, segment));
    let generation = |records: &[(usize, usize, u64)]| records.iter().map(|(.., generation)| *generation).max();
    let Some(newest) = generation(&records).filter(|newest| Some(*newest) >= generation(&latest)) else { return Ok(0) };
    let mut written = 0;
    for (start, length, _) in records.into_iter().filter(|(.., generation)| *generation == newest) {
        let (from, to) = (staged.get(start..start + length), stored.get(start..start + length));
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from != to && !was_given_up(from, to) {
            log.file.write(from, segment * SEGMENT_BYTES + start as u64)?;
            written += 1;
        }
    }
    Ok(written)
}

/// Where the valid records of a segment begin, how long they are and of which generation.
fn records(log: &Log, bytes: &[u8], segment: u64) -> Vec<(usize, usize, u64)> {
    let record = |granule: u64| {
        let start = (granule * GRANULE_BYTES) as usize;
        let place = location(segment, crate::class::LOG, granule);
        let (line, _, length) = parse(log, bytes.get(start..)?, place)?;
        Some((start, length, line.generation))
    };
    (0..SLOTS_MAX).filter_map(record).collect()
}

/// Whether what a record was written over has lost its first word since, and nothing else of its line. One that was only
/// written in part, by a process that was killed meanwhile, has it: a line never crosses a page.
fn was_given_up(record: &[u8], stored: &[u8]) -> bool {
    let (word, line) = (8, LINE_BYTES as usize);
    stored.get(..word) == Some(&[0; 8]) && stored.get(word..line) == record.get(word..line)
}

/// Makes the stages read as zero, also after a power cut.
fn empty(stages: &OwnedFd) -> Result<()> {
    let failed =
        |errno| Error::new(ErrorKind::Io, "the file `stages` cannot be emptied").source(std::io::Error::from(errno));
    rustix::fs::ftruncate(stages, 0).and_then(|()| rustix::fs::fsync(stages)).map_err(failed)
}

/// Not through the mapping: the file may be shorter than it was.
fn read(stages: &OwnedFd, mut into: &mut [u8], mut offset: u64) -> Result<()> {
    while !into.is_empty() {
        match rustix::io::pread(stages, &mut *into, offset) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                offset += read as u64;
                into = into.get_mut(read..).unwrap_or_default();
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                let error = Error::new(ErrorKind::Io, "the file `stages` cannot be read");
                return Err(error.source(std::io::Error::from(errno)));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use sessile_core::{Clock, Key, Store, Ttl};

    use crate::disklog;
    use crate::layout::SEGMENT_BYTES;
    use crate::power::remove_control;
    use crate::words::State;
    use crate::{Engine, Options, open};

    /// A store whose sync nobody waits for: what is emptied is used again at once.
    fn store(folder: &Path) -> (PathBuf, Engine) {
        let path = folder.join("store");
        let options = Options { sync_interval: Some(Duration::ZERO), ..Options::default() };
        let engine = open(&path, Clock::system(), &options).unwrap();
        (path, engine)
    }

    fn key(name: &str) -> Key {
        Key::session(name).unwrap()
    }

    fn commit(engine: &Engine, name: &str, payload: &[u8]) {
        let ttl = Ttl::sliding(Duration::from_secs(600)).unwrap();
        let held = engine.begin(&key(name), Duration::ZERO).unwrap().held;
        engine.commit(held, payload, ttl).unwrap();
    }

    fn value(engine: &Engine, name: &str) -> Option<Vec<u8>> {
        engine.peek(&key(name)).unwrap().record.map(|record| record.payload)
    }

    /// The control plane is lost, and the stages are as they were.
    fn rebuilt_with(path: &Path, engine: Engine, stages: &[u8]) -> Engine {
        drop(engine);
        remove_control(path);
        std::fs::write(path.join("stages"), stages).unwrap();
        let (_, engine) = store(path.parent().unwrap());
        assert!(engine.verify(&mut |_| ()).unwrap().clean());
        engine
    }

    fn stages(path: &Path) -> Vec<u8> {
        std::fs::read(path.join("stages")).unwrap()
    }

    #[test]
    fn what_was_only_in_a_stage_is_found_again_and_only_once() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, engine) = store(folder.path());
        commit(&engine, "cart", b"one book");
        let staged = stages(&path);
        let data = std::fs::read(path.join("data")).unwrap();
        assert!(!data.windows(8).any(|window| window == b"one book"), "it was in the file already");
        drop(engine);
        std::fs::write(path.join("data"), data).unwrap();
        remove_control(&path);
        std::fs::write(path.join("stages"), staged).unwrap();
        let (_, engine) = store(folder.path());
        assert_eq!(value(&engine, "cart").unwrap(), b"one book");
        assert!(stages(&path).iter().all(|byte| *byte == 0), "a later rebuild would find it once more");
        drop(engine);
        remove_control(&path);
    }

    #[test]
    fn a_record_that_was_given_up_in_the_file_is_not_brought_back_from_a_stage() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, engine) = store(folder.path());
        commit(&engine, "cart", b"one book");
        let staged = stages(&path);
        engine.sync().unwrap();
        let number = 0;
        let location = State(engine.plane.entry(number).state().0).location();
        disklog::invalidate(&engine.plane, engine.me().unwrap(), location);
        let engine = rebuilt_with(&path, engine, &staged);
        assert_eq!(value(&engine, "cart"), None);
        drop(engine);
        remove_control(&path);
    }

    #[test]
    fn a_record_that_was_written_to_the_file_in_part_is_completed_from_its_stage() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, engine) = store(folder.path());
        commit(&engine, "cart", &[7; 6_000]);
        let staged = stages(&path);
        engine.sync().unwrap();
        // As by a process that was killed when the first page of it was written.
        let data = std::fs::OpenOptions::new().write(true).open(path.join("data")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&data, &[0; 4_096], 4_096).unwrap();
        let engine = rebuilt_with(&path, engine, &staged);
        assert_eq!(value(&engine, "cart"), Some(vec![7; 6_000]));
        drop(engine);
        remove_control(&path);
    }

    #[test]
    fn a_stage_of_an_earlier_generation_is_not_written_over_a_later_one() {
        let folder = tempfile::TempDir::new_in("/var/tmp").unwrap();
        let (path, engine) = store(folder.path());
        (0..20).for_each(|_| commit(&engine, "other", &[7; 9_000]));
        let staged = stages(&path);
        let segment = u64::from_le_bytes(staged[8..16].try_into().unwrap()) - 1;
        // Its records are dead soon, and its segment is used again for some that stay.
        let plane = &engine.plane;
        let is_there = |entry: u64| {
            let state = plane.entry(entry).state();
            let location = state.location();
            state.has_record() && location.segment() == segment && location.within() < SEGMENT_BYTES / 2
        };
        let mut kept = 0_u16;
        while !(0..u64::from(kept)).any(is_there) {
            assert!(kept < 9_999, "the segment is never used again");
            (0..3).for_each(|_| commit(&engine, "other", &[8; 9_000]));
            commit(&engine, &format!("late-{kept}"), &kept.to_le_bytes().repeat(700));
            kept += 1;
        }
        engine.sync().unwrap();
        let engine = rebuilt_with(&path, engine, &staged);
        for number in 0..kept {
            assert_eq!(value(&engine, &format!("late-{number}")), Some(number.to_le_bytes().repeat(700)), "{number}");
        }
        assert_eq!(value(&engine, "other"), Some(vec![8; 9_000]));
        drop(engine);
        remove_control(&path);
    }
}
