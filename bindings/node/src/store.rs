//! A store, and the operations that need no request.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{Either, Either4};
use napi_derive::napi;
use sessile_core::{Counter, Error, ErrorKind, Key, Owner, Result, Sessions, Ttl};
use sessile_handler::{look, seconds};
use sessile_stores::{LazyStore, Settings};

use crate::calls::{Answer, Channel, Wait};
use crate::error::Failure;

/// An open store. The environments of a process share what it is made of.
#[napi]
#[derive(Clone)]
pub struct Store {
    channel: Channel,
    lazy: Arc<LazyStore>,
}

/// The digits of an expiry after a payload.
const EXPIRY_DIGITS: usize = 15;

/// Opens the store of a URL. One on a server is opened by its first call.
#[napi]
pub fn open_store(
    channel: &Channel,
    url: String,
    payload_bytes_max: Option<f64>,
    hashed_ids: bool,
) -> Either<Store, Failure> {
    let payload_bytes_max = payload_bytes_max.map(|bytes| bytes as u64);
    let settings = Settings { payload_bytes_max, hashed_ids, request_time_max: None };
    let opened = LazyStore::new(&url, settings).map(Arc::new);
    Failure::or(opened.map(|lazy| Store { channel: channel.clone(), lazy }))
}

impl Store {
    pub(crate) fn perform(
        &self,
        ticket: i32,
        call: impl FnOnce(&Sessions, Wait) -> Result<Answer> + Send + 'static,
    ) -> Answer {
        let lazy = Arc::clone(&self.lazy);
        self.channel.perform(ticket, move |wait| call(lazy.get()?, wait))
    }
}

#[napi]
impl Store {
    /// The URL without secrets.
    #[napi]
    pub fn label(&self) -> String {
        self.lazy.label().to_owned()
    }

    /// Whether it answers from memory of this host: only a lock is worth a wait.
    #[napi]
    pub fn in_memory(&self) -> bool {
        self.lazy.opened().is_some_and(|sessions| sessions.capabilities().in_memory())
    }

    /// A session as it is stored, and after it the 15 digits of its expiry in milliseconds since
    /// 1970: one string is made faster than an object. Null if there is none. `listed`: the id is
    /// one of a listing.
    #[napi]
    pub fn peek(&self, ticket: i32, id: String, listed: bool) -> Answer {
        self.perform(ticket, move |sessions, _| {
            let Some(record) = look(sessions, &key(&id, listed)?)? else { return Ok(None) };
            let expires = record.head.expires.as_ms();
            let mut text = utf8(record.payload)?;
            text.reserve_exact(EXPIRY_DIGITS);
            let _ = write!(text, "{expires:0EXPIRY_DIGITS$}");
            Ok(Some(Either4::B(text)))
        })
    }

    /// Lets a session live for `idle_ms` from now.
    #[napi]
    pub fn touch(&self, ticket: i32, id: String, idle_ms: f64) -> Answer {
        self.perform(ticket, move |sessions, _| {
            let idle = seconds(idle_ms / 1e3)?.max(Duration::from_millis(1));
            sessions.touch(&key(&id, false)?, Ttl::sliding(idle)?).map(|()| None)
        })
    }

    /// Destroys a session at once, even a locked one. It stays destroyed.
    #[napi]
    pub fn destroy(&self, ticket: i32, id: String, listed: bool) -> Answer {
        self.perform(ticket, move |sessions, _| sessions.destroy(&key(&id, listed)?).map(|()| None))
    }

    /// Ends all sessions of an owner, but for the one with the id `but`, and answers with their
    /// number.
    #[napi]
    pub fn revoke(&self, ticket: i32, owner: String, but: Option<String>) -> Answer {
        self.perform(ticket, move |sessions, _| {
            let but = but.map(|id| Key::session(&id)).transpose()?;
            let ended = sessions.revoke(Owner::new(owner.as_bytes())?, but.as_ref())?;
            Ok(Some(Either4::C(ended as f64)))
        })
    }

    /// Removes expired sessions and answers with their number; only a few of them if not `all`.
    #[napi]
    pub fn collect(&self, ticket: i32, all: bool) -> Answer {
        self.perform(ticket, move |sessions, _| {
            Ok(Some(Either4::C(sessile_handler::collect(sessions, all)? as f64)))
        })
    }

    /// The counters of this process, by name.
    #[napi]
    pub fn counters(&self) -> HashMap<String, f64> {
        let count = |counter| self.lazy.opened().map_or(0, |opened| opened.count(counter));
        let all = Counter::ALL.iter();
        all.map(|counter| (counter.name().to_owned(), count(*counter) as f64)).collect()
    }
}

pub(crate) fn key(id: &str, listed: bool) -> Result<Key> {
    Key::session(id).map(|key| if listed { key.as_listed() } else { key })
}

/// A payload as text.
pub(crate) fn utf8(payload: Vec<u8>) -> Result<String> {
    String::from_utf8(payload).map_err(|_| {
        let why = "the session is not UTF-8: another program has written it";
        Error::new(ErrorKind::Corrupt, why)
    })
}
