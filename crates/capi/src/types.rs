//! What crosses the interface by value.

use std::ffi::c_char;
use std::time::Duration;

use sessile_core::{Bin, Key, Limits, Record, Result, Swept, Ttl, spare};

use crate::call::missing;

/// Bytes of the caller, which have to stay as they are for the time of the call. Null is no bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_bytes {
    /// The first one.
    pub data: *const c_char,
    /// How many.
    pub length: usize,
}

impl sessile_bytes {
    /// # Safety
    ///
    /// `data` is null or points to `length` bytes that nobody changes during the call.
    pub(crate) unsafe fn get<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; not null.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.length) }
    }
}

/// Which record is meant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_key {
    /// The class of data; no bytes: `session`.
    pub bin: sessile_bytes,
    /// 1 to 256 bytes of `A-Z a-z 0-9 , _ -`; outside of the bin `session` also `.` and `:`.
    pub id: sessile_bytes,
}

impl sessile_key {
    /// # Safety
    ///
    /// As for `sessile_bytes::get`, for both.
    pub(crate) unsafe fn get(self) -> Result<Key> {
        // SAFETY: the caller's promise.
        let (bin, id) = unsafe { (self.bin.get(), self.id.get()) };
        if bin.is_empty() {
            return Key::session_from_bytes(id);
        }
        // What is not text is no name either: the replacement is refused like any other wrong character.
        Key::in_bin(Bin::new(&String::from_utf8_lossy(bin))?, &String::from_utf8_lossy(id))
    }
}

/// Longest time to live in milliseconds: ten years. Longer ones are refused.
pub const SESSILE_TTL_MAX_MS: u64 = 315_360_000_000;
const _: () = assert!(SESSILE_TTL_MAX_MS as u128 == Limits::TTL_MAX.as_millis());

/// How long a record lives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_ttl {
    /// From each commit or touch on, in milliseconds; at least 1.
    pub idle_ms: u64,
    /// From the creation of the record on at most, in milliseconds; 0: without such an end.
    pub lifetime_ms: u64,
}

impl sessile_ttl {
    pub(crate) fn get(self) -> Result<Ttl> {
        let ttl = Ttl::sliding(Duration::from_millis(self.idle_ms))?;
        if self.lifetime_ms == 0 { Ok(ttl) } else { ttl.within(Duration::from_millis(self.lifetime_ms)) }
    }
}

/// What was found. Freed by `sessile_record_free`.
#[repr(C)]
pub struct sessile_record {
    /// Whether there is a live record; if not, the rest says nothing.
    pub found: bool,
    /// What was stored last; null if that is no bytes.
    pub payload: *mut c_char,
    /// Bytes of it.
    pub payload_length: usize,
    /// Of no interest to callers.
    pub payload_capacity: usize,
    /// 1 when created, one more after each commit; 0: the store does not know.
    pub version: u64,
    /// Milliseconds since 1970-01-01 UTC, like the next two.
    pub created_ms: u64,
    /// When the payload was last committed.
    pub written_ms: u64,
    /// From this moment on it reads as missing.
    pub expires_ms: u64,
}

impl sessile_record {
    pub(crate) fn of(record: Option<Record>) -> sessile_record {
        let empty = sessile_record {
            found: false,
            payload: std::ptr::null_mut(),
            payload_length: 0,
            payload_capacity: 0,
            version: 0,
            created_ms: 0,
            written_ms: 0,
            expires_ms: 0,
        };
        let Some(record) = record else { return empty };
        let numbers = sessile_record {
            found: true,
            version: record.version,
            created_ms: record.created.as_ms(),
            written_ms: record.written.as_ms(),
            expires_ms: record.expires.as_ms(),
            ..empty
        };
        if record.payload.capacity() == 0 {
            return numbers;
        }
        let mut payload = std::mem::ManuallyDrop::new(record.payload);
        sessile_record {
            payload: payload.as_mut_ptr().cast(),
            payload_length: payload.len(),
            payload_capacity: payload.capacity(),
            ..numbers
        }
    }
}

/// Frees what a record holds; it may be freed again. Null does nothing.
///
/// # Safety
///
/// The record was filled in by `sessile_begin` or `sessile_peek`, or is all zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_record_free(record: *mut sessile_record) {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { record.as_mut() }) else { return };
    if !record.payload.is_null() {
        // SAFETY: the three parts of a vector that `of` took apart, unchanged; it is put together once, because the
        // pointer becomes null.
        spare::give(unsafe {
            Vec::from_raw_parts(record.payload.cast::<u8>(), record.payload_length, record.payload_capacity)
        });
    }
    *record = sessile_record::of(None);
}

/// What a sweep did.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_swept {
    /// Records looked at.
    pub examined: u64,
    /// Expired records removed.
    pub removed: u64,
    /// Whether the pass over the store is complete; if not, the next call goes on.
    pub complete: bool,
}

impl From<Swept> for sessile_swept {
    fn from(swept: Swept) -> sessile_swept {
        sessile_swept { examined: swept.examined, removed: swept.removed, complete: swept.complete }
    }
}

/// Where a result goes.
///
/// # Safety
///
/// `place` is null or points to memory for a `T` that only this call uses.
pub(crate) unsafe fn put<T>(place: *mut T, what: &'static str, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if place.is_null() {
        return Err(missing(what));
    }
    let value = value()?;
    // SAFETY: the caller's promise; what was there is memory without a value.
    unsafe { place.write(value) };
    Ok(())
}
