//! The session of one request.

use std::borrow::Cow;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sessile_core::{Clock, ErrorKind, Owner, Result};
use sessile_engine::spare;
use sessile_handler::{
    Access, Closed, Concurrency, Format, OnConflict, OnLockTimeout, Request, Rules, Save, Saved,
};

use crate::call::{ask, call, free, null_pointer};
use crate::error::{sessile_code, sessile_error};
use crate::store::{sessile_store, sessions_of};
use crate::types::{sessile_bytes, write_result};

/// The session of one request, and of one request after the other. Freed by
/// `sessile_request_free`. One thread uses it at a time.
pub struct sessile_request(Request);

/// How requests of an application treat their sessions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_rules {
    /// How long a request waits for the lock of its session.
    pub lock_wait_ms: u64,
    /// A session lives for so long after each request.
    pub idle_ms: u64,
    /// A session without an owner lives for so long, and not longer than `idle_ms`, until a second
    /// request uses it; 0: `idle_ms`.
    pub first_lifetime_ms: u64,
    /// A session ends so long after its creation; 0: it does not.
    pub lifetime_ms: u64,
    /// For so long after a regeneration the old id shows the session as it was before.
    pub grace_ms: u64,
    /// Whether a request whose lock is not free in time reads the session without it.
    pub read_on_lock_timeout: bool,
    /// Whether a new session without data gets neither a record nor a cookie.
    pub lazy_start: bool,
    /// Whether reading without the lock moves the expiry.
    pub touch_unlocked: bool,
    /// What is saved may be lost, such as the progress of an upload: a lock that is not free in
    /// time is waited for once in a request, and while it is not free nothing is saved.
    pub best_effort: bool,
    /// Whether requests of one session run in parallel, and each applies its changes at its end.
    pub merge: bool,
    /// Whether the save of the second request that has changed one value fails; else it wins.
    pub fail_on_conflict: bool,
    /// The format of payloads, for `merge`.
    pub format: sessile_format,
}

/// A format of payloads.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum sessile_format {
    /// One that cannot be split. Such sessions are opened with their lock.
    SESSILE_FORMAT_OTHER,
    /// Of PHP's `session.serialize_handler = php`.
    SESSILE_FORMAT_PHP,
    /// Of PHP's `session.serialize_handler = php_serialize`.
    SESSILE_FORMAT_PHP_SERIALIZE,
    /// A JSON object.
    SESSILE_FORMAT_JSON,
}

impl sessile_rules {
    fn get(self) -> Rules {
        let on_lock_timeout = match self.read_on_lock_timeout {
            true => OnLockTimeout::ReadUnlocked,
            false => OnLockTimeout::Fail,
        };
        let format = match self.format {
            sessile_format::SESSILE_FORMAT_OTHER => None,
            sessile_format::SESSILE_FORMAT_PHP => Some(Format::Php),
            sessile_format::SESSILE_FORMAT_PHP_SERIALIZE => Some(Format::PhpSerialize),
            sessile_format::SESSILE_FORMAT_JSON => Some(Format::Json),
        };
        let on_conflict =
            if self.fail_on_conflict { OnConflict::Fail } else { OnConflict::LastWins };
        let time = |ms| Some(ms).filter(|ms| *ms > 0).map(Duration::from_millis);
        Rules {
            lock_wait: Duration::from_millis(self.lock_wait_ms),
            on_lock_timeout,
            idle: Duration::from_millis(self.idle_ms),
            first_lifetime: time(self.first_lifetime_ms),
            absolute_lifetime: time(self.lifetime_ms),
            grace: Duration::from_millis(self.grace_ms),
            lazy_start: self.lazy_start,
            touch_unlocked: self.touch_unlocked,
            best_effort: self.best_effort,
            concurrency: match self.merge {
                true => Concurrency::Merge { format, on_conflict },
                false => Concurrency::Exclusive,
            },
        }
    }
}

