//! Stores, and the operations without a lease.

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use sessile_core::{Counter, Error, ErrorKind, Key, Owner, Result, Sessions};
use sessile_stores::{Context, OpenStores, Settings, StoreUrl};

use crate::call::{ask, call, free, null_pointer};
use crate::error::{sessile_code, sessile_error};
use crate::lease::sessile_lease;
use crate::types::{sessile_bytes, sessile_key, sessile_record, sessile_ttl, write_result};

/// An open store. `sessile_close` frees that of `sessile_open`.
pub struct sessile_store {
    sessions: Sessions,
    label: CString,
}

impl sessile_store {
    fn of(sessions: Sessions) -> sessile_store {
        let label = CString::new(sessions.label()).unwrap_or_default();
        sessile_store { sessions, label }
    }
}

/// # Safety
///
/// As for `sessile_bytes::get`.
unsafe fn url_of<'a>(url: sessile_bytes) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let url = std::str::from_utf8(unsafe { url.get() });
    url.map_err(|_| Error::new(ErrorKind::InvalidUrl, "the store URL is not UTF-8"))
}

/// # Safety
///
/// `store` is null or an open store.
pub(crate) unsafe fn sessions_of<'a>(store: *const sessile_store) -> Result<&'a Sessions> {
    // SAFETY: the caller's promise.
    unsafe { store.as_ref() }.map(|store| &store.sessions).ok_or_else(|| null_pointer("the store"))
}

/// The version of this interface. After the first release it changes when programs must be built
/// anew.
pub const SESSILE_ABI: u32 = 1;

/// The `SESSILE_ABI` of this library, which a program compares with that of its header.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_abi() -> u32 {
    SESSILE_ABI
}

/// The version of this library. Ends with a zero byte; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Opens the store of a URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_open(
    url: sessile_bytes,
    store: *mut *mut sessile_store,
    error: *mut sessile_error,
) -> sessile_code {
    let open = || {
        // SAFETY: the caller's promise.
        let sessions = sessile_stores::open(unsafe { url_of(url)? }, &Context::default())?;
        Ok(Box::into_raw(Box::new(sessile_store::of(sessions))))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(store, "the place for the store", open)) }
}

/// The stores that a thread keeps open, for URLs that change from request to request. Freed by
/// `sessile_open_stores_free`. One thread uses it at a time.
pub struct sessile_open_stores(OpenStores<Arc<sessile_store>>);

/// Settings of an application. An option in the URL overrides each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_settings {
    /// The largest payload in bytes; 0: the default of the store.
    pub payload_bytes_max: u64,
    /// Whether the store gets digests of the ids.
    pub hashed_ids: bool,
    /// How long a request may run; 0: unknown. On a server its lock lives longer by 30 s.
    pub request_ms_max: u64,
}

impl sessile_settings {
    fn get(self) -> Settings {
        let given = |number: u64| Some(number).filter(|number| *number > 0);
        Settings {
            payload_bytes_max: given(self.payload_bytes_max),
            hashed_ids: self.hashed_ids,
            request_time_max: given(self.request_ms_max).map(Duration::from_millis),
        }
    }
}

/// No stores yet.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_open_stores_new() -> *mut sessile_open_stores {
    Box::into_raw(Box::new(sessile_open_stores(OpenStores::default())))
}

/// Closes all stores, which no call may use now or later. Null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_open_stores_free(stores: *mut sessile_open_stores) {
    // SAFETY: the caller's promise.
    unsafe { free(stores) }
}

/// The store of a URL: opened now, or one of the eight that were used last. It is valid until the
/// next call with `stores`, which closes it if there are too many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_open_stores_get(
    stores: *mut sessile_open_stores,
    url: sessile_bytes,
    settings: sessile_settings,
    store: *mut *mut sessile_store,
    error: *mut sessile_error,
) -> sessile_code {
    let settings = settings.get();
    // SAFETY: the caller's promises.
    let (last, place) = unsafe {
        let last = stores.as_ref().and_then(|stores| stores.0.last(url.get(), &settings));
        (last, store.as_mut())
    };
    if let (Some(last), Some(place)) = (last, place) {
        *place = Arc::as_ptr(last).cast_mut();
        return sessile_code::SESSILE_OK;
    }
    let open = || {
        // SAFETY: the caller's promises.
        let (stores, url) = unsafe { (stores.as_mut(), url_of(url)?) };
        let stores = stores.ok_or_else(|| null_pointer("the place of the stores"))?;
        let make = |sessions| Arc::new(sessile_store::of(sessions));
        let store = stores.0.get(url, &settings, &Context::default(), make)?;
        Ok(Arc::as_ptr(store).cast_mut())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(store, "the place for the store", open)) }
}

/// Closes a store, which no call may use now or later. Its leases stay valid. Null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_close(store: *mut sessile_store) {
    // SAFETY: the caller's promise.
    unsafe { free(store) }
}

/// The store URL without secrets. Ends with a zero byte; valid until the store is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_label(store: *const sessile_store) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store.as_ref() }.map_or(c"".as_ptr(), |store| store.label.as_ptr())
}

