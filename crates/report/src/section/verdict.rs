//! The verdict: stores for kinds of sites, by the rules of `sessile recommend` and these
//! results.

use maud::{Markup, html};
use sessile_advice::{
    RankedStore, Recommendation, SiteKind, answers, handlers_without_row, shared_notes, site_kinds,
};
use sessile_core::Durability;
use sessile_results::grouping::grouped;
use sessile_results::number::{bytes, count};
use sessile_results::table::{TableCell, bad, right, right_or_empty, text};

use super::prose;
use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::{HtmlCell, HtmlTable};

/// Ranked stores that are shown of each kind of site.
const SHOWN: usize = 3;
const RATE: &str = "requests/s of the store alone";

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    let answers = judged(runs);
    html! {
        p {
            "For each kind of site: the store that these results and what the stores can do speak "
            "for, in the tier that the site needs: where a restart must not log out, at least all "
            "but the last second survives a power cut. A rule never names a store; "
            "what fires is listed below each answer. A server counts as installed if it is on the "
            "measuring machine, which does not say that a site has it: "
            code { "sessile recommend --installed" } " asks."
        }
        p {
            "The figures are of the store alone, asked by a client without an application. "
            "Requests a second are of clients that never wait, so that the processors of the "
            "measuring machine are saturated: they rank stores. The p99 is that of a fixed rate "
            "as high as the site's, where one was measured, the median of its rounds (the tables "
            "of fixed rates are of all rounds together), and is no latency of a page. "
            @for handler in handlers_without_row() { code { (handler) } " " }
            "is not ranked by speed: it lives inside PHP and has no row in "
            code { "cycle" } ", so it stands after those that were measured. "
            code { "sessile bench languages" } " measures it in PHP beside the others, and "
            code { "lifecycle" } " pages over it."
        }
        (overview(&answers, weakest(runs), ids))
        @for (kind, answer) in &answers { (reasons(kind, answer, ids)) }
        (notes(&answers))
    }
}

/// The weakest first.
const ALL: [Durability; 3] = [Durability::None, Durability::Second, Durability::Commit];

/// The best store of each kind of site, in one sentence that says the weakest tier in which it and
/// its ties are judged.
pub(super) fn sentence(runs: &PageReports<'_>) -> Markup {
    let uses = grouped(judged(runs).into_iter().map(|(kind, it)| {
        let ties = it.ranking.iter().filter(|it| it.tied);
        let judged_in: Vec<&str> =
            it.best().into_iter().chain(ties).filter_map(|it| it.tier).collect();
        let weakest = ALL.map(Durability::name).into_iter().find(|tier| judged_in.contains(tier));
        let tier = weakest.unwrap_or(it.site.durability.name());
        ((it.recommended, tier), kind.name)
    }));
    html! {
        @for (number, ((store, tier), kinds)) in uses.iter().enumerate() {
            @if number > 0 { "; " }
            @match store {
                Some(store) => { (begin(number, "use ")) strong { (store) } }
                None => { (begin(number, "no verdict")) }
            }
            " for " (kinds.join(", ")) ", in tier " (tier)
            ", which promises " (in_words(tier))
            @if store.is_none() { " (" code { "--durability " (tier) } " measures that)" }
        }
        "."
    }
}

/// The first word of a sentence is capital.
fn begin(number: usize, words: &str) -> String {
    if number == 0 { super::throughput::capital(words) } else { words.to_owned() }
}

/// The answer to each kind of site, in the weakest tier measured or a stronger one.
fn judged(runs: &PageReports<'_>) -> Vec<(SiteKind, Recommendation)> {
    answers(&site_kinds(&installed(runs), weakest(runs)), runs.reports, runs.stores)
}

/// Servers on the measuring machine, whose versions results name. Nothing says which of them a site
/// has.
fn installed(runs: &PageReports<'_>) -> Vec<String> {
    let servers = runs.stores.iter().filter_map(|entry| entry.capabilities.server);
    let here = |server: &&str| {
        runs.reports.iter().any(|report| report.environment.versions.contains_key(*server))
    };
    servers.filter(here).map(str::to_owned).collect()
}

/// The tier that sites without a need are judged in: the weakest measured.
fn weakest(runs: &PageReports<'_>) -> Durability {
    tiers(runs).first().copied().unwrap_or(Durability::None)
}

