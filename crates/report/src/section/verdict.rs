//! The verdict: what fits five kinds of sites, by the rules of `sessile recommend` and by these results.

use maud::{Markup, html};
use sessile_bench::recommend::{Effect, Kind, Ranked, Recommendation, kinds, recommend};
use sessile_core::Durability;
use sessile_stores::registry::STORES;

use super::prose;
use crate::ids::Ids;
use crate::number::{bytes, count, figure};
use crate::runs::Runs;
use crate::table::{Cell, Table, right, text};

pub(super) fn body(runs: &Runs<'_>, ids: &Ids) -> Markup {
    let installed = installed(runs);
    let tiers = tiers(runs);
    html! {
        p {
            "For each kind of site: the store that these results and what the stores can do speak for. A rule never names a store; "
            "what fires is listed below each answer."
        }
        @for tier in &tiers {
            @let answers = answers(runs, &installed, *tier);
            @if tiers.len() > 1 { h3 { "What must survive a power cut: " (in_words(*tier)) } }
            (overview(&answers, *tier, ids))
            @for (kind, answer) in &answers { (reasons(kind, answer, ids)) }
            (notes(&answers))
        }
    }
}

fn answers(runs: &Runs<'_>, installed: &[String], tier: Durability) -> Vec<(Kind, Recommendation)> {
    let kinds = kinds(installed, tier).into_iter();
    kinds.map(|kind| (kind.clone(), recommend(&kind.site, runs.reports))).collect()
}

/// Servers that were there when it was measured: results name their versions.
fn installed(runs: &Runs<'_>) -> Vec<String> {
    let servers = STORES.iter().filter_map(|entry| entry.capabilities.server);
    let here = |server: &&str| runs.reports.iter().any(|report| report.environment.versions.contains_key(*server));
    servers.filter(here).map(str::to_owned).collect()
}

/// The tiers that cycles were measured in, the weakest first.
fn tiers(runs: &Runs<'_>) -> Vec<Durability> {
    let rows = runs.reports.iter().flat_map(|report| &report.results);
    let names: Vec<&str> = rows.filter(|row| row.op == "cycle").map(|row| row.durability.as_str()).collect();
    let all = [Durability::None, Durability::Second, Durability::Commit];
    let measured: Vec<Durability> = all.into_iter().filter(|tier| names.contains(&tier.name())).collect();
    if measured.is_empty() { vec![Durability::None] } else { measured }
}

fn in_words(tier: Durability) -> &'static str {
    match tier.name() {
        "none" => "nothing",
        "1s" => "all but the last second",
        _ => "every commit",
    }
}

fn overview(answers: &[(Kind, Recommendation)], tier: Durability, ids: &Ids) -> Markup {
    let columns = ["kind of site", "use", "requests/s", "p99 in \u{b5}s", "space", "then"];
    let caption = format!("Recommended by kind of site; tier {}", tier.name());
    let mut table = Table::new(caption, &columns).wordy();
    for (kind, answer) in answers {
        let name = html! { (kind.name) span.aside { (kind.sentence) } };
        let mut cells = vec![Cell::Rich(name)];
        match answer.best() {
            None => cells.extend([Cell::Bad("nothing fits".to_owned()), Cell::Empty, Cell::Empty, Cell::Empty]),
            Some(best) => cells.extend([
                Cell::Rich(html! { strong.use { (best.title()) } }),
                best.ops_per_second.map_or(text("not measured"), |rate| right(count(rate))),
                best.p99_us.map_or(Cell::Empty, |us| right(figure(us))),
                right(space(best)),
            ]),
        }
        let next: Vec<String> = usable(answer).skip(1).take(2).map(Ranked::title).collect();
        cells.push(text(next.join(", ")));
        table.row(cells);
    }
    table.draw(ids)
}

/// The sessions of one on a server's disk were weighed by the memory of the server only.
fn space(ranked: &Ranked) -> String {
    let size = bytes(ranked.bytes as f64);
    if ranked.bytes_in == ranked.medium { size } else { format!("{size} of memory") }
}

fn usable(answer: &Recommendation) -> impl Iterator<Item = &Ranked> {
    answer.ranking.iter().filter(|ranked| !ranked.excluded)
}

/// Why, for one kind of site: the figures that it was judged by, the ranking with its rules, and the excluded.
fn reasons(kind: &Kind, answer: &Recommendation, ids: &Ids) -> Markup {
    let mut table =
        Table::new(format!("Ranking for: {}", kind.name), &["store", "requests/s", "rules that fired"]).wordy();
    for ranked in &answer.ranking {
        let rules = html! {
            ul.rules {
                @for fired in &ranked.rules {
                    // Of one that cannot be used the rest does not matter.
                    @if !ranked.excluded || fired.effect == Effect::Excludes {
                        li { span class=(format!("rule {}", class(fired.effect))) { (sign(fired.effect)) } " " (fired.why) " " code { (fired.rule) } }
                    }
                }
            }
        };
        let rate = ranked.ops_per_second.map_or(text("not measured"), |rate| right(count(rate)));
        table.row(vec![text(ranked.title()), rate, Cell::Rich(rules)]);
    }
    html! {
        details {
            summary {
                "Why for " (kind.name)
                @if let Some(best) = answer.best() { ": " strong { (best.title()) } }
            }
            p.conditions { "Judged as: " (kind.site.to_string()) "." }
            (table.draw(ids))
        }
    }
}

fn class(effect: Effect) -> &'static str {
    match effect {
        Effect::Excludes => "excludes",
        Effect::Against => "against",
        Effect::For => "for",
        Effect::Note => "note",
    }
}

fn sign(effect: Effect) -> &'static str {
    match effect {
        Effect::Excludes => "excluded:",
        Effect::Against => "against:",
        Effect::For => "for:",
        Effect::Note => "note:",
    }
}

/// What the reader should know of it, warnings first, each once.
fn notes(answers: &[(Kind, Recommendation)]) -> Markup {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for (kind, answer) in answers {
        for note in answer.warnings.iter().chain(&answer.notes) {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, of)) => of.push(kind.name),
                None => notes.push((note, vec![kind.name])),
            }
        }
    }
    html! {
        @if !notes.is_empty() {
            ul.notes {
                @for (note, of) in &notes {
                    li { @if of.len() < answers.len() { strong { (of.join(", ")) ": " } } (prose(note)) }
                }
            }
        }
    }
}
