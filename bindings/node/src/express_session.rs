//! What the Store of express-session needs: a save without a request, and listings.

use napi::bindgen_prelude::Either4;
use napi_derive::napi;
use sessile_core::{Bin, Cursor, Filter};
use sessile_handler::{Access, Save};

use crate::calls::{Answer, lock_wait, text};
use crate::request::new_request;
use crate::rules::{Rules, milliseconds};
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
    /// is stored. Names the result; `stale` if another request has changed it since. `queued_ms`:
    /// how long it has stood in line for its thread.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "lib/express-session.js calls it once")]
    pub fn set(
        &self,
        ticket: i32,
        id: String,
        base: Option<String>,
        payload: String,
        rules: &Rules,
        idle_ms: f64,
        queued_ms: f64,
    ) -> Answer {
        let rules = rules.0;
        self.perform(ticket, move |sessions| {
            let (idle, queued) = (milliseconds(idle_ms)?, milliseconds(queued_ms)?);
            let lock_wait = lock_wait(ticket, rules.lock_wait, queued);
            let rules = sessile_handler::Rules { idle, lock_wait, ..rules };
            let mut request = new_request(rules);
            match base {
                Some(base) => request.reopen(sessions, &id, base.as_bytes())?,
                None => {
                    let access = if ticket < 0 { Access::Locked } else { Access::LockedAtOnce };
                    request.open(sessions, &id, access)?;
                    request.loaded();
                }
            }
            let save = Save {
                payload: Some(payload.as_bytes()),
                changed: true,
                empty: false,
                headers_open: false,
            };
            request.save(sessions, &id, save).map(|saved| text(saved.name()))
        })
    }

    /// Some of the sessions, after those of an earlier answer.
    #[napi]
    pub fn list(&self, ticket: i32, after: Option<String>) -> Answer {
        self.perform(ticket, move |sessions| {
            let filter = Filter { bin: Some(Bin::SESSION), ..Filter::default() };
            let page = sessions.list(after.map(Cursor).as_ref(), &filter)?;
            let ids = page.entries.iter().map(|entry| entry.key.id().to_owned()).collect();
            let some = key("id", false)?;
            let digests = sessions.listed_key(&some) != some;
            Ok(Some(Either4::D(Listing { ids, digests, next: page.next.map(|next| next.0) })))
        })
    }
}
