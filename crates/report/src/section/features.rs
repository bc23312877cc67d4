//! The feature table: what each store declares, and which of it is tested.

use maud::{Markup, html};
use sessile_bench::report::table::text;
use sessile_stores::feature_table::{FEATURES, LEGEND};
use sessile_stores::registry::STORES;

use crate::ids::ElementIds;
use crate::table::{HtmlCell, HtmlTable};

pub(super) fn body(ids: &ElementIds) -> Markup {
    let names: Vec<&str> =
        std::iter::once("feature").chain(STORES.iter().map(|entry| entry.name)).collect();
    let mut table = HtmlTable::new(format!("What each store declares. {LEGEND}"), &names).wordy();
    for feature in FEATURES {
        let cells = STORES.iter().map(|entry| HtmlCell::Rich(marked(&feature.cell(entry))));
        table.row(std::iter::once(text(feature.title()).into()).chain(cells).collect());
    }
    html! {
        (table.draw(ids))
        details {
            summary { "Each store in a sentence" }
            dl { @for entry in STORES { dt { code { (entry.name) } } dd { (entry.sentence) } } }
        }
    }
}

fn marked(cell: &str) -> Markup {
    html! {
        @for (number, part) in cell.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
