//! `sessile stores`: a list of the stores, one of them in detail, or the feature table with all
//! URL options; from the registry.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};
use sessile_core::Durability;
use sessile_fixtures::ServerKind;
use sessile_stores::StoreEntry;
use sessile_stores::feature_table::{FEATURES, LEGEND};
use sessile_stores::registry::{COMMON_OPTIONS, STORES};

use crate::arguments::StoresArguments;
use crate::command_result::CommandResult;
use crate::terminal::print_as;

/// The width of a terminal.
const COLUMNS: usize = 80;

pub fn run(arguments: &StoresArguments) -> CommandResult {
    let named = |entry: &&StoreEntry| Some(entry.name) == arguments.name.as_deref();
    let named = STORES.iter().find(named);
    print_as(
        arguments.json,
        || named.map_or_else(as_json, store),
        || match named {
            Some(entry) => detail(entry),
            None if arguments.all => all(),
            None => list(),
        },
    )
}

/// One line for each store, in 80 columns.
fn list() -> String {
    let mut text = String::new();
    for entry in STORES {
        let what = entry.sentence.split_once(':').map_or(entry.sentence, |(what, _)| what);
        let capabilities = &entry.capabilities;
        let shared = match (capabilities.shared_by_hosts, capabilities.shared_by_processes) {
            (true, _) => "several hosts",
            (false, true) => "one host",
            (false, false) => "one process",
        };
        let server = capabilities
            .server
            .and_then(ServerKind::by_name)
            .map(|kind| if kind.find().is_some() { "installed" } else { "not installed" });
        let line = format!("{:<10} {what:<38} {shared:<13}  {}", entry.name, server.unwrap_or(""));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("\n`sessile stores NAME` shows what one can do, `--all` compares them.\n");
    text
}

/// One store, in 80 columns: its features, its server, its options.
fn detail(entry: &StoreEntry) -> String {
    let mut text = format!("{}\n", wrapped(&format!("{}:", entry.name), entry.sentence, 2));
    // The stars lead to the notes below the feature table.
    let titles: Vec<String> =
        FEATURES.iter().map(|feature| feature.title().replace(" *", "")).collect();
    let wide = titles.iter().map(String::len).max().unwrap_or_default();
    for (feature, title) in FEATURES.iter().zip(&titles) {
        let cell = feature.cell(entry).replace('`', "");
        text.push_str(&wrapped(&format!("  {title:<wide$} "), &cell, wide + 4));
    }
    text.push('\n');
    text.push_str(&options_of(entry));
    text.push_str(&common_options());
    text
}

fn all() -> String {
    let mut text = format!("{}\n\n{LEGEND}\n", features());
    for entry in STORES {
        let name = wrapped(&format!("{}:", entry.name), entry.sentence, 2);
        text.push_str(&format!("\n{name}{}", options_of(entry)));
    }
    format!("{text}\n{}", common_options())
}

fn options_of(entry: &StoreEntry) -> String {
    let mut text = String::new();
    if let Some(kind) = entry.capabilities.server.and_then(ServerKind::by_name) {
        let state = match kind.find() {
            Some(_) => "is installed".to_owned(),
            None => format!("is not installed (Debian package {})", kind.package),
        };
        text.push_str(&format!("  {} {state}\n", kind.name));
    }
    for fixture in entry.fixtures {
        text.push_str(&wrapped("  measured as", &shown(fixture.url), 6));
    }
    text + &options_as_text(entry.options)
}

fn common_options() -> String {
    format!("every store\n{}", options_as_text(COMMON_OPTIONS))
}

fn options_as_text(options: &[sessile_stores::OptionHelp]) -> String {
    options.iter().map(|it| wrapped(&format!("  ?{}= ", it.name), it.help, 6)).collect()
}

/// Words after a beginning, in lines of 80 columns; the lines after the first are indented. A URL
/// that is longer than a line breaks behind an `&`.
fn wrapped(beginning: &str, text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), beginning.to_owned());
    let words = text.split(' ').flat_map(|word| {
        let is_long = word.chars().count() > COLUMNS - indent;
        let parts = if is_long { word.split_inclusive('&').collect() } else { vec![word] };
        parts.into_iter().enumerate().map(|(part, word)| (if part == 0 { " " } else { "" }, word))
    });
    for (space, word) in words {
        if line.chars().count() + space.len() + word.chars().count() > COLUMNS {
            lines.push_str(&format!("{line}\n"));
            line = format!("{:indent$}{word}", "");
        } else {
            line.push_str(&format!("{space}{word}"));
        }
    }
    format!("{lines}{line}\n")
}

