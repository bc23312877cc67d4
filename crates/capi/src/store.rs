//! Opened stores, and what needs no lease.

use std::ffi::{CString, c_char};
use std::time::Duration;

use sessile_core::{Budget, Counter, Error, ErrorKind, Expiry, Result, Sessions};
use sessile_stores::{Context, StoreUrl};

use crate::call::{call, missing};
use crate::error::{sessile_code, sessile_error};
use crate::lease::sessile_lease;
use crate::types::{put, sessile_bytes, sessile_key, sessile_record, sessile_swept, sessile_ttl};

/// An opened store. Freed by `sessile_close`.
pub struct sessile_store {
    sessions: Sessions,
    label: CString,
}

/// # Safety
///
/// `store` is null or was returned by `sessile_open` and not closed.
unsafe fn opened<'a>(store: *const sessile_store) -> Result<&'a Sessions> {
    // SAFETY: the caller's promise.
    unsafe { store.as_ref() }.map(|store| &store.sessions).ok_or_else(|| missing("the store"))
}

/// The version of this library, as text that ends with a zero byte and is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Opens the store that a URL names.
///
/// # Safety
///
/// `url` is memory of the caller; `store` has room for a pointer; `error` is null or has room for a `sessile_error`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_open(
    url: sessile_bytes,
    store: *mut *mut sessile_store,
    error: *mut sessile_error,
) -> sessile_code {
    let open = || {
        // SAFETY: the caller's promise.
        let url = std::str::from_utf8(unsafe { url.get() });
        let url = url.map_err(|_| Error::new(ErrorKind::InvalidUrl, "the store URL is not UTF-8"))?;
        let sessions = sessile_stores::open(url, &Context::default())?;
        let label = CString::new(sessions.label()).unwrap_or_default();
        Ok(Box::into_raw(Box::new(sessile_store { sessions, label })))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, || put(store, "the place for the store", open)) }
}

/// Closes a store. Its leases stay good. Null does nothing.
///
/// # Safety
///
/// `store` is null or was returned by `sessile_open` and not closed; no other call uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_close(store: *mut sessile_store) {
    if !store.is_null() {
        let close = || {
            // SAFETY: the caller's promise: made by `Box::into_raw`, and freed once.
            drop(unsafe { Box::from_raw(store) });
            Ok(())
        };
        // SAFETY: without an error to write to.
        let _ = unsafe { call(std::ptr::null_mut(), close) };
    }
}

/// The URL of a store without its secrets. It ends with a zero byte and is good until the store is closed.
///
/// # Safety
///
/// `store` is null or was returned by `sessile_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_label(store: *const sessile_store) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store.as_ref() }.map_or(c"".as_ptr(), |store| store.label.as_ptr())
}

/// A store URL without its secrets, whether it can be opened or not: what may be shown. Returns the bytes written, without
/// the zero byte that they end with.
///
/// # Safety
///
/// `url` is memory of the caller; `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_redact(url: sessile_bytes, text: *mut c_char, size: usize) -> usize {
    let mut shown = sessile_error::new(sessile_code::SESSILE_OK, "");
    let redact = || {
        // SAFETY: the caller's promise.
        let url = String::from_utf8_lossy(unsafe { url.get() });
        let text = StoreUrl::parse(&url).map_or_else(|_| "a malformed store URL".into(), |url| url.redacted());
        shown = sessile_error::new(sessile_code::SESSILE_OK, &text);
        Ok(())
    };
    // SAFETY: without an error to write to.
    let _ = unsafe { call(std::ptr::null_mut(), redact) };
    let length = shown.message.iter().take(size.saturating_sub(1)).take_while(|byte| **byte != 0).count();
    if !text.is_null() && size > 0 {
        // SAFETY: there is room for `size` bytes, which are more than `length`; the message is longer than that, too.
        unsafe {
            text.copy_from(shown.message.as_ptr(), length);
            text.add(length).write(0);
        }
    }
    length
}

/// Takes the lock of a session and reads it. Without a record there is a lease all the same: a commit creates it.
///
/// # Safety
///
/// `store` was returned by `sessile_open` and not closed; `key` is memory of the caller; `lease` and `record` have room
/// for what they are to hold; `error` is null or has room for a `sessile_error`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_begin(
    store: *mut sessile_store,
    key: sessile_key,
    wait_ms: u64,
    lease: *mut *mut sessile_lease,
    record: *mut sessile_record,
    error: *mut sessile_error,
) -> sessile_code {
    let begin = || {
        // SAFETY: the caller's promises.
        let (sessions, key) = unsafe { (opened(store)?, key.get()?) };
        if lease.is_null() || record.is_null() {
            return Err(missing("the place for the lease or the record"));
        }
        let begun = sessions.begin(&key, Duration::from_millis(wait_ms))?;
        // SAFETY: the caller's promises; neither is null.
        unsafe {
            record.write(sessile_record::of(begun.record));
            lease.write(sessile_lease::of(begun.lease));
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, begin) }
}

