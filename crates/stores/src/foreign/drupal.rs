//! `drupal+mysql:` and its like: the table `sessions` and the cache tables of Drupal, 7 to 11.
//!
//! Source: `system.install` and `includes/session.inc` of Drupal 7, `DatabaseBackend` and `SessionHandler` of later ones.
//! The key of a cache entry is shown: it is what an operator has to know of an entry that a cache cannot hold. What is a
//! cache is told by the columns, never by the name: with a prefix, sessions may be in `shop_cache_sessions`.

use std::collections::BTreeSet;

use sessile_core::{Clock, Limits, Result};

use super::table::{Moment, Table, TableWalk, has, is_word, no_table, sum};
use super::{Layout, Walk, database};
use crate::registry::OptionHelp;
use crate::store_url::{StoreUrl, invalid};

pub(super) const LAYOUT: Layout = Layout {
    schemes: &[
        "drupal+mysql",
        "drupal+mariadb",
        "drupal+mysql+unix",
        "drupal+postgres",
        "drupal+postgresql",
        "drupal+postgres+unix",
        "drupal+sqlite",
    ],
    reads: "the sessions and all cache tables of Drupal",
    example: "drupal+mysql://user@host/database",
    options: &[
        OptionHelp {
            name: "table",
            help: "only this one, without the prefix (default: sessions and all cache tables)",
        },
        OptionHelp { name: "prefix", help: "of the names of all tables (default: none)" },
        OptionHelp { name: "maxlifetime", help: "session.gc_maxlifetime in seconds (default 200000)" },
    ],
    of_connection: database::options,
    open,
};

const OF_CACHES: [&str; 4] = ["cid", "data", "created", "expire"];
const OF_SESSIONS: [&str; 3] = ["sid", "session", "timestamp"];
/// Only up to version 7, where it is part of the key.
const SECURE_ID: &str = "ssid";
/// The end of the name of the cache that has tokens of visitors' forms for keys.
const OF_FORMS: &str = "cache_form";
/// In the name of a cache that a module keeps sessions in, such as `cache_session_cache`: their ids are part of its keys.
const OF_SESSION_MODULES: &str = "session";

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = url.text("prefix").unwrap_or_default();
    if !prefix.is_empty() && !is_word(prefix) {
        return Err(invalid("option prefix must be a word of A-Z a-z 0-9 and _"));
    }
    let maxlifetime = url.number("maxlifetime", 200_000, 1..=Limits::TTL_MAX.as_secs())?;
    let mut rows = database::open(url)?;
    let mut names = OF_CACHES.to_vec();
    names.extend(OF_SESSIONS);
    names.push(SECURE_ID);
    let columns = rows.columns(&names)?;
    let all: BTreeSet<&str> = columns.iter().map(|(table, _)| table.as_str()).collect();
    let wanted = |name: &str| match (url.text("table"), name.strip_prefix(prefix)) {
        (Some(only), name) => name == Some(only),
        (None, Some(name)) => name == "sessions" || name == "cache" || name.starts_with("cache_"),
        (None, None) => false,
    };
    let tables: Vec<Table> = all
        .into_iter()
        .filter(|name| is_word(name) && wanted(name))
        .filter_map(|name| table(&columns, name, name.strip_prefix(prefix)?, maxlifetime))
        .collect();
    if tables.is_empty() {
        return Err(no_table("table of Drupal"));
    }
    Ok(Box::new(TableWalk::new(rows, tables)))
}

/// `plain` is the name without the prefix.
fn table(columns: &[(String, String)], name: &str, plain: &str, maxlifetime: u64) -> Option<Table> {
    if has(columns, name, &OF_CACHES) {
        let made = Moment::Seconds("\"created\"".to_owned());
        return Some(Table {
            name: name.to_owned(),
            key: vec!["cid".to_owned()],
            shows_keys: !plain.ends_with(OF_FORMS) && !plain.contains(OF_SESSION_MODULES),
            content: "data".to_owned(),
            created: made.clone(),
            // Reading an entry leaves no trace.
            used: made,
            // 0 is for ever, -1 until the caches are cleared.
            expires: Moment::Seconds("CASE WHEN \"expire\" > 0 THEN \"expire\" END".to_owned()),
        });
    }
    if !has(columns, name, &OF_SESSIONS) {
        return None;
    }
    let secure = has(columns, name, &[SECURE_ID]);
    Some(Table {
        name: name.to_owned(),
        shows_keys: false,
        key: ["sid", SECURE_ID].into_iter().take(1 + usize::from(secure)).map(str::to_owned).collect(),
        content: "session".to_owned(),
        created: Moment::Absent,
        used: Moment::Seconds("\"timestamp\"".to_owned()),
        expires: Moment::Seconds(sum("timestamp", &maxlifetime.to_string())),
    })
}
