//! `django+postgres:` and its like: the table `django_session` of Django's sessions in a database.
//!
//! Source: `AbstractBaseSession`. It has the end of a session and nothing else: neither age nor idle time is known.

use sessile_core::{Clock, Result};

use super::table::{Moment, Table, TableWalk, has, named, no_table};
use super::{Layout, Walk, database};
use crate::registry::OptionHelp;
use crate::store_url::StoreUrl;

pub(super) const LAYOUT: Layout = Layout {
    schemes: &[
        "django+mysql",
        "django+mariadb",
        "django+mysql+unix",
        "django+postgres",
        "django+postgresql",
        "django+postgres+unix",
        "django+sqlite",
    ],
    reads: "the sessions that Django keeps in a database",
    example: "django+sqlite:/srv/shop/db.sqlite3",
    options: &[OptionHelp { name: "table", help: "name of the table (default django_session)" }],
    of_connection: database::options,
    open,
};

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let name = named(url, "table", "django_session")?;
    let mut rows = database::open(url)?;
    let wanted = ["session_key", "session_data", "expire_date"];
    if !has(&rows.columns(&wanted)?, &name, &wanted) {
        return Err(no_table("table of Django's sessions"));
    }
    let table = Table {
        name,
        key: vec!["session_key".to_owned()],
        shows_keys: false,
        content: "session_data".to_owned(),
        created: Moment::Absent,
        used: Moment::Absent,
        expires: Moment::Date("expire_date"),
    };
    Ok(Box::new(TableWalk::new(rows, vec![table])))
}