/// What an application ends a request with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sessile_save {
    /// The payload.
    pub payload: sessile_bytes,
    /// Whether the session could be serialised; if not, there is no payload.
    pub serialised: bool,
    /// Whether the payload differs from the one that was opened.
    pub changed: bool,
    /// Whether the application has put nothing into the session.
    pub empty: bool,
    /// Whether a cookie of this response can still be withdrawn.
    pub headers_open: bool,
}

/// The result of a save.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum sessile_saved {
    /// The payload is stored.
    SESSILE_STORED,
    /// The payload is as stored, and lives longer now.
    SESSILE_TOUCHED,
    /// There was nothing to save.
    SESSILE_NOTHING,
    /// The session is new and empty, and was not stored: its cookie is to be withdrawn.
    SESSILE_WITHDRAW_COOKIE,
    /// Another request has logged out meanwhile: nothing is stored. The error says so.
    SESSILE_LOGGED_OUT,
    /// The id was replaced by a new one meanwhile: nothing is stored. It is logged.
    SESSILE_REPLACED,
    /// The session has reached the end of its absolute lifetime: nothing is stored.
    SESSILE_ENDED,
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    // Relaxed: the child has one thread.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between the first process and this one: identifies a process among its
/// ancestors without a system call.
fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

unsafe extern "C" {
    /// POSIX: calls `child` in each forked child.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Whether forks are counted.
fn count_forks() -> bool {
    static COUNTED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the function stays for the life of the process and only adds to a number.
    *COUNTED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(count_fork)) } == 0)
}

/// # Safety
///
/// `request` is null or was returned by `sessile_request_new`, is not freed, and is unused
/// elsewhere during the call.
unsafe fn borrow<'a>(request: *mut sessile_request) -> Result<&'a mut Request> {
    // SAFETY: the caller's promise.
    let request = unsafe { request.as_mut() };
    request.map(|request| &mut request.0).ok_or_else(|| null_pointer("the request"))
}

/// Whether there is nothing to end, as at most ends. Such a call is over at once.
///
/// # Safety
///
/// As for `borrow`.
unsafe fn is_closed(request: *mut sessile_request) -> bool {
    // SAFETY: the caller's promise.
    unsafe { borrow(request) }.is_ok_and(|request| request.is_closed())
}

/// # Safety
///
/// As for `sessile_bytes::get`.
unsafe fn text<'a>(id: sessile_bytes) -> Cow<'a, str> {
    // SAFETY: the caller's promise.
    let id = unsafe { id.get() };
    if id.is_ascii() {
        // SAFETY: ASCII is UTF-8. Its check is faster than that of UTF-8.
        return Cow::Borrowed(unsafe { str::from_utf8_unchecked(id) });
    }
    // The replacement of invalid UTF-8 is refused like any other invalid character.
    String::from_utf8_lossy(id)
}

/// A request without a session. Null if the system has no memory.
#[unsafe(no_mangle)]
pub extern "C" fn sessile_request_new() -> *mut sessile_request {
    if !count_forks() {
        return std::ptr::null_mut();
    }
    Box::into_raw(Box::new(sessile_request(Request::new(Clock::system(), forks, Rules::default()))))
}

/// Gives the lock back and frees the request. Null does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_free(request: *mut sessile_request) {
    // SAFETY: the caller's promise.
    unsafe { free(request) }
}

/// Changes the rules, for this session and the next ones. At first they are PHP's defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_set_rules(
    request: *mut sessile_request,
    rules: sessile_rules,
) {
    // SAFETY: the caller's promise.
    ask(|| unsafe { borrow(request) }.map(|request| request.set_rules(rules.get())));
}

/// Whether a new id is taken. A free one becomes the id of this request's new session, if it is
/// `for_this_request`. A store that fails here is not asked again: `sessile_request_open` reports
/// the failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_is_taken(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    for_this_request: bool,
) -> bool {
    // SAFETY: the caller's promises.
    ask(|| unsafe {
        Ok(borrow(request)?.is_taken(sessions_of(store)?, &text(id), for_this_request))
    })
}

/// Whether a session is open that has another id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_has_another_open(
    request: *mut sessile_request,
    id: sessile_bytes,
) -> bool {
    // SAFETY: the caller's promises.
    ask(|| unsafe { Ok(borrow(request)?.has_another_open(&text(id))) })
}