/// The weakest first.
pub(super) fn tiers(runs: &PageReports<'_>) -> Vec<Durability> {
    let rows = runs.reports.iter().flat_map(|report| &report.results);
    let names: Vec<&str> = rows
        .filter(|row| row.question.op == "cycle")
        .map(|row| row.question.durability.as_str())
        .collect();
    let measured: Vec<Durability> =
        ALL.into_iter().filter(|tier| names.contains(&tier.name())).collect();
    if measured.is_empty() { vec![Durability::None] } else { measured }
}

/// What a tier promises.
pub(super) fn in_words(tier: &str) -> &'static str {
    match tier {
        "none" => "nothing about a power cut",
        "1s" => "that all but the last second survives a power cut",
        _ => "that every commit survives a power cut",
    }
}

fn overview(answers: &[(SiteKind, Recommendation)], tier: Durability, ids: &ElementIds) -> Markup {
    let columns = ["kind of site", "use", RATE, "p99 in \u{b5}s", "space", "then"];
    let caption = format!("Recommended by kind of site; tier {} or stronger", tier.name());
    let mut table = HtmlTable::new(caption, &columns).wordy();
    for (kind, answer) in answers {
        let name = html! { (kind.name) span.aside { (kind.description) } };
        let best = answer.best();
        let recommended = match best {
            Some(_) => HtmlCell::Rich(html! {
                strong.use { (answer.recommended.as_deref().unwrap_or_default()) }
            }),
            None if answer.question.is_some() => bad("nothing fits").into(),
            None => bad(format!("not measured in tier {}", answer.site.durability.name())).into(),
        };
        table.row(vec![
            HtmlCell::Rich(name),
            recommended,
            best.map_or(TableCell::Empty, rate).into(),
            right_or_empty(best.and_then(RankedStore::p99)).into(),
            right_or_empty(best.map(space)).into(),
            text(answer.next().unwrap_or_default()).into(),
        ]);
    }
    table.draw(ids)
}

fn rate(ranked: &RankedStore) -> TableCell {
    ranked.ops_per_second.map_or(text("not measured"), |rate| right(count(rate)))
}

/// Sessions on a server's disk were weighed by the server's memory only.
fn space(ranked: &RankedStore) -> String {
    let size = bytes(ranked.bytes as f64);
    if ranked.bytes_in == ranked.medium { size } else { format!("{size} of memory") }
}

/// The reasons for one kind of site: its figures, the ranking with the rules, and the excluded
/// stores.
fn reasons(kind: &SiteKind, answer: &Recommendation, ids: &ElementIds) -> Markup {
    let mut table = HtmlTable::new(
        format!("Ranking for: {}", kind.name),
        &["store", "tier", RATE, "rules that fired"],
    )
    .wordy();
    for ranked in answer.ranking.iter().filter(|ranked| !ranked.excluded).take(SHOWN) {
        let rules = html! {
            ul.rules {
                @for fired in &ranked.rules {
                    li {
                        @let effect = fired.effect.name();
                        span class=(format!("rule {effect}")) { (effect) ":" }
                        " " (fired.why) " " code { (fired.rule) }
                    }
                }
            }
        };
        table.row(vec![
            text(ranked.title()).into(),
            text(ranked.tier.unwrap_or_default()).into(),
            rate(ranked).into(),
            HtmlCell::Rich(rules),
        ]);
    }
    html! {
        details {
            summary {
                "Why for " (kind.name)
                @if let Some(stores) = &answer.recommended { ": " strong { (stores) } }
            }
            p.conditions { "Judged as: " (answer.site.to_string()) "." }
            @if !table.is_empty() { (table.draw(ids)) }
            ul.rules {
                @for (rule, stores) in answer.excluded() {
                    li { span.rule.excluded { "excluded:" } " " (stores) " " code { (rule) } }
                }
            }
        }
    }
}

fn notes(answers: &[(SiteKind, Recommendation)]) -> Markup {
    let notes = shared_notes(answers);
    html! {
        @if !notes.is_empty() {
            ul.notes {
                @for (note, of) in &notes {
                    li {
                        @if !of.is_empty() { strong { (of.join(", ")) ": " } }
                        (prose(note.split_once(": ").map_or(note, |(_, note)| note)))
                    }
                }
            }
        }
    }
}
