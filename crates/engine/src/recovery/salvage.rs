//! Salvage: records that were only in a stage are brought to the file before a rebuild reads it.
//!
//! Invariants: it runs while no process is attached; it puts records only where their writers would
//! have, in the latest generation of their segment, and none that was given up; then it empties the
//! stages, so that none is read again beside later writes.

use std::os::fd::OwnedFd;

use sessile_core::Result;

use crate::{memory::*, storage::*};

/// Empties the stages into the file, also where they are not used: they may have come with the
/// directory.
pub fn salvage(log: &DiskLog, stages: &OwnedFd) -> Result<()> {
    let mut words = vec![0; STAGES_AT as usize];
    read_stages(stages, &mut words, 0)?;
    let (mut named, mut found) = (false, 0);
    for stage in 0..STAGES {
        let word = words.get(stage_segment_at(stage)..).and_then(<[u8]>::first_chunk).copied();
        let segment = u64::from_le_bytes(word.unwrap_or_default()).checked_sub(1);
        if let Some(segment) = segment.filter(|segment| *segment < SEGMENTS_MAX) {
            named = true;
            found += salvage_stage(log, stages, stage, segment)?;
        }
    }
    if named {
        // Before the stages are emptied: a power cut could find the records in neither.
        log.file.sync()?;
    }
    if found > 0 {
        log::info!("{found} records of processes that were killed were brought to the log");
    }
    // They read as zero, also after a power cut.
    let emptied = rustix::fs::ftruncate(stages, 0).and_then(|()| rustix::fs::fsync(stages));
    emptied.explained("the file `stages` cannot be emptied")
}

fn salvage_stage(log: &DiskLog, stages: &OwnedFd, stage: u64, segment: u64) -> Result<u64> {
    let (mut staged, mut stored) =
        (vec![0; SEGMENT_BYTES as usize], vec![0; SEGMENT_BYTES as usize]);
    read_stages(stages, &mut staged, stage_offset(stage))?;
    log.file.read(&mut stored, segment * SEGMENT_BYTES)?;
    let generations =
        |bytes| parse_segment(log, bytes, segment).map(|record| record.line.generation);
    let newest = generations(&staged).max();
    let mut written = 0;
    if newest < generations(&stored).max() {
        return Ok(0);
    }
    for record in parse_segment(log, &staged, segment) {
        let (start, bytes) = (record.start, record.bytes);
        let Some(to) = stored.get(start..start + bytes.len()) else { continue };
        if Some(record.line.generation) == newest && bytes != to && !was_given_up(bytes, to) {
            log.file.write(bytes, segment * SEGMENT_BYTES + start as u64)?;
            written += 1;
        }
    }
    Ok(written)
}

/// Whether only the first word is gone. A record that was written in part has it: a line never
/// crosses a page.
fn was_given_up(record: &[u8], stored: &[u8]) -> bool {
    let (word, line) = (8, LOG_LINE_BYTES as usize);
    stored.get(..word) == Some(&[0; 8]) && stored.get(word..line) == record.get(word..line)
}

/// Not through the mapping: the file may be shorter than it was.
fn read_stages(stages: &OwnedFd, into: &mut [u8], offset: u64) -> Result<()> {
    read_whole(stages, into, offset).explained("the file `stages` cannot be read")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use sessile_core::{Clock, Key, Store, Ttl};

    use crate::memory::SEGMENT_BYTES;
    use crate::power_tests::remove_control;
    use crate::{Engine, EngineOptions, open};

    /// A store whose sync nobody waits for: what is emptied is used again at once.
    fn store(folder: &Path) -> (PathBuf, Engine) {
        let path = folder.join("store");
        let options =
            EngineOptions { sync_interval: Some(Duration::ZERO), ..EngineOptions::default() };
        let engine = open(&path, Clock::system(), &options).unwrap();
        (path, engine)
    }

    fn key(name: &str) -> Key {
        Key::session(name).unwrap()
    }

    fn commit(engine: &Engine, name: &str, payload: &[u8]) {
        let ttl = Ttl::sliding(Duration::from_secs(600)).unwrap();
        let held = engine.begin(&key(name), Duration::ZERO).unwrap().0;
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
        assert!(engine.verify(&mut |_| ()).unwrap().problems.is_empty());
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
        assert!(
            stages(&path).iter().all(|byte| *byte == 0),
            "a later rebuild would find it once more"
        );
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
        let location = engine.plane.entry(number).state().location();
        engine.me().unwrap().invalidate(&engine.plane, location);
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
            state.has_record()
                && location.segment() == segment
                && location.within() < SEGMENT_BYTES / 2
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
            assert_eq!(
                value(&engine, &format!("late-{number}")),
                Some(number.to_le_bytes().repeat(700)),
                "{number}"
            );
        }
        assert_eq!(value(&engine, "other"), Some(vec![8; 9_000]));
        drop(engine);
        remove_control(&path);
    }
}
