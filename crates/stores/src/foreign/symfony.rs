//! `symfony+mysql:` and its like: the table of Symfony's `PdoSessionHandler`.
//!
//! Source: `PdoSessionHandler::createTable` and `read`. `sess_lifetime` is the moment at which a session ends; it was a
//! number of seconds after `sess_time` up to version 4.4, and small numbers still mean that.

use sessile_core::{Clock, Result};

use super::table::{Moment, Table, TableWalk, has, named_table, no_table};
use super::{Layout, Walk, database};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

pub(super) const LAYOUT: Layout = Layout {
    schemes: &[
        "symfony+mysql",
        "symfony+mariadb",
        "symfony+mysql+unix",
        "symfony+postgres",
        "symfony+postgresql",
        "symfony+postgres+unix",
        "symfony+sqlite",
    ],
    reads: "the table of Symfony's PdoSessionHandler",
    example: "symfony+postgres://user@host/database",
    options: &[OptionHelp { name: "table", help: "name of the table (default sessions)" }],
    of_connection: database::options,
    open,
};

/// Up to this a lifetime is a number of seconds.
const LIFETIME_MAX: u64 = 315_576_000;

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let name = named_table(url, "sessions")?;
    let mut rows = database::open(url)?;
    let wanted = ["sess_id", "sess_data", "sess_lifetime", "sess_time"];
    if !has(&rows.columns(&wanted)?, &name, &wanted) {
        return Err(no_table("table of Symfony's sessions"));
    }
    let expires = format!(
        "CASE WHEN \"sess_lifetime\" <= {LIFETIME_MAX} THEN \"sess_lifetime\" + \"sess_time\" ELSE \"sess_lifetime\" END"
    );
    let table = Table {
        name,
        key: vec!["sess_id"],
        shows_keys: false,
        content: "sess_data",
        created: Moment::Absent,
        used: Moment::Seconds("\"sess_time\"".to_owned()),
        expires: Moment::Seconds(expires),
    };
    Ok(Box::new(TableWalk::new(rows, vec![table])))
}