fn features() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(100);
    table.set_header(std::iter::once("").chain(STORES.iter().map(|entry| entry.name)));
    for feature in FEATURES {
        let cells = STORES.iter().map(|entry| feature.cell(entry).replace('`', ""));
        table.add_row(std::iter::once(feature.title()).chain(cells));
    }
    table
}

/// The placeholders of fixtures, as in results.
fn shown(url: &str) -> String {
    url.replace('{', "<").replace('}', ">")
}

fn as_json() -> Value {
    let stores: Vec<Value> = STORES.iter().map(store).collect();
    json!({ "schema": 1, "stores": stores, "options_of_every_store": options(COMMON_OPTIONS) })
}

fn options(options: &[sessile_stores::OptionHelp]) -> Vec<Value> {
    options.iter().map(|option| json!({ "name": option.name, "help": option.help })).collect()
}

fn store(entry: &StoreEntry) -> Value {
    let capabilities = &entry.capabilities;
    let server = capabilities.server.map(|name| {
        let kind = ServerKind::by_name(name);
        json!({
            "name": name,
            "installed": kind.is_some_and(|kind| kind.find().is_some()),
            "package": kind.map(|kind| kind.package),
        })
    });
    let fixtures = entry
        .fixtures
        .iter()
        .map(|fixture| json!({ "variant": fixture.variant, "url": shown(fixture.url) }));
    let fixtures: Vec<Value> = fixtures.collect();
    let durability: Vec<&str> =
        capabilities.durability.iter().copied().map(Durability::name).collect();
    json!({
        "name": entry.name,
        "sentence": entry.sentence,
        "schemes": entry.schemes,
        "options": options(entry.options),
        "measured_as": fixtures,
        "server": server,
        "capabilities": {
            "persistent": capabilities.persistent_from.is_some(),
            "persistent_from": capabilities.persistent_from.map(Durability::name),
            "shared_by_processes": capabilities.shared_by_processes,
            "shared_by_hosts": capabilities.shared_by_hosts,
            "locking": capabilities.locking.name(),
            "waiting": capabilities.waiting.name(),
            "ownership": capabilities.ownership.name(),
            "expiry": capabilities.expiry.name(),
            "value_bytes_max": capabilities.value_bytes_max,
            "id_bytes_max": capabilities.id_bytes_max,
            "sessions_bounded_by": capabilities.sessions_bounded_by.to_string(),
            "listing": capabilities.listing,
            "durability": durability,
            "https": true,
            "https_note": "the cookie's business: set it Secure, HttpOnly and SameSite",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_line_for_each_store_and_fits_a_terminal() {
        let text = list();
        for entry in STORES {
            let lines = text.lines().filter(|line| line.split(' ').next() == Some(entry.name));
            assert_eq!(lines.count(), 1, "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.lines().count(), STORES.len() + 2, "{text}");
    }

    #[test]
    fn the_detail_of_a_store_has_its_features_and_options() {
        for entry in STORES {
            let text = detail(entry);
            let options = entry.options.iter().all(|it| text.contains(&format!("?{}=", it.name)));
            let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
            assert!(options && words.contains(entry.sentence), "{text}");
            let too_long = text.lines().find(|line| line.chars().count() > COLUMNS);
            assert_eq!(too_long, None, "{text}");
            assert!(
                FEATURES.iter().all(|it| text.contains(&it.title().replace(" *", ""))),
                "{text}"
            );
        }
    }
}
