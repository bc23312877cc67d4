//! The interface as a C program uses it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::undocumented_unsafe_blocks,
    reason = "tests"
)]

use std::ffi::{CStr, c_char};
use std::mem::zeroed;
use std::ptr::null_mut;

use sessile_capi::*;

const TTL: sessile_ttl = sessile_ttl { idle_ms: 60_000, lifetime_ms: 0 };

fn bytes(text: &[u8]) -> sessile_bytes {
    sessile_bytes { data: text.as_ptr().cast(), length: text.len() }
}

fn key(id: &str) -> sessile_key {
    sessile_key {
        bin: sessile_bytes { data: std::ptr::null(), length: 0 },
        id: bytes(id.as_bytes()),
    }
}

fn message(error: &sessile_error) -> &str {
    unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_str().unwrap()
}

fn open(url: &str) -> *mut sessile_store {
    unsafe {
        let (mut store, mut error) = (null_mut(), zeroed());
        let code = sessile_open(bytes(url.as_bytes()), &mut store, &mut error);
        assert_eq!(code, sessile_code::SESSILE_OK, "{}", message(&error));
        store
    }
}

/// The payload as C sees it. Frees the record.
fn payload(mut record: sessile_record) -> Option<Vec<u8>> {
    unsafe {
        let seen = record.found.then(|| {
            let length = record.payload_length;
            if length == 0 {
                Vec::new()
            } else {
                std::slice::from_raw_parts(record.payload.cast(), length).to_vec()
            }
        });
        sessile_record_free(&mut record);
        assert!(!record.found && record.payload.is_null());
        sessile_record_free(&mut record); // again: nothing
        seen
    }
}

fn peek(store: *mut sessile_store, id: &str) -> Option<Vec<u8>> {
    unsafe {
        let (mut record, mut error) = (zeroed(), zeroed());
        let code = sessile_peek(store, key(id), &mut record, &mut error);
        assert_eq!(code, sessile_code::SESSILE_OK, "{}", message(&error));
        payload(record)
    }
}

fn begin(store: *mut sessile_store, id: &str) -> (*mut sessile_lease, Option<Vec<u8>>) {
    unsafe {
        let (mut lease, mut record, mut error) = (null_mut(), zeroed(), zeroed());
        let code = sessile_begin(store, key(id), 1_000, &mut lease, &mut record, &mut error);
        assert_eq!(code, sessile_code::SESSILE_OK, "{}", message(&error));
        (lease, payload(record))
    }
}

#[test]
fn the_whole_life_of_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&format!("files:{}", folder.path().display()));
    let none = null_mut();
    unsafe {
        assert!(CStr::from_ptr(sessile_label(store)).to_str().unwrap().starts_with("files:"));
        let (lease, there) = begin(store, "abc");
        assert_eq!(there, None);
        assert_eq!(
            sessile_lease_commit(lease, bytes(b"a\0b"), TTL, none),
            sessile_code::SESSILE_OK
        );
        assert_eq!(peek(store, "abc"), Some(b"a\0b".to_vec()));

        let (lease, there) = begin(store, "abc");
        assert_eq!(there, Some(b"a\0b".to_vec()));
        assert_eq!(sessile_lease_touch(lease, TTL, none), sessile_code::SESSILE_OK);
        assert_eq!(
            sessile_lease_regenerate(lease, key("def"), 1_000, none),
            sessile_code::SESSILE_OK
        );
        assert_eq!(sessile_lease_commit(lease, bytes(b""), TTL, none), sessile_code::SESSILE_OK);
        assert_eq!(peek(store, "def"), Some(Vec::new()));
        assert_eq!(
            peek(store, "abc"),
            Some(Vec::new()),
            "within its grace the old id leads to the new one"
        );

        let (lease, _) = begin(store, "ghi");
        assert_eq!(sessile_lease_release(lease, none), sessile_code::SESSILE_OK);
        assert_eq!(peek(store, "ghi"), None);

        assert_eq!(sessile_touch(store, key("def"), TTL, none), sessile_code::SESSILE_OK);
        assert_eq!(sessile_destroy(store, key("def"), none), sessile_code::SESSILE_OK);
        assert_eq!(peek(store, "def"), None);
        assert_eq!(sessile_touch(store, key("def"), TTL, none), sessile_code::SESSILE_GONE);

        assert_eq!(
            sessile_create(store, key("new"), bytes(b"x"), TTL, none),
            sessile_code::SESSILE_OK
        );
        assert_eq!(
            sessile_create(store, key("new"), bytes(b"y"), TTL, none),
            sessile_code::SESSILE_EXISTS
        );
        let mut removed = 7;
        assert_eq!(sessile_collect(store, true, &mut removed, none), sessile_code::SESSILE_OK);
        assert_eq!(removed, 0);
        assert_eq!(peek(store, "new"), Some(b"x".to_vec()));
        sessile_close(store);
    }
}

