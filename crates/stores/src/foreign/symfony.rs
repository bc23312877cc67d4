//! `symfony+mysql:` and its like: the table of Symfony's `PdoSessionHandler`.
//!
//! Source: `PdoSessionHandler::createTable` and `read`. `sess_lifetime` is the moment at which a session ends; it was a
//! number of seconds after `sess_time` up to version 4.4, and small numbers still mean that.

use sessile_core::{Clock, Result};

use super::table::{Moment, Table, TableWalk, has, named, no_table, sum};
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
    options: &[
        OptionHelp { name: "table", help: "db_table (default sessions)" },
        OptionHelp { name: "id_col", help: "db_id_col (default sess_id)" },
        OptionHelp { name: "data_col", help: "db_data_col (default sess_data)" },
        OptionHelp { name: "lifetime_col", help: "db_lifetime_col (default sess_lifetime)" },
        OptionHelp { name: "time_col", help: "db_time_col (default sess_time)" },
    ],
    of_connection: database::options,
    open,
};

/// Up to this a lifetime is a number of seconds.
const LIFETIME_MAX: u64 = 315_576_000;

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let name = named(url, "table", "sessions")?;
    let (id, content) = (named(url, "id_col", "sess_id")?, named(url, "data_col", "sess_data")?);
    let (lifetime, time) = (named(url, "lifetime_col", "sess_lifetime")?, named(url, "time_col", "sess_time")?);
    let mut rows = database::open(url)?;
    let wanted = [&id, &content, &lifetime, &time].map(String::as_str);
    if !has(&rows.columns(&wanted)?, &name, &wanted) {
        return Err(no_table("table of Symfony's sessions").advice(
            "name the database, the table with ?table=, and its columns with ?id_col= and the like (scan --help)",
        ));
    }
    let end = sum(&lifetime, &format!("\"{time}\""));
    let expires = format!("CASE WHEN \"{lifetime}\" <= {LIFETIME_MAX} THEN {end} ELSE \"{lifetime}\" END");
    let table = Table {
        name,
        key: vec![id],
        shows_keys: false,
        content,
        created: Moment::Absent,
        used: Moment::Seconds(format!("\"{time}\"")),
        expires: Moment::Seconds(expires),
    };
    Ok(Box::new(TableWalk::new(rows, vec![table])))
}
