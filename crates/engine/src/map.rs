//! Files that are mapped into memory as words.
//!
//! Invariant: a [`Region`] is mapped once, as a whole and beyond the end of its file, and stays mapped as long as
//! it lives; so a reference to one of its words is always valid memory. What lies beyond the end of the file, or in
//! a hole of a full file system, is SIGBUS to touch: callers only go where [`Region::back`] has succeeded before,
//! which the control plane knows. This is one of the few files with unsafe code.

#![allow(unsafe_code, reason = "docs/decisions/0006-slots-and-entries-in-shared-memory.md")]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
#[cfg(not(sessile_model))]
use std::sync::atomic::AtomicU32;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use sessile_core::{Error, ErrorKind, Result};

use crate::sync::{Ordering, Word};

/// Bytes of a cache line, of an entry, of either half of a bucket.
pub const LINE_BYTES: u64 = 64;
/// Words of a line.
pub const LINE_WORDS: usize = 8;

#[cfg(sessile_model)]
thread_local! {
    // Start, length and inode of what the models on this thread have mapped.
    static MAPPED: std::cell::RefCell<Vec<(usize, usize, u64)>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A mapped file.
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
    /// Maps the first `bytes` of a file, which may be shorter. What is not `writable` is only read.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` when the address space is limited.
    pub fn map(file: OwnedFd, name: &'static str, bytes: u64, writable: bool) -> Result<Region> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, &file, 0) };
        let refused = |errno: Errno| {
            Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of address space for {name} were refused"))
                .advice("raise the limit on address space (ulimit -v)")
                .source(std::io::Error::from(errno))
        };
        let start = NonNull::new(mapped.map_err(refused)?.cast()).ok_or_else(|| refused(Errno::NOMEM))?;
        #[cfg(sessile_model)]
        MAPPED.with_borrow_mut(|mapped| {
            let inode = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_ino);
            mapped.push((start.as_ptr() as usize, length, inode));
        });
        Ok(Region { file, name, start, bytes })
    }

    /// Which word this is, whoever has mapped it where: what the kernel finds out about a shared futex.
    #[cfg(sessile_model)]
    pub fn identity(word: &Word) -> crate::machine::Identity {
        let at = std::ptr::from_ref(word) as usize;
        MAPPED.with_borrow(|mapped| {
            let of = mapped.iter().find(|(start, length, _)| (*start..start + length).contains(&at));
            of.map_or((0, at), |(start, _, inode)| (*inode, at - start))
        })
    }

    /// The file.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// How far it reaches.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One word.
    #[inline]
    pub fn word(&self, offset: u64) -> &Word {
        assert!(offset.is_multiple_of(8) && offset < self.bytes, "a word lies inside its region");
        // SAFETY: inside the mapping (asserted) and aligned; Word is a transparent atomic, valid for any bits.
        unsafe { &*self.start.as_ptr().add(offset as usize).cast::<Word>() }
    }

    /// Eight words of one cache line.
    #[inline]
    pub fn line(&self, offset: u64) -> &[Word; LINE_WORDS] {
        assert!(offset.is_multiple_of(LINE_BYTES) && offset < self.bytes, "a line lies inside its region");
        // SAFETY: as in `word`; regions are whole pages, so a line that begins inside ends inside.
        unsafe { &*self.start.as_ptr().add(offset as usize).cast::<[Word; LINE_WORDS]>() }
    }

    /// The low half of a word, for the kernel to sleep on. Little-endian, which opening checks.
    #[cfg(not(sessile_model))]
    #[inline]
    pub fn low_half(word: &Word) -> &AtomicU32 {
        // SAFETY: an aligned atomic of eight bytes begins with an aligned one of four; mixed sizes are only
        // compared by the kernel, never written through this reference.
        unsafe { &*std::ptr::from_ref(word).cast::<AtomicU32>() }
    }

    /// Asks for a line in advance.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        #[cfg(target_arch = "x86_64")]
        if offset < self.bytes {
            // SAFETY: a prefetch never faults; the address is inside the mapping anyway.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().add(offset as usize).cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Asks for several lines, one after the other, in advance.
    #[inline]
    pub fn prefetch_lines(&self, offset: u64, lines: u64) {
        #[cfg(target_arch = "x86_64")]
        if offset.saturating_add(lines * LINE_BYTES) <= self.bytes {
            for line in 0..lines {
                // SAFETY: a prefetch never faults; the address is inside the mapping anyway.
                unsafe {
                    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                    let at = (offset + line * LINE_BYTES) as usize;
                    _mm_prefetch::<_MM_HINT_T0>(self.start.as_ptr().add(at).cast());
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (offset, lines);
    }

    /// Appends `length` bytes from `offset` (a multiple of 8) to a vector. What is read may be in use by someone
    /// else: each word is copied whole, so that it is at worst a mixture and never undefined.
    pub fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>) {
        let words = length.div_ceil(8);
        let end = offset.saturating_add(words as u64 * 8);
        assert!(offset.is_multiple_of(8) && end <= self.bytes, "what is read lies inside its region");
        into.reserve(words * 8);
        let old = into.len();
        // SAFETY: source and target have `words` words of room (asserted, reserved); the source is atomic, the
        // target is ours alone and may be unaligned; the new length is initialised by the loop.
        unsafe {
            let from = self.start.as_ptr().add(offset as usize).cast::<Word>();
            let to = into.as_mut_ptr().add(old).cast::<u64>();
            let lines = words / LINE_WORDS;
            for line in 0..lines {
                copy_line(from.add(line * LINE_WORDS), to.add(line * LINE_WORDS));
            }
            for at in lines * LINE_WORDS..words {
                to.add(at).write_unaligned((*from.add(at)).load(Ordering::Relaxed));
            }
            into.set_len(old + length);
        }
    }

    /// Writes bytes from `offset` (a multiple of 8) on; the last word is filled up with zeros. The caller owns the
    /// place, but a late reader may still look at it, hence the atomic words.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len().div_ceil(8) as u64 * 8);
        assert!(offset.is_multiple_of(8) && end <= self.bytes, "what is written lies inside its region");
        let mut at = offset;
        let (words, rest) = bytes.as_chunks::<8>();
        // SAFETY: as in `word`, for each word up to `end`.
        let word = |at: u64| unsafe { &*self.start.as_ptr().add(at as usize).cast::<Word>() };
        for bytes in words {
            word(at).store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            at += 8;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            word(at).store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Makes sure that these bytes have memory, growing the file if needed. Repeating it does no harm.
    ///
    /// # Errors
    ///
    /// `Full` when the file system has no room: an error here instead of SIGBUS later.
    pub fn back(&self, offset: u64, bytes: u64) -> Result<()> {
        let granted = loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, bytes) {
                Err(Errno::INTR) => {} // older kernels give up at any signal
                granted => break granted,
            }
        };
        granted.map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Error::new(
                ErrorKind::Full,
                format!("the file system has no room for {bytes} more bytes of {}", self.name),
            )
            .advice("give /dev/shm more room, lower time to live or payloads, or run `sessile gc`"),
            Errno::NOMEM => {
                Error::new(ErrorKind::OutOfMemory, format!("no memory for {bytes} more bytes of {}", self.name))
                    .advice("raise the memory limit of the container or host")
            }
            _ => Error::new(ErrorKind::Io, format!("{} cannot grow", self.name)).source(std::io::Error::from(errno)),
        })
    }

    /// Gives the memory of these bytes back to the kernel. A failure costs room and nothing else.
    pub fn punch(&self, offset: u64, bytes: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(errno) = rustix::fs::fallocate(&self.file, flags, offset, bytes) {
            log::warn!("{} cannot give {bytes} bytes back: {errno}", self.name);
        }
    }

    /// Bytes of memory that the file occupies.
    pub fn occupied(&self) -> u64 {
        rustix::fs::fstat(&self.file).map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }
}

