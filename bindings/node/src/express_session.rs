//! What the Store of express-session needs: a save without a request, and listings.

use napi::bindgen_prelude::Either4;
use napi_derive::napi;
use sessile_core::{Bin, Cursor, Filter};
use sessile_handler::{Access, seconds};

use crate::calls::{Answer, text};
use crate::request::new_request;
use crate::rules::Rules;
use crate::store::{Store, key};

/// Some of the sessions of a store.
#[napi(object)]
pub struct Listing {
    /// Their ids, or digests of them.
    pub ids: Vec<String>,
    /// Whether they are digests: the store keeps no ids.
    pub digests: bool,
    /// Where the next ones are.
    pub next: Option<String>,
}

#[napi]
impl Store {
    /// Stores a session that was read as `base`. Without a base it is a new one, or replaces what
    /// is stored. Names the result; `stale` if another request has changed it since.
    #[napi]
    pub fn set(
        &self,
        ticket: i32,
        id: String,
        base: Option<String>,
        payload: String,
        rules: &Rules,
        idle_ms: f64,
    ) -> Answer {
        let rules = rules.0;
        self.perform(ticket, move |sessions, wait| {
            let idle = seconds(idle_ms / 1e3)?;
            let mut request = new_request(sessile_handler::Rules { idle, ..wait.within(rules) });
            let access = if wait.waits { Access::Locked } else { Access::LockedAtOnce };
            let base = base.as_deref().map(str::as_bytes);
            Ok(text(request.store(sessions, &id, base, access, payload.as_bytes())?.name()))
        })
    }

    /// Some of the sessions, after those of an earlier answer.
    #[napi]
    pub fn list(&self, ticket: i32, after: Option<String>) -> Answer {
        self.perform(ticket, move |sessions, _| {
            let filter = Filter { bin: Some(Bin::SESSION), ..Filter::default() };
            let page = sessions.list(after.map(Cursor).as_ref(), &filter)?;
            let ids = page.entries.iter().map(|entry| entry.key.id().to_owned()).collect();
            let some = key("id", false)?;
            let digests = sessions.listed_key(&some) != some;
            Ok(Some(Either4::D(Listing { ids, digests, next: page.next.map(|next| next.0) })))
        })
    }
}
