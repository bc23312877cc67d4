//! The cases of `spec/requests.toml` through the C interface, as a program in C calls it.

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "tests")]

use std::mem::zeroed;
use std::ptr::null_mut;

use sessile_capi::*;
use sessile_core::Clock;
use sessile_spec::{
    RequestDriver, SpecCase, SpecConcurrency, SpecConflict, SpecRules, SpecSave, Started,
    request_cases,
};

struct Driver {
    request: *mut sessile_request,
    store: *mut sessile_store,
}

fn bytes(text: &str) -> sessile_bytes {
    sessile_bytes { data: text.as_ptr().cast(), length: text.len() }
}

/// `SESSILE_LOCK_TIMEOUT` as `lock-timeout`.
fn name(code: impl std::fmt::Debug) -> String {
    format!("{code:?}").trim_start_matches("SESSILE_").to_lowercase().replace('_', "-")
}

fn done(code: sessile_code) -> Result<(), String> {
    if code == sessile_code::SESSILE_OK { Ok(()) } else { Err(name(code)) }
}

impl RequestDriver for Driver {
    fn make_id(&mut self, id: &str) {
        assert!(!unsafe { sessile_request_is_taken(self.request, self.store, bytes(id), true) });
    }

    fn start(&mut self, id: &str, unlocked: bool, strict: bool) -> Result<Option<Started>, String> {
        let Driver { request, store } = *self;
        unsafe {
            let valid = || sessile_request_validate(request, store, bytes(id), !unlocked);
            if strict && !valid() {
                return Ok(None);
            }
            let (mut payload, mut error) = (zeroed(), zeroed::<sessile_error>());
            let (to, why) = (&raw mut payload, &raw mut error);
            done(sessile_request_open(request, store, bytes(id), !unlocked, to, why))?;
            let text = match payload.length {
                0 => &[],
                length => std::slice::from_raw_parts(payload.data.cast::<u8>(), length),
            };
            let text = String::from_utf8(text.to_vec()).unwrap();
            sessile_request_loaded(request);
            Ok(Some(Started { text, warns: done(error.code).err() }))
        }
    }

    fn save(&mut self, id: &str, save: SpecSave<'_>) -> Result<String, String> {
        let Driver { request, store } = *self;
        let SpecSave { text, changed, headers_open } = save;
        let empty = text.is_empty();
        let save =
            sessile_save { payload: bytes(text), serialised: true, changed, empty, headers_open };
        let mut saved = sessile_saved::SESSILE_NOTHING;
        done(unsafe {
            sessile_request_save(request, store, bytes(id), save, &mut saved, null_mut())
        })?;
        Ok(name(saved))
    }

    fn regenerate(&mut self, old: &str, new: &str, keeps: bool) -> Result<(), String> {
        let Driver { request, store } = *self;
        done(unsafe { sessile_request_leave_id(request, store, bytes(old), keeps, null_mut()) })?;
        self.start(new, false, false).map(drop)
    }

    fn destroy(&mut self, id: &str) -> Result<(), String> {
        let Driver { request, store } = *self;
        done(unsafe { sessile_request_destroy(request, store, bytes(id), null_mut()) })
    }

    fn close(&mut self) -> String {
        let Driver { request, store } = *self;
        let withdraw = unsafe { sessile_request_close(request, store, true) };
        if withdraw { "withdraw-cookie".into() } else { "done".into() }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        unsafe { sessile_request_free(self.request) }
    }
}

fn rules(spec: SpecRules) -> sessile_rules {
    sessile_rules {
        lock_wait_ms: 0,
        idle_ms: spec.idle * 1_000,
        first_lifetime_ms: spec.first_lifetime * 1_000,
        lifetime_ms: spec.lifetime * 1_000,
        grace_ms: spec.grace * 1_000,
        read_on_lock_timeout: spec.read_on_lock_timeout,
        lazy_start: spec.lazy_start,
        touch_unlocked: spec.touch_unlocked,
        best_effort: spec.best_effort,
        merge: spec.concurrency == SpecConcurrency::Merge,
        fail_on_conflict: spec.merge_conflict == SpecConflict::Fail,
        format: sessile_format::SESSILE_FORMAT_PHP,
    }
}

/// The interface has the system's clock only, so cases in which time passes are not for it.
#[test]
fn every_case_in_which_no_time_passes_holds() {
    let cases: Vec<SpecCase> =
        request_cases().unwrap().into_iter().filter(|case| !case.advances()).collect();
    assert!(cases.len() > 12, "{} cases are left", cases.len());
    for case in cases {
        let mut store = null_mut();
        let opened = unsafe { sessile_open(bytes("memory:"), &mut store, null_mut()) };
        assert_eq!(opened, sessile_code::SESSILE_OK);
        let request = || {
            let request = sessile_request_new();
            unsafe { sessile_request_set_rules(request, rules(case.rules)) };
            Driver { request, store }
        };
        let ran = case.run(&Clock::system(), str::to_owned, request);
        unsafe { sessile_close(store) };
        ran.unwrap();
    }
}