#[test]
fn other_bins_are_other_data() {
    let store = open("memory:");
    let forms = sessile_key { bin: bytes(b"forms"), ..key("a.b") };
    unsafe {
        assert_eq!(
            sessile_create(store, forms, bytes(b"f"), TTL, null_mut()),
            sessile_code::SESSILE_OK
        );
        let mut record = zeroed();
        assert_eq!(sessile_peek(store, forms, &mut record, null_mut()), sessile_code::SESSILE_OK);
        assert_eq!(payload(record), Some(b"f".to_vec()));
        let code = sessile_create(
            store,
            sessile_key { bin: bytes(b"Forms"), ..forms },
            bytes(b""),
            TTL,
            null_mut(),
        );
        assert_eq!(code, sessile_code::SESSILE_INVALID_ARGUMENT);
        sessile_close(store);
    }
}

#[test]
fn what_cannot_be_done_is_a_code_and_a_sentence_without_secrets() {
    let store = open("memory:?payload_bytes_max=10");
    unsafe {
        let (mut error, mut other) = (zeroed::<sessile_error>(), null_mut());
        let code = sessile_open(bytes(b"nosuch://user:geheim@host"), &mut other, &mut error);
        assert_eq!((code, error.code), (sessile_code::SESSILE_INVALID_URL, code));
        assert!(
            other.is_null() && message(&error).contains("known schemes"),
            "{}",
            message(&error)
        );
        assert!(!message(&error).contains("geheim"));
        assert_eq!(
            sessile_open(bytes(b"memory:\xff"), &mut other, &mut error),
            sessile_code::SESSILE_INVALID_URL
        );

        let (lease, _) = begin(store, "secret");
        let (mut second, mut record) = (null_mut(), zeroed());
        let code = sessile_begin(store, key("secret"), 0, &mut second, &mut record, &mut error);
        assert_eq!(code, sessile_code::SESSILE_LOCK_TIMEOUT);
        assert!(
            second.is_null()
                && message(&error).contains("held by")
                && !message(&error).contains("secret")
        );
        let code = sessile_lease_commit(lease, bytes(&[b'p'; 11]), TTL, &mut error);
        assert_eq!(code, sessile_code::SESSILE_TOO_LARGE);
        assert!(message(&error).contains("11 bytes, limit 10 bytes"), "{}", message(&error));
        let (lease, there) = begin(store, "secret"); // the failed commit released the lock
        assert_eq!(there, None);
        let code =
            sessile_lease_commit(lease, bytes(b""), sessile_ttl { idle_ms: 0, ..TTL }, &mut error);
        assert_eq!(code, sessile_code::SESSILE_INVALID_ARGUMENT);
        assert_eq!(begin(store, "secret").1, None);

        for id in ["", "a/b", "\u{e4}", &"x".repeat(257)] {
            assert_eq!(
                sessile_destroy(store, key(id), &mut error),
                sessile_code::SESSILE_INVALID_ID,
                "{id:?}"
            );
        }
        let broken = sessile_key { id: bytes(b"a\xff"), ..key("") };
        assert_eq!(sessile_destroy(store, broken, &mut error), sessile_code::SESSILE_INVALID_ID);

        let mut value = 0;
        let name = CStr::from_ptr(sessile_counter(store, 1, &mut value));
        assert_eq!((name.to_str(), value), (Ok("too_large"), 1));
        sessile_close(store);
    }
}