/// Writes a store URL without secrets to `text` of `size` bytes, for display; the URL may be
/// invalid. Returns the length of the text, without the zero byte at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_redact(
    url: sessile_bytes,
    text: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller's promises.
    unsafe { write_text(url, text, size, |url| StoreUrl::redact(url).into_bytes()) }
}

/// Writes the path of the file, directory or socket that a store URL names to `text` of `size`
/// bytes; nothing if it names none. Returns the length of the path, without the zero byte at its
/// end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_path(url: sessile_bytes, text: *mut c_char, size: usize) -> usize {
    let path = |url: &str| {
        let path = StoreUrl::parse(url).and_then(|url| url.path());
        path.map_or_else(|_| Vec::new(), |path| path.into_os_string().into_vec())
    };
    // SAFETY: the caller's promises.
    unsafe { write_text(url, text, size, path) }
}

/// # Safety
///
/// As for `sessile_bytes::get`; `text` is null or points to `size` bytes.
unsafe fn write_text(
    url: sessile_bytes,
    text: *mut c_char,
    size: usize,
    make: impl FnOnce(&str) -> Vec<u8>,
) -> usize {
    // SAFETY: the caller's promise.
    let made = ask(|| Ok(make(&String::from_utf8_lossy(unsafe { url.get() }))));
    let length = made.iter().take(size.saturating_sub(1)).take_while(|byte| **byte != 0).count();
    if !text.is_null() && size > 0 {
        // SAFETY: `length` is less than `size`, for which there is room, and at most that of the
        // bytes made.
        unsafe {
            text.copy_from(made.as_ptr().cast(), length);
            text.add(length).write(0);
        }
    }
    length
}

/// Locks a session and reads it. A lease is returned even without a record; its commit creates the
/// record.
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
        let (sessions, key) = unsafe { (sessions_of(store)?, key.get()?) };
        if lease.is_null() || record.is_null() {
            return Err(null_pointer("the place for the lease or the record"));
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

/// Reads a session without a lock and without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_peek(
    store: *mut sessile_store,
    key: sessile_key,
    record: *mut sessile_record,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    let peek = || unsafe { Ok(sessile_record::of(sessions_of(store)?.peek(&key.get()?)?)) };
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(record, "the place for the record", peek)) }
}

/// Stores a new session; `SESSILE_EXISTS` if the id is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_create(
    store: *mut sessile_store,
    key: sessile_key,
    payload: sessile_bytes,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || sessions_of(store)?.create(&key.get()?, payload.get(), ttl.get()?)) }
}

/// Moves the expiry of a session without a lease; `SESSILE_GONE` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_touch(
    store: *mut sessile_store,
    key: sessile_key,
    ttl: sessile_ttl,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || sessions_of(store)?.touch(&key.get()?, ttl.get()?)) }
}

/// Destroys a session at once, even a locked one. It stays destroyed. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_destroy(
    store: *mut sessile_store,
    key: sessile_key,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || sessions_of(store)?.destroy(&key.get()?)) }
}

/// Removes expired sessions within a request: little at a time, and nothing where they are removed
/// by a server or by each change. `all` goes on to the end of the store. `removed` is their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_collect(
    store: *mut sessile_store,
    all: bool,
    removed: *mut u64,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    let collect = || sessile_handler::collect(unsafe { sessions_of(store)? }, all);
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(removed, "the place for the number", collect)) }
}

/// Ends all sessions of an owner, but for the one with the id `but`, if that is not empty: a
/// log-out everywhere. `ended` gets their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_revoke(
    store: *mut sessile_store,
    owner: sessile_bytes,
    but: sessile_bytes,
    ended: *mut u64,
    error: *mut sessile_error,
) -> sessile_code {
    let revoke = || {
        // SAFETY: the caller's promises.
        let (sessions, owner, but) = unsafe { (sessions_of(store)?, owner.get(), but.get()) };
        let but = (!but.is_empty()).then(|| Key::session(&String::from_utf8_lossy(but)));
        sessions.revoke(Owner::new(owner)?, but.transpose()?.as_ref())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(ended, "the place for the number", revoke)) }
}

/// A counter of this process: its name (never freed; null after the last counter) and its value.
/// `value` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_counter(
    store: *const sessile_store,
    number: usize,
    value: *mut u64,
) -> *const c_char {
    let Some(counter) = Counter::ALL.get(number) else { return std::ptr::null() };
    let name = match counter {
        Counter::FailedSaves => c"failed_saves",
        Counter::TooLarge => c"too_large",
        Counter::StaleCommits => c"stale_commits",
        Counter::DestroyedCommits => c"destroyed_commits",
        Counter::LockTimeouts => c"lock_timeouts",
        Counter::SpentIds => c"spent_ids",
        Counter::MergeConflicts => c"merge_conflicts",
    };
    // SAFETY: the caller's promises.
    unsafe {
        if let (Ok(sessions), Some(value)) = (sessions_of(store), value.as_mut()) {
            *value = sessions.count(*counter);
        }
    }
    name.as_ptr()
}
