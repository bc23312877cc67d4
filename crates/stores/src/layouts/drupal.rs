//! `drupal+mysql:` and others: the table `sessions` and the cache tables of Drupal, 7 to 11.
//!
//! Source: `system.install` and `includes/session.inc` of Drupal 7, `DatabaseBackend` and
//! `SessionHandler` of later versions. Keys of cache entries are shown: operators need them for
//! entries that are too large. The columns tell a cache, never the name: with a prefix, sessions
//! may be in `shop_cache_sessions`.
//!
//! The sessions of Drupal 7 are copied for `bindings/php/integrations/drupal7`, which asks for the
//! digest of an id as the table has it, and has the user in the payload, too. Later versions over
//! Sessile ask for the id itself, which no digest tells.

use std::collections::BTreeSet;

use sessile_core::{Clock, Limits, Owner, OwnerChange, Result};

use super::table::{
    self, Contents, Converted, Moment, Table, TableWalk, has, is_word, no_table, sum,
};
use super::{Layout, Walk};
use crate::registry::option;
use crate::store_url::{StoreUrl, invalid};

pub const LAYOUT: Layout = Layout {
    program: "drupal",
    storages: table::SCHEMES,
    reads: "the sessions and all cache tables of Drupal",
    example: "drupal+mysql://user@host/database",
    options: &[
        option(
            "table",
            "only this one, without the prefix (default: sessions and all cache tables)",
        ),
        option("prefix", "of the names of all tables (default: none)"),
        option("maxlifetime", "session.gc_maxlifetime in seconds (default 200000)"),
    ],
    of_connection: table::options,
    sessions_only: Some(("table", "sessions")),
    store: None,
    open,
};

/// The beginning of a payload of the integration for Drupal 7, before the number of the user.
const USER: &str = "sessile_uid|i:";
const LATER_VERSIONS: &str = "the table is that of Drupal 8 or later, which keeps digests of the \
                              ids, and no id can be told from them: visitors log in once more";

const CACHE_COLUMNS: [&str; 4] = ["cid", "data", "created", "expire"];
const SESSION_COLUMNS: [&str; 3] = ["sid", "session", "timestamp"];
const SECURE_ID: &str = "ssid";
const USER_COLUMN: &str = "uid";
/// The end of the name of a cache whose keys are form tokens of visitors.
const FORM_CACHE_SUFFIX: &str = "cache_form";
/// In the name of a module's session cache, such as `cache_session_cache`, whose keys contain
/// session ids.
const SESSION_CACHE_WORD: &str = "session";

fn open(url: &StoreUrl, _clock: &Clock) -> Result<Box<dyn Walk>> {
    let prefix = url.text("prefix").unwrap_or_default();
    if !prefix.is_empty() && !is_word(prefix) {
        return Err(invalid("option prefix must be a word of A-Z a-z 0-9 and _"));
    }
    let maxlifetime = url.number("maxlifetime", 200_000, 1..=Limits::TTL_MAX.as_secs())?;
    let mut rows = table::open(url)?;
    let columns = rows.columns(&[&CACHE_COLUMNS[..], &SESSION_COLUMNS, &[SECURE_ID]].concat())?;
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
    Ok(TableWalk::boxed(rows, tables))
}

/// `plain` is the name without the prefix.
fn table(columns: &[(String, String)], name: &str, plain: &str, maxlifetime: u64) -> Option<Table> {
    if has(columns, name, &CACHE_COLUMNS) {
        let made = Moment::Seconds("\"created\"".to_owned());
        return Some(Table {
            name: name.to_owned(),
            key: vec!["cid".to_owned()],
            shows_keys: !plain.ends_with(FORM_CACHE_SUFFIX) && !plain.contains(SESSION_CACHE_WORD),
            content: "data".to_owned(),
            created: made.clone(),
            // Reading an entry leaves no trace.
            used: made,
            // 0 means for ever, -1 until the caches are cleared.
            expires: Moment::Seconds("CASE WHEN \"expire\" > 0 THEN \"expire\" END".to_owned()),
            contents: Err("it is a cache, and has no sessions"),
        });
    }
    if !has(columns, name, &SESSION_COLUMNS) {
        return None;
    }
    let contents = Contents { is_text: false, user: Some(USER_COLUMN), convert: to_drupal_7 };
    let secure = has(columns, name, &[SECURE_ID]);
    Some(Table {
        name: name.to_owned(),
        shows_keys: false,
        key: if secure { vec!["sid", SECURE_ID] } else { vec!["sid"] }
            .into_iter()
            .map(str::to_owned)
            .collect(),
        content: "session".to_owned(),
        created: Moment::Absent,
        used: Moment::Seconds("\"timestamp\"".to_owned()),
        expires: Moment::Seconds(sum("timestamp", &maxlifetime.to_string())),
        contents: if secure { Ok(contents) } else { Err(LATER_VERSIONS) },
    })
}

/// The number 0 is that of visitors.
fn to_drupal_7(data: Vec<u8>, user: Option<i64>) -> Result<Converted> {
    let user = user.unwrap_or(0);
    let owner = (user > 0).then(|| Owner::new(user.to_string().as_bytes())).transpose()?;
    let payload = [format!("{USER}{user};").as_bytes(), &data].concat();
    Ok((payload, OwnerChange::Set(owner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_user_before_the_data_and_an_owner_unless_it_is_a_visitor() {
        let (payload, owner) = to_drupal_7(b"cart|i:3;".to_vec(), Some(17)).unwrap();
        assert_eq!(payload, b"sessile_uid|i:17;cart|i:3;");
        assert_eq!(owner, OwnerChange::Set(Owner::new(b"17").ok()));
        for user in [Some(0), None] {
            let (payload, owner) = to_drupal_7(Vec::new(), user).unwrap();
            assert_eq!(payload, b"sessile_uid|i:0;");
            assert_eq!(owner, OwnerChange::Set(None));
        }
    }
}