/// Whether strict mode takes an id: its session is stored, or another request holds it. A store
/// that fails refuses no id: `sessile_request_open` reports the failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_validate(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    locked: bool,
) -> bool {
    // SAFETY: the caller's promises.
    ask(|| unsafe {
        let (request, sessions) = (borrow(request)?, sessions_of(store)?);
        Ok(request.validate(sessions, &text(id), access(locked)))
    })
}

/// Opens the session of an id, or moves the session to it after `sessile_request_leave_id`. The
/// payload is valid until `sessile_request_loaded`, or until the session ends.
///
/// If the session could be opened only without its lock, the code is `SESSILE_OK`, and the code in
/// `error` says why; else that is `SESSILE_OK`, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_open(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    locked: bool,
    payload: *mut sessile_bytes,
    error: *mut sessile_error,
) -> sessile_code {
    let open = || {
        // SAFETY: the caller's promises.
        let (request, sessions) = unsafe { (borrow(request)?, sessions_of(store)?) };
        // SAFETY: the caller's promises.
        let opened = unsafe { request.open(sessions, &text(id), access(locked))? };
        if !error.is_null() {
            // SAFETY: the caller's promise; only the code is written if there is no warning.
            unsafe {
                match &opened.warning {
                    Some(warning) => error.write(sessile_error::of(warning)),
                    None => (&raw mut (*error).code).write(sessile_code::SESSILE_OK),
                }
            }
        }
        let bytes =
            sessile_bytes { data: opened.payload.as_ptr().cast(), length: opened.payload.len() };
        // SAFETY: the caller's promise.
        unsafe { write_result(payload, "the place for the payload", || Ok(bytes)) }
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, open) }
}

/// The application has the payload, which is invalid now. A request that ends before saves
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_loaded(request: *mut sessile_request) {
    // SAFETY: the caller's promise.
    ask(|| unsafe { borrow(request) }.map(|request| spare::give(request.loaded())));
}

/// Saves a session. A session that has expired meanwhile, or was lost with its server, is stored
/// anew; one that was destroyed stays destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_save(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    save: sessile_save,
    saved: *mut sessile_saved,
    error: *mut sessile_error,
) -> sessile_code {
    let run = || {
        // SAFETY: the caller's promises.
        let (request, sessions, id) = unsafe { (borrow(request)?, sessions_of(store)?, text(id)) };
        let sessile_save { payload, serialised, changed, empty, headers_open } = save;
        // SAFETY: the caller's promise.
        let payload = serialised.then(|| unsafe { payload.get() });
        let save = Save { payload, changed, empty, headers_open };
        use sessile_saved::*;
        let done = match request.save(sessions, &id, save)? {
            Saved::Stored => SESSILE_STORED,
            Saved::Touched => SESSILE_TOUCHED,
            Saved::Nothing => SESSILE_NOTHING,
            Saved::WithdrawCookie => SESSILE_WITHDRAW_COOKIE,
            Saved::Replaced(_) => SESSILE_REPLACED,
            Saved::Ended => SESSILE_ENDED,
            Saved::LoggedOut(why) => {
                if !error.is_null() {
                    // SAFETY: the caller's promise.
                    unsafe { error.write(sessile_error::of(&why)) };
                }
                SESSILE_LOGGED_OUT
            }
        };
        // SAFETY: the caller's promise.
        unsafe { write_result(saved, "the place for the result", || Ok(done)) }
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, run) }
}

/// Makes the next save of this request set the owner of its session, for example the number of its
/// user, or take it away if the data of `owner` is null. `SESSILE_UNSUPPORTED` where sessions
/// cannot have owners.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_set_owner(
    request: *mut sessile_request,
    store: *mut sessile_store,
    owner: sessile_bytes,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    let set = || unsafe { borrow(request)?.set_owner(sessions_of(store)?, owner.owner()?) };
    // SAFETY: the caller's promise.
    unsafe { call(error, set) }
}

