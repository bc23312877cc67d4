//! The feature table of the manual equals the one of the registry.
//!
//! `UPDATE_README=1 cargo test -p sessile-tests --test feature_table` rewrites it.

use sessile_stores::{feature_table, registry};
use sessile_tests::{markdown, root};

const MARK: &str = "feature table, generated";

fn with_table(page: &str, table: &str) -> Option<String> {
    let (range, _) = markdown::marked(page, MARK)?;
    let mut text = page.to_owned();
    text.replace_range(range, table);
    Some(text)
}

#[test]
fn the_manual_shows_the_table_of_the_registry() {
    let path = root().join("docs/sessile-or-redis.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let table = feature_table::markdown(registry::STORES);
    let wanted = with_table(&page, &table)
        .expect("docs/sessile-or-redis.md has lost the marks around its feature table");
    assert!(
        page.contains(feature_table::LEGEND),
        "docs/sessile-or-redis.md does not say what * means in its feature table"
    );
    if std::env::var_os("UPDATE_README").is_some_and(|value| value == "1") {
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    assert!(
        page == wanted,
        "the feature table of docs/sessile-or-redis.md is not that of the registry; run \
         `UPDATE_README=1 cargo test -p sessile-tests --test feature_table`, or paste \
         this:\n\n{table}"
    );
}

#[test]
fn a_stale_table_is_noticed_and_replaced() {
    let page = format!("before\n<!-- {MARK} -->\n| old |\n<!-- end {MARK} -->\nafter\n");
    let table = feature_table::markdown(registry::STORES);
    let written = with_table(&page, &table).unwrap();
    assert_ne!(written, page);
    assert_eq!(with_table(&written, &table).unwrap(), written, "writing it twice changes it");
    assert!(written.starts_with("before\n") && written.ends_with("after\n"));
    assert_eq!(with_table("no marks", &table), None);
}
