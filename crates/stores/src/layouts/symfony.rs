//! `symfony+mysql:` and others: the table of Symfony's sessions.
//!
//! Source: Symfony's `PdoSessionHandler::createTable` and `read`. The content is what PHP has
//! serialised: over Sessile, Symfony keeps the same.

use sessile_core::{Clock, OwnerChange, Result};

use super::table::{self, Contents, Moment, Table, named, no_table, sum};
use super::{Layout, Walk};
use crate::registry::option;
use crate::store_url::StoreUrl;

pub const LAYOUT: Layout = Layout {
    program: "symfony",
    storages: table::SCHEMES,
    reads: "the table of Symfony's PdoSessionHandler",
    example: "symfony+postgres://user@host/database",
    options: &[
        option("table", "db_table (default sessions)"),
        option("id_col", "db_id_col (default sess_id)"),
        option("data_col", "db_data_col (default sess_data)"),
        option("lifetime_col", "db_lifetime_col (default sess_lifetime)"),
        option("time_col", "db_time_col (default sess_time)"),
    ],
    of_connection: table::options,
    sessions_only: None,
    store: None,
    open,
};

/// The largest lifetime in seconds. `sess_lifetime` is the end of a session. Up to version 4.4 it
/// was a number of seconds after `sess_time`; small numbers still mean that.
const LIFETIME_MAX: u64 = 315_576_000;

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let (id, content) = (named(url, "id_col", "sess_id")?, named(url, "data_col", "sess_data")?);
    let (lifetime, time) =
        (named(url, "lifetime_col", "sess_lifetime")?, named(url, "time_col", "sess_time")?);
    let end = sum(&lifetime, &format!("\"{time}\""));
    let expires =
        format!("CASE WHEN \"{lifetime}\" <= {LIFETIME_MAX} THEN {end} ELSE \"{lifetime}\" END");
    let table = Table {
        name: named(url, "table", "sessions")?,
        key: vec![id.clone()],
        shows_keys: false,
        content: content.clone(),
        created: Moment::Absent,
        used: Moment::Seconds(format!("\"{time}\"")),
        expires: Moment::Seconds(expires),
        contents: Ok(Contents {
            is_text: false,
            user: None,
            convert: |data, _| Ok((data, OwnerChange::Keep)),
        }),
    };
    let walk = table::walk(url, table, &[&id, &content, &lifetime, &time])?;
    walk.ok_or_else(|| {
        no_table("table of Symfony's sessions").advice(
            "name the database, the table with ?table=, and its columns with ?id_col= and the like \
             (sessile analyze --help)",
        )
    })
}
