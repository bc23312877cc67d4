//! The feature table: what each store declares, and which of it is tested.

use maud::{Markup, html};
use sessile_results::table::text;
use sessile_stores::StoreEntry;
use sessile_stores::feature_table::{FEATURES, LEGEND};

use crate::ids::ElementIds;
use crate::table::{HtmlCell, HtmlTable};

pub(super) fn body(stores: &[StoreEntry], ids: &ElementIds) -> Markup {
    let names: Vec<&str> =
        std::iter::once("feature").chain(stores.iter().map(|entry| entry.name)).collect();
    let mut table = HtmlTable::new(format!("What each store declares. {LEGEND}"), &names).wordy();
    for feature in FEATURES {
        let cells = stores.iter().map(|entry| HtmlCell::Rich(marked(&feature.cell(entry))));
        table.row(std::iter::once(text(feature.title()).into()).chain(cells).collect());
    }
    html! {
        (table.draw(ids))
        details {
            summary { "Each store in a sentence" }
            dl { @for entry in stores { dt { code { (entry.name) } } dd { (entry.sentence) } } }
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
