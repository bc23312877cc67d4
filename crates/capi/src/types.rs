//! Types passed by value.

use std::ffi::c_char;
use std::time::Duration;

use sessile_core::{Bin, Key, Limits, Owner, Record, Result, Ttl};
use sessile_engine::spare;

use crate::call::null_pointer;

/// Bytes of the caller, unchanged during the call. Null is empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_bytes {
    /// The first byte.
    pub data: *const c_char,
    /// Number of bytes.
    pub length: usize,
}

impl sessile_bytes {
    /// The owner of this name; none if `data` is null.
    ///
    /// # Safety
    ///
    /// As for [`sessile_bytes::get`].
    pub(crate) unsafe fn owner(self) -> Result<Option<Owner>> {
        if self.data.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        Owner::new(unsafe { self.get() }).map(Some)
    }

    /// # Safety
    ///
    /// `data` is null or points to `length` bytes that do not change during the call.
    pub(crate) unsafe fn get<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; not null.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.length) }
    }
}

/// The name of a record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_key {
    /// The class of data; empty means `session`.
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
        // The replacement of invalid UTF-8 is refused like any other invalid character.
        let text = String::from_utf8_lossy;
        let bin = if bin.is_empty() { Bin::SESSION } else { Bin::new(&text(bin))? };
        Key::in_bin(bin, &text(id))
    }
}

/// The largest time to live in milliseconds: ten years. Larger values are refused.
pub const SESSILE_TTL_MAX_MS: u64 = 315_360_000_000;
const _: () = assert!(SESSILE_TTL_MAX_MS as u128 == Limits::TTL_MAX.as_millis());

/// The time to live of a record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_ttl {
    /// Milliseconds from each commit or touch; at least 1.
    pub idle_ms: u64,
    /// Milliseconds from the creation to the absolute end; 0: none.
    pub lifetime_ms: u64,
}

impl sessile_ttl {
    pub(crate) fn get(self) -> Result<Ttl> {
        let ttl = Ttl::sliding(Duration::from_millis(self.idle_ms))?;
        if self.lifetime_ms == 0 {
            Ok(ttl)
        } else {
            ttl.within(Duration::from_millis(self.lifetime_ms))
        }
    }
}

/// A record that was read. Freed by `sessile_record_free`.
#[repr(C)]
pub struct sessile_record {
    /// Whether a live record exists; if not, the other fields are meaningless.
    pub found: bool,
    /// The stored payload; null if empty.
    pub payload: *mut c_char,
    /// Bytes of the payload.
    pub payload_length: usize,
    /// Reserved for `sessile_record_free`.
    pub payload_capacity: usize,
    /// 1 when created, plus 1 for each commit; 0: unknown.
    pub version: u64,
    /// Milliseconds since 1970-01-01 UTC, like the next two.
    pub created_ms: u64,
    /// Time of the last commit of a payload.
    pub written_ms: u64,
    /// From this moment the record reads as missing.
    pub expires_ms: u64,
}

impl sessile_record {
    pub(crate) fn of(record: Option<Record>) -> sessile_record {
        let Some(record) = record else {
            return sessile_record {
                found: false,
                payload: std::ptr::null_mut(),
                payload_length: 0,
                payload_capacity: 0,
                version: 0,
                created_ms: 0,
                written_ms: 0,
                expires_ms: 0,
            };
        };
        let head = record.head;
        let mut payload = std::mem::ManuallyDrop::new(record.payload);
        let place = payload.as_mut_ptr().cast();
        let payload_capacity = payload.capacity();
        sessile_record {
            found: true,
            payload: if payload_capacity == 0 { std::ptr::null_mut() } else { place },
            payload_length: payload.len(),
            payload_capacity,
            version: head.version,
            created_ms: head.created.as_ms(),
            written_ms: head.written.as_ms(),
            expires_ms: head.expires.as_ms(),
        }
    }
}

/// Frees the content of a record, also repeatedly. Null does nothing.
///
/// # Safety
///
/// The record was filled by `sessile_begin` or `sessile_peek`, or is all zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_record_free(record: *mut sessile_record) {
    // SAFETY: the caller's promise.
    let Some(record) = (unsafe { record.as_mut() }) else { return };
    if !record.payload.is_null() {
        // SAFETY: the unchanged parts of a vector that `of` took apart; freed once, because the
        // pointer becomes null.
        spare::give(unsafe {
            Vec::from_raw_parts(
                record.payload.cast::<u8>(),
                record.payload_length,
                record.payload_capacity,
            )
        });
    }
    *record = sessile_record::of(None);
}

/// Writes a value to the caller's memory.
///
/// # Safety
///
/// `place` is null or points to memory for a `T` that only this call uses.
pub(crate) unsafe fn write_result<T>(
    place: *mut T,
    what: &'static str,
    value: impl FnOnce() -> Result<T>,
) -> Result<()> {
    if place.is_null() {
        return Err(null_pointer(what));
    }
    let value = value()?;
    // SAFETY: the caller's promise; the memory has no value to drop.
    unsafe { place.write(value) };
    Ok(())
}
