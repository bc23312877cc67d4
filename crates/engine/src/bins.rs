//! Bins: their names, once in shared memory, and a small number for each.
//!
//! Invariant: a name never changes once its length is there. The bin of sessions is number 0 and not in the table.

use std::time::Duration;

use sessile_core::{Bin, Error, ErrorKind, Result};

use crate::layout::{BIN_BYTES, BINS, BINS_MAX, header};
use crate::lock::{Locked, lock, unlock};
use crate::plane::Plane;
use crate::process::Process;
use crate::sync::Ordering;

fn offset(at: u64) -> u64 {
    BINS + at * BIN_BYTES
}

fn name(plane: &Plane, at: u64) -> Option<String> {
    // Acquire: pairs with the release below; the name is there when its length is.
    let length = usize::try_from(plane.control.word(offset(at)).load(Ordering::Acquire)).ok()?;
    let mut bytes = Vec::new();
    plane.control.read(offset(at) + 8, length.min(32), &mut bytes);
    String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

fn set(plane: &Plane, at: u64, name: &str) {
    plane.control.write(offset(at) + 8, name.as_bytes());
    plane.control.word(offset(at)).store(name.len() as u64, Ordering::Release);
}

/// Takes the bins over that the disk has a list of: a number and a name a line. The last line may be torn.
pub fn restore(plane: &Plane, list: &str) {
    for (number, name) in list.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.split_once(' ')) {
        let at = number.parse::<u64>().ok().and_then(|number| number.checked_sub(1));
        if let Some(at) = at.filter(|at| *at < BINS_MAX)
            && Bin::new(name).is_ok()
        {
            set(plane, at, name);
        }
    }
}

/// The bin of a number.
pub fn bin(plane: &Plane, number: u64) -> Option<Bin> {
    match number.checked_sub(1) {
        None => Some(Bin::SESSION),
        Some(at) if at < BINS_MAX => name(plane, at).and_then(|name| Bin::new(&name).ok()),
        Some(_) => None,
    }
}

fn find(plane: &Plane, bin: &Bin) -> std::result::Result<u64, u64> {
    for at in 0..BINS_MAX {
        match name(plane, at) {
            Some(name) if name == bin.name() => return Ok(at + 1),
            Some(_) => {}
            None => return Err(at),
        }
    }
    Err(BINS_MAX)
}

/// The number of a bin, which gets one if it is new.
///
/// # Errors
///
/// `Full` when there are too many bins.
pub fn number(plane: &Plane, me: &Process, bin: &Bin) -> Result<u64> {
    if *bin == Bin::SESSION {
        return Ok(0);
    }
    if let Ok(number) = find(plane, bin) {
        return Ok(number);
    }
    let word = plane.header(header::BINS_LOCK);
    let Locked::Ours(mine) = lock(plane, me, word, Duration::from_secs(5), || true) else {
        return Err(Error::new(ErrorKind::Io, "another process is adding a bin and does not go on"));
    };
    let number = find(plane, bin).or_else(|at| {
        if at == BINS_MAX {
            let why = format!("the store has {BINS_MAX} bins, which is the most that fit");
            return Err(Error::new(ErrorKind::Full, why));
        }
        if let Some(log) = &plane.log {
            log.keep_bin(at + 1, bin.name())?;
        }
        set(plane, at, bin.name());
        Ok(at + 1)
    });
    unlock(word, mine);
    number
}