#[test]
fn a_url_is_shown_without_its_password_whether_it_is_one_or_not() {
    let shown = |url: &str, size: usize| unsafe {
        let mut text = [b'#' as c_char; 64];
        let length = sessile_redact(bytes(url.as_bytes()), text.as_mut_ptr(), size);
        assert!(size == 0 || CStr::from_ptr(text.as_ptr()).count_bytes() == length);
        assert_eq!(text[size], b'#' as c_char, "behind its room");
        String::from_utf8(text[..length].iter().map(|byte| *byte as u8).collect()).unwrap()
    };
    assert_eq!(shown("redis://shop:geheim@host:1/0", 63), "redis://host:1/0");
    assert_eq!(shown("redis://shop:geheim@host:1/0", 6), "redis");
    assert_eq!(shown("redis://shop:geheim@host:1/0", 0), "");
    assert_eq!(shown("geheim@x", 63), "a malformed store URL");
    let path = |url: &str| unsafe {
        let mut text = [b'#' as c_char; 64];
        let length = sessile_path(bytes(url.as_bytes()), text.as_mut_ptr(), text.len());
        String::from_utf8(text[..length].iter().map(|byte| *byte as u8).collect()).unwrap()
    };
    for url in
        ["files:/a%20b/c?php=1", "redis+unix:/x/../a%20b/c?db=1", "/a%20b/c", "files:///a b/c"]
    {
        assert_eq!(path(url), "/a b/c", "{url}");
    }
    assert_eq!([path("redis://host/0"), path("memory:"), path("x")], [""; 3]);
}

#[test]
fn null_pointers_are_refused_or_do_nothing() {
    unsafe {
        let mut error = zeroed::<sessile_error>();
        assert_eq!(
            sessile_open(bytes(b"memory:"), null_mut(), &mut error),
            sessile_code::SESSILE_INVALID_ARGUMENT
        );
        assert!(message(&error).contains("null"), "{}", message(&error));
        assert_eq!(
            sessile_destroy(null_mut(), key("a"), &mut error),
            sessile_code::SESSILE_INVALID_ARGUMENT
        );
        assert_eq!(
            sessile_lease_release(null_mut(), null_mut()),
            sessile_code::SESSILE_INVALID_ARGUMENT
        );
        assert_eq!(
            sessile_lease_commit(null_mut(), key("").bin, TTL, null_mut()),
            sessile_code::SESSILE_INVALID_ARGUMENT
        );
        let store = open("memory:");
        let refused = sessile_begin(store, key("a"), 0, null_mut(), null_mut(), &mut error);
        assert_eq!(refused, sessile_code::SESSILE_INVALID_ARGUMENT);
        let (lease, _) = begin(store, "a"); // without leaving a lock
        sessile_close(store);
        assert_eq!(
            sessile_lease_release(lease, null_mut()),
            sessile_code::SESSILE_OK,
            "after its store was closed"
        );
        sessile_close(null_mut());
        sessile_record_free(null_mut());
        assert!(!CStr::from_ptr(sessile_version()).is_empty());
    }
}

const RULES: sessile_rules = sessile_rules {
    lock_wait_ms: 0,
    idle_ms: 60_000,
    first_lifetime_ms: 0,
    lifetime_ms: 0,
    grace_ms: 30_000,
    read_on_lock_timeout: false,
    lazy_start: true,
    touch_unlocked: false,
    best_effort: false,
    merge: false,
    fail_on_conflict: false,
    format: sessile_format::SESSILE_FORMAT_OTHER,
};

/// Opens and loads a session for a request, as its text or the code of the failure.
fn opened(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: &str,
    rules: sessile_rules,
) -> Result<(String, sessile_code), sessile_code> {
    unsafe {
        let (mut payload, mut error) = (zeroed(), zeroed::<sessile_error>());
        sessile_request_set_rules(request, rules);
        let id = bytes(id.as_bytes());
        let code = sessile_request_open(request, store, id, true, &mut payload, &mut error);
        if code != sessile_code::SESSILE_OK {
            return Err(code);
        }
        let text = match payload.length {
            0 => &[],
            length => std::slice::from_raw_parts(payload.data.cast::<u8>(), length),
        };
        let text = String::from_utf8(text.to_vec()).unwrap();
        sessile_request_loaded(request);
        Ok((text, error.code))
    }
}

fn saved(
    request: *mut sessile_request,
    store: *mut sessile_store,
    id: &str,
    text: &str,
) -> Result<sessile_saved, sessile_code> {
    let save = sessile_save {
        payload: bytes(text.as_bytes()),
        serialised: true,
        changed: true,
        empty: text.is_empty(),
        headers_open: true,
    };
    let mut saved = sessile_saved::SESSILE_NOTHING;
    let id = bytes(id.as_bytes());
    let code = unsafe { sessile_request_save(request, store, id, save, &mut saved, null_mut()) };
    if code == sessile_code::SESSILE_OK { Ok(saved) } else { Err(code) }
}

