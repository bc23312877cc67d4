//! Keys as the engine stores them: a keyed digest of bin and id, and a number for the bin.
//!
//! Invariant: the name of a bin never changes once its length is there.

use std::time::Duration;

use sessile_core::{Bin, Error, ErrorKind, Key, Limits, Result};

use super::process::AttachedProcess;
use crate::memory::*;

const DIGEST_BLOCK: usize = 64;
const BIN_WAIT_MAX: Duration = Duration::from_secs(5);

impl Plane {
    /// Its first half spreads over the index.
    pub fn digest_of(&self, key: &Key) -> KeyDigest {
        let (bin, id) = (key.bin().name().as_bytes(), key.id().as_bytes());
        let length = bin.len() + 1 + id.len();
        // Most keys fit into the first; the second has room for the longest.
        let (mut short, mut long);
        let bytes: &mut [u8] = if length <= DIGEST_BLOCK {
            short = [0; DIGEST_BLOCK];
            &mut short
        } else {
            long = [0; Limits::BIN_BYTES_MAX + 1 + Limits::ID_BYTES_MAX];
            &mut long
        };
        if let Some((to, rest)) = bytes.split_at_mut_checked(bin.len())
            && let Some(to_id) = rest.get_mut(1..=id.len())
        {
            to.copy_from_slice(bin);
            to_id.copy_from_slice(id);
        }
        let hash = blake3::keyed_hash(&self.secret, bytes.get(..length).unwrap_or(bytes));
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        KeyDigest(word(0), word(1))
    }

    fn bin_name(&self, at: u64) -> Option<String> {
        // Acquire: pairs with the release in `set_bin`; the name is there when its length is.
        let length = usize::try_from(self.control.word(offset(at)).load(Acquire)).ok()?;
        let mut bytes = Vec::new();
        self.control.read(offset(at) + 8, length.min(32), &mut bytes);
        String::from_utf8(bytes).ok().filter(|name| !name.is_empty())
    }

    fn set_bin(&self, at: u64, name: &str) {
        self.control.write(offset(at) + 8, name.as_bytes());
        self.control.word(offset(at)).store(name.len() as u64, Release);
    }

    /// A number and a name a line; the last line may be torn.
    pub fn restore_bins(&self, list: &str) {
        for (number, name) in
            list.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.split_once(' '))
        {
            let at = number.parse::<u64>().ok().and_then(|number| number.checked_sub(1));
            if let Some(at) = at.filter(|at| *at < BINS_MAX)
                && Bin::new(name).is_ok()
            {
                self.set_bin(at, name);
            }
        }
    }

    pub fn bin_of(&self, number: u64) -> Option<Bin> {
        match number.checked_sub(1) {
            None => Some(Bin::SESSION),
            Some(at) if at < BINS_MAX => self.bin_name(at).and_then(|name| Bin::new(&name).ok()),
            Some(_) => None,
        }
    }

    /// The number of a bin, or the first place without one.
    fn find_bin(&self, bin: &Bin) -> std::result::Result<u64, u64> {
        for at in 0..BINS_MAX {
            match self.bin_name(at) {
                Some(name) if name == bin.name() => return Ok(at + 1),
                Some(_) => {}
                None => return Err(at),
            }
        }
        Err(BINS_MAX)
    }
}

/// What listings and moved leases show: the digest as the id.
pub fn shown_key(bin: Bin, digest: KeyDigest) -> Result<Key> {
    Key::in_bin(bin, &format!("{:016x}{:016x}", digest.0, digest.1))
}

/// The digest of an id that [`shown_key`] has made.
pub fn shown_digest(id: &str) -> Option<KeyDigest> {
    let word = |hex| u64::from_str_radix(hex, 16).ok();
    let (first, second) = id.split_at_checked(16)?;
    let digest = KeyDigest(word(first)?, word(second)?);
    // Other texts have the same numbers: more zeros, capitals.
    shown_key(Bin::SESSION, digest).is_ok_and(|shown| shown.id() == id).then_some(digest)
}

fn offset(at: u64) -> u64 {
    BINS + at * BIN_BYTES
}

impl AttachedProcess {
    /// The number of a bin, which gets one if it is new.
    pub fn bin_number(&self, plane: &Plane, bin: &Bin) -> Result<u64> {
        if *bin == Bin::SESSION {
            return Ok(0);
        }
        if let Ok(number) = plane.find_bin(bin) {
            return Ok(number);
        }
        let word = plane.header(header::BINS_LOCK);
        let Some(_held) = self.hold(plane, word, BIN_WAIT_MAX) else {
            return Err(Error::new(ErrorKind::Io, "another process does not finish adding a bin"));
        };
        plane.find_bin(bin).or_else(|at| {
            if at == BINS_MAX {
                let why = format!("the store has {BINS_MAX} bins, which is the most that fit");
                return Err(Error::new(ErrorKind::Full, why));
            }
            if let Some(log) = &plane.log {
                log_bin(log, at + 1, bin.name())?;
            }
            plane.set_bin(at, bin.name());
            Ok(at + 1)
        })
    }
}

/// Brings a bin to the disk before its number is used.
fn log_bin(log: &DiskLog, number: u64, name: &str) -> Result<()> {
    // A line begins on one of its own, also after one that was torn.
    let line = format!("\n{number} {name}\n");
    log.bins.write(line.as_bytes(), log.bins.length()?)?;
    if mutated(Mutation::BinUnsynced) { Ok(()) } else { log.bins.sync() }
}