/// Ends all sessions of an owner, also the open one if the next save would give it to this owner: a
/// log-out everywhere. `ended` gets their number. `sessile_revoke` spares one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_revoke(
    request: *mut sessile_request,
    store: *mut sessile_store,
    owner: sessile_bytes,
    ended: *mut u64,
    error: *mut sessile_error,
) -> sessile_code {
    let revoke = || {
        // SAFETY: the caller's promises.
        let (request, sessions, owner) =
            unsafe { (borrow(request)?, sessions_of(store)?, owner.get()) };
        request.revoke(sessions, Owner::new(owner)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, || write_result(ended, "the place for the number", revoke)) }
}

/// Changes how long the session lives after this request, in place of `idle_ms` and
/// `first_lifetime_ms`; also if the request opens it once more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_set_idle(request: *mut sessile_request, idle_ms: u64) {
    let idle = Duration::from_millis(idle_ms);
    // SAFETY: the caller's promise.
    ask(|| unsafe { borrow(request) }.map(|request| request.set_idle(idle)));
}

/// Opens a session again that this request has saved, to save it once more: a save gives the lock
/// back. `saved` is the payload of that save. If another request has changed the session in
/// between, the next save merges, or fails with `SESSILE_STALE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_reopen(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    saved: sessile_bytes,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    let reopen = || unsafe { borrow(request)?.reopen(sessions_of(store)?, &text(id), saved.get()) };
    // SAFETY: the caller's promise.
    unsafe { call(error, reopen) }
}

/// The application asks for a new id, which `sessile_request_open` will name. If it `keeps` the old
/// id, late requests see the session there as it was before, for the grace. `SESSILE_GONE` for an
/// id that is not open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_leave_id(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    keeps: bool,
    error: *mut sessile_error,
) -> sessile_code {
    let leave = || {
        // SAFETY: the caller's promises.
        let (request, sessions, id) = unsafe { (borrow(request)?, sessions_of(store)?, text(id)) };
        let leaves = request.leave_id(sessions, &id, keeps)?;
        leaves.then_some(()).ok_or_else(|| ErrorKind::Gone.into())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, leave) }
}

/// Whether a session waits for its new id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_is_leaving(request: *mut sessile_request) -> bool {
    // SAFETY: the caller's promise.
    unsafe { borrow(request) }.is_ok_and(|request| request.is_leaving())
}

/// Keeps the lock of a session that waits for its new id over one close. Returns whether it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_pause(request: *mut sessile_request) -> bool {
    // SAFETY: the caller's promise.
    ask(|| Ok(unsafe { borrow(request)? }.pause()))
}

/// Destroys the session of an id: a log-out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_destroy(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: sessile_bytes,
    error: *mut sessile_error,
) -> sessile_code {
    // SAFETY: the caller's promises.
    unsafe { call(error, || borrow(request)?.destroy(sessions_of(store)?, &text(id))) }
}

/// Ends the use of the session, saved or not, and gives its lock back. Returns whether the cookie
/// of a new session that was only read is to be withdrawn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_close(
    request: *mut sessile_request,
    store: *mut sessile_store,
    headers_open: bool,
) -> bool {
    // SAFETY: the caller's promise.
    if unsafe { is_closed(request) } {
        return false;
    }
    // SAFETY: the caller's promises.
    ask(|| unsafe {
        let request = borrow(request)?;
        // Without a store only the lock is given back.
        let Ok(sessions) = sessions_of(store) else {
            request.reset();
            return Ok(false);
        };
        Ok(request.close(sessions, headers_open) == Closed::WithdrawCookie)
    })
}

/// Forgets the session and gives its lock back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_reset(request: *mut sessile_request) {
    // SAFETY: the caller's promise.
    if !unsafe { is_closed(request) } {
        // SAFETY: as above.
        ask(|| unsafe { borrow(request) }.map(Request::reset));
    }
}

/// Forgets the request, too: the next one begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sessile_request_end(request: *mut sessile_request) {
    // SAFETY: the caller's promise.
    ask(|| unsafe { borrow(request) }.map(Request::end));
}

fn access(locked: bool) -> Access {
    if locked { Access::Locked } else { Access::Unlocked }
}