#[test]
fn the_session_of_a_request() {
    unsafe {
        let store = open("memory:");
        let (first, second) = (sessile_request_new(), sessile_request_new());
        assert!(!sessile_request_is_taken(first, store, bytes(b"a"), true));
        assert_eq!(opened(first, store, "a", RULES), Ok((String::new(), sessile_code::SESSILE_OK)));
        let held = Err(sessile_code::SESSILE_LOCK_TIMEOUT);
        assert_eq!(opened(second, store, "a", RULES), held);
        // The warning of a session that could only be read.
        let read_only = sessile_rules { read_on_lock_timeout: true, ..RULES };
        let warned = Ok((String::new(), sessile_code::SESSILE_LOCK_TIMEOUT));
        assert_eq!(opened(second, store, "a", read_only), warned);
        assert_eq!(saved(second, store, "a", "x"), Err(sessile_code::SESSILE_UNSUPPORTED));
        assert_eq!(saved(first, store, "a", ""), Ok(sessile_saved::SESSILE_WITHDRAW_COOKIE));
        assert_eq!(saved(first, store, "a", "x"), Ok(sessile_saved::SESSILE_STORED));

        assert!(sessile_request_validate(first, store, bytes(b"a"), true));
        assert!(!sessile_request_validate(second, store, bytes(b"b"), true));
        assert_eq!(opened(first, store, "a", RULES), Ok(("x".into(), sessile_code::SESSILE_OK)));
        let left = sessile_request_leave_id(first, store, bytes(b"a"), true, null_mut());
        assert!(left == sessile_code::SESSILE_OK && sessile_request_is_leaving(first));
        assert!(sessile_request_pause(first) && !sessile_request_pause(first));
        assert!(opened(first, store, "b", RULES).is_ok());
        assert_eq!(saved(first, store, "b", "y"), Ok(sessile_saved::SESSILE_STORED));
        assert_eq!(opened(second, store, "a", RULES), Ok(("x".into(), sessile_code::SESSILE_OK)));
        assert_eq!(saved(second, store, "a", "z"), Ok(sessile_saved::SESSILE_REPLACED));

        assert!(opened(first, store, "b", RULES).is_ok());
        let mut error = zeroed::<sessile_error>();
        assert_eq!(
            sessile_request_destroy(second, store, bytes(b"b"), &mut error),
            sessile_code::SESSILE_OK
        );
        assert_eq!(saved(first, store, "b", "z"), Ok(sessile_saved::SESSILE_LOGGED_OUT));
        assert!(!sessile_request_close(first, store, true));
        assert_eq!(saved(null_mut(), store, "b", "z"), Err(sessile_code::SESSILE_INVALID_ARGUMENT));
        sessile_request_end(second);
        sessile_request_reset(null_mut());
        sessile_request_free(first);
        sessile_request_free(second);
        sessile_request_free(null_mut());
        assert_eq!(peek(store, "b"), None);
        sessile_close(store);
    }
}

fn logged() -> Vec<String> {
    let mut lines = Vec::new();
    unsafe {
        let mut message = sessile_message { level: sessile_level::SESSILE_ERROR, text: zeroed() };
        while sessile_log_next(&mut message) {
            let text = CStr::from_ptr(message.text.as_ptr()).to_str().unwrap();
            lines.push(format!("{} {text}", message.level as u32));
        }
    }
    lines
}

#[test]
fn log_lines_reach_the_host_program() {
    unsafe {
        assert!(sessile_log_start() && !sessile_log_start());
        assert!(!sessile_log_next(null_mut()));
        let store = open("memory:?payload_bytes_max=3");
        let code = sessile_create(store, key("a"), bytes(b"four"), TTL, null_mut());
        assert_eq!(code, sessile_code::SESSILE_TOO_LARGE);
        log::warn!(target: "somebody_else", "not ours");
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let small = open(&format!(
            "sessile:{}?size_bytes_max=4194304",
            folder.path().join("store").display()
        ));
        let large = [7; 200_000];
        let create = |number| {
            sessile_create(small, key(&format!("a{number}")), bytes(&large), TTL, null_mut())
        };
        let full = (0..100).map(create).find(|code| *code != sessile_code::SESSILE_OK);
        assert_eq!(full, Some(sessile_code::SESSILE_FULL));
        sessile_close(small);
        let lines = logged();
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("2 memory:") && line.contains("limit 3 bytes")),
            "{lines:?}"
        );
        assert!(!lines.iter().any(|line| line.contains("not ours")));
        // The message must show that the size was not the reason.
        let size = "(200000 bytes, limit 67108864 bytes): ";
        assert!(
            lines.iter().any(|line| line.starts_with("2 sessile:") && line.contains(size)),
            "{lines:?}"
        );
        // What the host program has logged itself is dropped, and what is too much is counted.
        let mut error = zeroed::<sessile_error>();
        for _ in 0..7 {
            sessile_create(store, key("a"), bytes(b"four"), TTL, &mut error);
        }
        sessile_log_drop(&error);
        error.message[0] = b'X' as c_char;
        sessile_log_drop(&error);
        let lines = logged();
        assert_eq!((lines.len(), lines[3].as_str()), (4, "2 3 more messages"));
        assert!(logged().is_empty());
        sessile_close(store);
    }
}