/// Reads a session without a lock. It waits for nobody.
///
/// # Safety
///
/// As for `sessile_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_peek(
    store: *mut sessile_store,
    key: sessile_key,
    record: *mut sessile_record,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    let peek = || unsafe { Ok(sessile_record::of(opened(store)?.peek(&key.get()?)?)) };
    // SAFETY: the caller's promise.
    unsafe { call(error, || put(record, "the place for the record", peek)) }
}

/// Stores a new session; `SESSILE_EXISTS` when the id is taken.
///
/// # Safety
///
/// As for `sessile_begin`; `payload` is memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_create(
    store: *mut sessile_store,
    key: sessile_key,
    payload: sessile_bytes,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || opened(store)?.create(&key.get()?, payload.get(), ttl.get()?)) }
}

/// Moves the expiry of a session that nobody needs to hold; `SESSILE_GONE` when there is none.
///
/// # Safety
///
/// As for `sessile_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_touch(
    store: *mut sessile_store,
    key: sessile_key,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || opened(store)?.touch(&key.get()?, ttl.get()?)) }
}

/// Removes a session at once, whoever holds it; it stays removed. It waits for nobody.
///
/// # Safety
///
/// As for `sessile_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_destroy(
    store: *mut sessile_store,
    key: sessile_key,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || opened(store)?.destroy(&key.get()?)) }
}

/// Removes sessions that have expired: at most so many, for at most that long. Never needed for correctness.
///
/// # Safety
///
/// As for `sessile_begin`; `swept` has room for what it is to hold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_sweep(
    store: *mut sessile_store,
    records_max: u64,
    time_max_ms: u64,
    swept: *mut sessile_swept,
    error: *mut sessile_error,
) -> sessile_code {
    let budget = Budget { records_max, time_max: Duration::from_millis(time_max_ms) };
    // SAFETY: the caller's promises.
    let sweep = || unsafe { opened(store)? }.sweep(budget).map(sessile_swept::from);
    // SAFETY: the caller's promise.
    unsafe { call(error, || put(swept, "the place for the result", sweep)) }
}

/// Whether what has expired goes by itself, on a server or a few with each change: then no visitor need wait for a sweep.
/// False without a store.
///
/// # Safety
///
/// `store` is null or was returned by `sessile_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_expires_by_itself(store: *const sessile_store) -> bool {
    // SAFETY: the caller's promise.
    unsafe { opened(store) }.is_ok_and(|sessions| sessions.capabilities().expiry != Expiry::Sweep)
}

/// A counter of this process by its number: its name (never freed; null: there are no more) and its value.
///
/// # Safety
///
/// `store` is null or was returned by `sessile_open` and not closed; `value` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_counter(store: *const sessile_store, number: usize, value: *mut u64) -> *const c_char {
    const NAMES: [&std::ffi::CStr; 6] =
        [c"failed_saves", c"too_large", c"stale_commits", c"destroyed_commits", c"lock_timeouts", c"spent_ids"];
    let (Some(counter), Some(name)) = (Counter::ALL.get(number), NAMES.get(number)) else { return std::ptr::null() };
    // SAFETY: the caller's promises.
    unsafe {
        if let (Ok(sessions), Some(value)) = (opened(store), value.as_mut()) {
            *value = sessions.counters().get(*counter);
        }
    }
    name.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_that_the_core_gives_them() {
        for (number, counter) in Counter::ALL.iter().enumerate() {
            // SAFETY: without a store and without a place for the value.
            let name = unsafe { sessile_counter(std::ptr::null(), number, std::ptr::null_mut()) };
            // SAFETY: a literal, as long as it is not null.
            assert!(!name.is_null() && unsafe { std::ffi::CStr::from_ptr(name) }.to_str() == Ok(counter.name()));
        }
        // SAFETY: as above.
        assert!(unsafe { sessile_counter(std::ptr::null(), Counter::ALL.len(), std::ptr::null_mut()) }.is_null());
    }
}
