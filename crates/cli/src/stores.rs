//! `sessile stores`: the feature table and the URL options, from the registry.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};
use sessile_core::Durability;
use sessile_fixtures::ServerKind;
use sessile_stores::StoreEntry;
use sessile_stores::feature_table::{FEATURES, LEGEND};
use sessile_stores::registry::{COMMON_OPTIONS, STORES};

use crate::arguments::StoresArguments;
use crate::command_result::CommandResult;

pub fn run(arguments: &StoresArguments) -> CommandResult {
    if arguments.json {
        println!("{:#}", as_json());
    } else {
        print!("{}", as_text());
    }
    Ok(())
}

fn as_text() -> String {
    let mut text = format!("{}\n\n{LEGEND}\n", features());
    for entry in STORES {
        text.push_str(&format!("\n{}: {}\n", entry.name, entry.sentence));
        if let Some(kind) = entry.capabilities.server.and_then(ServerKind::by_name) {
            let state = match kind.find() {
                Some(_) => "is installed".to_owned(),
                None => {
                    format!("is not installed (Debian package {})", kind.package)
                }
            };
            text.push_str(&format!("  {} {state}\n", kind.name));
        }
        for fixture in entry.fixtures {
            text.push_str(&format!("  measured as {}\n", shown(fixture.url)));
        }
        for option in entry.options {
            text.push_str(&format!("  ?{}=  {}\n", option.name, option.help));
        }
    }
    text.push_str("\nevery store\n");
    for option in COMMON_OPTIONS {
        text.push_str(&format!("  ?{}=  {}\n", option.name, option.help));
    }
    text
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
