//! Files that are mapped into memory as words.
//!
//! Invariant: a [`Region`] is mapped once, beyond the end of its file, and stays mapped as long as
//! it lives, so a reference to one of its words is valid. Bytes without memory are SIGBUS: callers
//! touch only bytes for which [`Region::back`] has succeeded.

#![allow(unsafe_code, reason = "docs/decisions/0006-slots-and-entries-in-shared-memory.md")]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
#[cfg(not(sessile_model))]
use std::sync::atomic::AtomicU32;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, ProtFlags};
use sessile_core::Result;

use super::errors::{Explained, refused};
use super::layout::{CACHE_LINE_BYTES, LINE_WORDS};
use super::sync::{Acquire, Relaxed, Word};

#[cfg(sessile_model)]
thread_local! {
    // Start, length and inode of the mappings of the models on this thread.
    static MAPPED: std::cell::RefCell<Vec<(usize, usize, u64)>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
thread_local! {
    /// An allocation of this thread that finds no room, after so many; none once it has come.
    pub static REFUSED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

pub struct Region {
    file: OwnedFd,
    name: &'static str,
    start: NonNull<u8>,
    bytes: u64,
}

// SAFETY: the mapping belongs to the Region alone, and all access goes through atomic words.
unsafe impl Send for Region {}
// SAFETY: as above; shared references only hand out atomics.
unsafe impl Sync for Region {}

impl Region {
    /// Maps the first `bytes` of a file, which may be shorter.
    pub fn map(file: OwnedFd, name: &'static str, bytes: u64, writable: bool) -> Result<Region> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapped =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, &file, 0) };
        let mapped = mapped.map_err(|errno| {
            refused(format!("{bytes} bytes of address space for {name} were refused"), errno)
                .advice("raise the limit on address space (ulimit -v)")
        })?;
        let start = non_null(mapped)?;
        #[cfg(sessile_model)]
        MAPPED.with_borrow_mut(|mapped| {
            let inode = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_ino);
            mapped.push((start.as_ptr() as usize, length, inode));
        });
        Ok(Region { file, name, start, bytes })
    }

    /// What the kernel finds out about a shared futex.
    #[cfg(sessile_model)]
    pub fn identity(word: &Word) -> super::machine::WordIdentity {
        let at = std::ptr::from_ref(word) as usize;
        MAPPED.with_borrow(|mapped| {
            let of =
                mapped.iter().find(|(start, length, _)| (*start..start + length).contains(&at));
            of.map_or((0, at), |(start, _, inode)| (*inode, at - start))
        })
    }

    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub fn word(&self, offset: u64) -> &Word {
        assert!(offset.is_multiple_of(8) && offset < self.bytes, "a word lies inside its region");
        // SAFETY: inside the mapping (asserted) and aligned; Word is a transparent atomic, valid
        // for any bits.
        unsafe { &*self.start.as_ptr().add(offset as usize).cast::<Word>() }
    }

    #[inline]
    pub fn line(&self, offset: u64) -> &[Word; LINE_WORDS] {
        self.words(offset)
    }

    #[inline]
    pub fn words<const WORDS: usize>(&self, offset: u64) -> &[Word; WORDS] {
        let bytes = WORDS as u64 * 8;
        assert!(
            offset.is_multiple_of(CACHE_LINE_BYTES) && offset <= self.bytes.saturating_sub(bytes),
            "words lie inside their region"
        );
        // SAFETY: as in `word`.
        unsafe { &*self.start.as_ptr().add(offset as usize).cast::<[Word; WORDS]>() }
    }

    /// Reads a line word by word; Acquire: later words are not older than the first.
    #[inline(always)]
    pub fn load_line(&self, offset: u64) -> [u64; LINE_WORDS] {
        let [first, rest @ ..] = self.line(offset);
        let mut words = [first.load(Acquire), 0, 0, 0, 0, 0, 0, 0];
        words.iter_mut().skip(1).zip(rest).for_each(|(to, from)| *to = from.load(Relaxed));
        words
    }

    /// The low half of a word, for the kernel to sleep on. Little-endian, which opening checks.
    #[cfg(not(sessile_model))]
    #[inline]
    pub fn low_half(word: &Word) -> &AtomicU32 {
        // SAFETY: an aligned atomic of eight bytes begins with an aligned one of four; mixed sizes
        // are only compared by the kernel, never written through this reference.
        unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
    }

    #[inline]
    pub fn prefetch_lines(&self, offset: u64, lines: u64) {
        #[cfg(target_arch = "x86_64")]
        if offset.saturating_add(lines * CACHE_LINE_BYTES) <= self.bytes {
            for line in 0..lines {
                // SAFETY: a prefetch never faults; the address is inside the mapping anyway.
                unsafe {
                    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                    let at = (offset + line * CACHE_LINE_BYTES) as usize;
                    _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().add(at).cast());
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (offset, lines);
    }

    /// Appends `length` bytes from `offset` (a multiple of 8) to a vector. Each word is copied
    /// whole: under a writer the copy is a mixture, never undefined.
    pub fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>) {
        let words = length.div_ceil(8);
        let end = offset.saturating_add(words as u64 * 8);
        assert!(
            offset.is_multiple_of(8) && end <= self.bytes,
            "what is read lies inside its region"
        );
        into.reserve(words * 8);
        let old = into.len();
        // SAFETY: source and target have `words` words of room (asserted, reserved); the source is
        // atomic, the target is ours alone and may be unaligned; the new length is initialised by
        // the loop.
        unsafe {
            let from = self.start.as_ptr().add(offset as usize).cast::<Word>();
            let to = into.as_mut_ptr().add(old).cast::<u64>();
            let lines = words / LINE_WORDS;
            for line in 0..lines {
                copy_line(from.add(line * LINE_WORDS), to.add(line * LINE_WORDS));
            }
            for at in lines * LINE_WORDS..words {
                to.add(at).write_unaligned((*from.add(at)).load(Relaxed));
            }
            into.set_len(old + length);
        }
    }

    /// Writes bytes from `offset` (a multiple of 8) on; the last word is filled up with zeros. A
    /// late reader may still read there, hence the atomic words.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len().div_ceil(8) as u64 * 8);
        assert!(
            offset.is_multiple_of(8) && end <= self.bytes,
            "what is written lies inside its region"
        );
        let mut at = offset;
        let (words, rest) = bytes.as_chunks::<8>();
        // SAFETY: as in `word`, for each word up to `end`.
        let word = |at: u64| unsafe { &*self.start.as_ptr().add(at as usize).cast::<Word>() };
        for bytes in words {
            word(at).store(u64::from_ne_bytes(*bytes), Relaxed);
            at += 8;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            word(at).store(u64::from_ne_bytes(last), Relaxed);
        }
    }

    /// Makes sure that these bytes have memory: `Full` here instead of SIGBUS later. It may be
    /// repeated.
    pub fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        #[cfg(test)]
        let refused_here = REFUSED.replace(REFUSED.get().and_then(|left| left.checked_sub(1)));
        #[cfg(not(test))]
        let refused_here = None::<u64>;
        let allocated = match refused_here {
            Some(0) => Err(Errno::NOSPC),
            _ => allocate(&self.file, FallocateFlags::empty(), offset, bytes),
        };
        allocated.map_err(|errno| {
            let why = format!("{} cannot grow by {bytes} bytes", self.name);
            refused(why, errno).advice(match errno {
                Errno::NOMEM => "raise the memory limit of the container or host",
                _ => "give /dev/shm more room, lower time to live or payloads, or run `sessile gc`",
            })
        })
    }

    pub fn punch(&self, offset: u64, bytes: u64) {
        punch(&self.file, self.name, offset, bytes);
    }

    pub fn occupied(&self) -> u64 {
        rustix::fs::fstat(&self.file)
            .map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }
}