#[test]
fn a_thread_keeps_the_stores_of_eight_urls_and_settings_apart() {
    unsafe {
        let stores = sessile_open_stores_new();
        let get = |url: &str, payload_bytes_max| {
            let settings =
                sessile_settings { payload_bytes_max, hashed_ids: false, request_ms_max: 30_000 };
            let (mut store, mut error) = (null_mut(), zeroed());
            let url = bytes(url.as_bytes());
            let code = sessile_open_stores_get(stores, url, settings, &mut store, &mut error);
            (code, store)
        };
        let (code, first) = get("memory:", 0);
        assert_eq!(code, sessile_code::SESSILE_OK);
        for limit in 1..8 {
            assert_ne!(get("memory:", limit).1, first);
        }
        assert_eq!(get("nonsense:", 0).0, sessile_code::SESSILE_INVALID_URL);
        let id = key("0123456789abcdef");
        let code = sessile_create(first, id, bytes(b"cart"), TTL, null_mut());
        assert_eq!((get("memory:", 0).1, code), (first, sessile_code::SESSILE_OK));
        for limit in 8..16 {
            get("memory:", limit);
        }
        let mut record = zeroed();
        let (_, again) = get("memory:", 0);
        assert_eq!(sessile_peek(again, id, &mut record, null_mut()), sessile_code::SESSILE_OK);
        assert!(!record.found, "it was closed, and its memory is gone");
        sessile_open_stores_free(stores);
    }
}

fn request_on(store: *mut sessile_store, format: sessile_format) -> *mut sessile_request {
    let request = sessile_request_new();
    let mut rules: sessile_rules = unsafe { zeroed() };
    (rules.idle_ms, rules.merge, rules.format) = (60_000, true, format);
    unsafe { sessile_request_set_rules(request, rules) };
    let (mut read, mut error) = (bytes(b""), unsafe { zeroed() });
    let opened =
        unsafe { sessile_request_open(request, store, bytes(b"id"), true, &mut read, &mut error) };
    assert_eq!(opened, sessile_code::SESSILE_OK, "{}", message(&error));
    unsafe { sessile_request_loaded(request) };
    request
}

fn save(request: *mut sessile_request, store: *mut sessile_store, text: &str) -> sessile_code {
    let mut saved = sessile_saved::SESSILE_NOTHING;
    let with = sessile_save {
        payload: bytes(text.as_bytes()),
        serialised: true,
        changed: true,
        empty: false,
        headers_open: false,
    };
    unsafe { sessile_request_save(request, store, bytes(b"id"), with, &mut saved, null_mut()) }
}

#[test]
fn sessions_in_json_are_merged_and_a_request_saves_twice() {
    let store = open("memory:");
    let one = request_on(store, sessile_format::SESSILE_FORMAT_JSON);
    assert_eq!(save(one, store, r#"{"n":1}"#), sessile_code::SESSILE_OK);
    let other = request_on(store, sessile_format::SESSILE_FORMAT_JSON);
    assert_eq!(save(other, store, r#"{"n":1,"other":2}"#), sessile_code::SESSILE_OK);
    let before = bytes(br#"{"n":1}"#);
    let again = unsafe { sessile_request_reopen(one, store, bytes(b"id"), before, null_mut()) };
    assert_eq!(again, sessile_code::SESSILE_OK);
    assert_eq!(save(one, store, r#"{"n":1,"one":3}"#), sessile_code::SESSILE_OK);
    assert_eq!(peek(store, "id").unwrap(), br#"{"n":1,"other":2,"one":3}"#);
    unsafe {
        sessile_request_free(one);
        sessile_request_free(other);
        sessile_close(store);
    }
}