/// Copies one line of shared memory, which may be changed meanwhile.
///
/// Written out because the compiler never joins atomic loads: four loads of 16 bytes instead of eight words, so that
/// twice as much of what is still on its way from memory is asked for at a time.
///
/// # Safety
///
/// 64 bytes can be read at `from` and written at `to`, which nobody else looks at; neither needs to be aligned.
#[cfg(all(target_arch = "x86_64", not(sessile_model)))]
#[inline(always)]
unsafe fn copy_line(from: *const Word, to: *mut u64) {
    // SAFETY: the room is the caller's promise; SSE2 belongs to every x86-64. The processor defines what loads see
    // while others store: each aligned word whole, and in order with the loads after them, as relaxed atomic loads
    // of words would. To the compiler this is one opaque access, which no fence is moved across.
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

/// Copies one line of shared memory, which may be changed meanwhile, word by word: on other processors, and in models,
/// where each word is a point at which another thread may go on.
///
/// # Safety
///
/// 64 bytes can be read at `from`, which is aligned to a word, and written at `to`, which nobody else looks at.
#[cfg(any(not(target_arch = "x86_64"), sessile_model))]
#[inline(always)]
unsafe fn copy_line(from: *const Word, to: *mut u64) {
    for at in 0..LINE_WORDS {
        // SAFETY: the room is the caller's promise.
        unsafe { to.add(at).write_unaligned((*from.add(at)).load(Ordering::Relaxed)) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        #[cfg(sessile_model)]
        MAPPED.with_borrow_mut(|mapped| mapped.retain(|(start, ..)| *start != self.start.as_ptr() as usize));
        // SAFETY: the mapping is ours, and no reference outlives the Region.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes as usize) };
    }
}

/// A number that a forked child finds zero: a page that the kernel wipes on fork.
pub struct ForkMark {
    page: NonNull<u8>,
}

const PAGE_BYTES: usize = 4096;

// SAFETY: only an atomic word of the page is handed out.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// A new mark, zero.
    ///
    /// # Errors
    ///
    /// `Unsupported` on kernels before 4.14.
    pub fn new() -> Result<ForkMark> {
        let refused = |errno: Errno| {
            Error::new(ErrorKind::Unsupported, "the kernel cannot mark a page as wiped on fork")
                .advice("Linux 4.14 or newer is needed")
                .source(std::io::Error::from(errno))
        };
        // SAFETY: a new private mapping at an address of the kernel's choice; advice on our own page.
        let page = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let page = rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::PRIVATE);
            let page = page.map_err(refused)?;
            rustix::mm::madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork).map_err(refused)?;
            page
        };
        Ok(ForkMark { page: NonNull::new(page.cast()).ok_or_else(|| refused(Errno::NOMEM))? })
    }

    /// The word: zero in a forked child until the child writes it.
    #[inline]
    pub fn word(&self) -> &std::sync::atomic::AtomicU64 {
        // SAFETY: the page lives as long as the mark, is aligned and zeroed.
        unsafe { &*self.page.as_ptr().cast() }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: our own page, and no reference outlives the mark.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
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
            // Within a line, across its end, across the end of a page; and what was there before stays.
            for offset in [0, 8, 56, 4_096 - 72] {
                region.write(offset, &written[..length]);
                let mut read = b"abc".to_vec();
                region.read(offset, length, &mut read);
                assert_eq!(read, [b"abc", &written[..length]].concat(), "{length} bytes at {offset}");
            }
        }
    }
}