pub fn allocate(
    file: &OwnedFd,
    flags: FallocateFlags,
    offset: u64,
    bytes: u64,
) -> rustix::io::Result<()> {
    // Older kernels give up at any signal.
    retry_on_intr(|| fallocate(file, flags, offset, bytes))
}

/// Gives the room of bytes of a file back. A failure costs only room.
pub fn punch(file: &OwnedFd, name: &str, offset: u64, bytes: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(errno) = fallocate(file, flags, offset, bytes) {
        log::warn!("{name} cannot give {bytes} bytes back: {errno}");
    }
}

/// Copies one line of shared memory, which may be changed meanwhile.
///
/// Four loads of 16 bytes keep twice as many lines on their way from memory as eight loads of a
/// word; the compiler never joins atomic loads.
///
/// # Safety
///
/// 64 bytes can be read at `from` and written at `to`, which is the caller's alone; neither needs
/// to be aligned.
#[cfg(all(target_arch = "x86_64", not(sessile_model)))]
#[inline(always)]
unsafe fn copy_line(from: *const Word, to: *mut u64) {
    // SAFETY: the caller promises the room; SSE2 belongs to every x86-64. The processor defines
    // what loads see while others store: each aligned word whole, and in order with the loads after
    // them, as relaxed atomic loads of words would. To the compiler this is one opaque access,
    // which no fence is moved across.
    unsafe {
        std::arch::asm!(
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            "movdqu [{to}], {a}",
            "movdqu [{to} + 16], {b}",
            "movdqu [{to} + 32], {c}",
            "movdqu [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies one line of shared memory word by word: on other processors, and in models, where each
/// word is a point at which the scheduler may switch.
///
/// # Safety
///
/// 64 bytes can be read at `from`, which is aligned to a word, and written at `to`, which is the
/// caller's alone.
#[cfg(any(not(target_arch = "x86_64"), sessile_model))]
#[inline(always)]
unsafe fn copy_line(from: *const Word, to: *mut u64) {
    for at in 0..LINE_WORDS {
        // SAFETY: the caller promises the room.
        unsafe { to.add(at).write_unaligned((*from.add(at)).load(Relaxed)) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        #[cfg(sessile_model)]
        MAPPED.with_borrow_mut(|mapped| {
            mapped.retain(|(start, ..)| *start != self.start.as_ptr() as usize)
        });
        // SAFETY: the mapping is ours, and no reference outlives the Region.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes as usize) };
    }
}

pub fn non_null(mapped: *mut std::ffi::c_void) -> Result<NonNull<u8>> {
    NonNull::new(mapped.cast()).ok_or(Errno::NOMEM).explained("the kernel maps at address zero")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written_at_every_length_and_place() {
        let file = rustix::fs::memfd_create("region", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let region = Region::map(file, "a test", 8_192, true).unwrap();
        region.back(0, 8_192).unwrap();
        let written: Vec<u8> = (0..400_u32).map(|at| (at % 251) as u8 + 1).collect();
        for length in 0..=written.len() {
            // Within a line, across its end, across the end of a page; and what was there before
            // stays.
            for offset in [0, 8, 56, 4_096 - 72] {
                region.write(offset, &written[..length]);
                let mut read = b"abc".to_vec();
                region.read(offset, length, &mut read);
                assert_eq!(
                    read,
                    [b"abc", &written[..length]].concat(),
                    "{length} bytes at {offset}"
                );
            }
        }
    }
}
