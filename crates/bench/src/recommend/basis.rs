//! What a ranking rests on, in words: nothing, results that do not fit, or results that were not made alike.
//!
//! It changes no place in the ranking.

use super::candidate::{Question, cycles};
use super::site::Site;
use crate::report::{Report, surroundings};

/// Sentences for the reader, for the question that was chosen.
pub(super) fn basis(site: &Site, question: Option<&Question>, results: &[Report]) -> Vec<String> {
    match question {
        None if results.is_empty() => vec![
            "nothing was measured: this ranks by what the stores declare only. To rank by speed on this machine: \
             sessile bench cycle --json cycle.json, then --results cycle.json"
                .to_owned(),
        ],
        None => {
            let why = why_not_by_speed(site, results);
            vec![format!("not ranked by speed, by what the stores declare only: {why}")]
        }
        Some(question) => made_alike(question, results),
    }
}

fn made_alike(question: &Question, results: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut machines: Vec<(&str, usize, u64)> = Vec::new();
    for report in results.iter().filter(|report| cycles(report).next().is_some()) {
        let machine = &report.environment;
        machines.push((&machine.cpu, machine.cores, machine.memory_bytes));
    }
    machines.sort_unstable();
    machines.dedup();
    if machines.len() > 1 {
        let (count, cpu, cores, gib) =
            (machines.len(), &question.cpu, question.cores, question.memory_bytes as f64 / f64::from(1 << 30));
        notes.push(format!(
            "the results are of {count} machines; ranked by the speed on {cpu}, {cores} processors, {gib:.1} GiB, and by no \
             figure of another"
        ));
    }
    let numbered = results.iter().enumerate().filter(|(_, report)| question.is_answered_by(report));
    let named: Vec<(String, &Report)> =
        numbered.map(|(index, report)| (format!("result {}", index + 1), report)).collect();
    let named: Vec<(&str, &Report)> = named.iter().map(|(name, report)| (name.as_str(), *report)).collect();
    notes.extend(surroundings(&named));
    notes
}

/// Why results cannot be ranked by speed, and which flag would help.
fn why_not_by_speed(site: &Site, results: &[Report]) -> String {
    let tier = site.durability.name();
    let (mut tiers, mut experiments): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut paced = false;
    for report in results {
        for row in &report.results {
            experiments.push(&row.experiment);
        }
        for row in cycles(report).filter(|row| !row.is_bad()) {
            match report.settings.rate {
                Some(_) => paced = true,
                None => tiers.push(&row.durability),
            }
        }
    }
    for words in [&mut tiers, &mut experiments] {
        words.sort_unstable();
        words.dedup();
    }
    match tiers.first() {
        Some(_) if tiers.contains(&tier) && site.is_spread() => format!(
            "the rows of cycle and scale at tier {tier} are of no store that several hosts can share: measure sessile bench \
             cycle --durability {tier} --round-trip 0.3"
        ),
        // They are there, but of reference rows or of stores that are gone.
        Some(_) if tiers.contains(&tier) => format!("the rows of cycle and scale at tier {tier} are of no store"),
        Some(other) => format!(
            "the results are of tier {}, not {tier}: give --durability {other}, or measure sessile bench cycle \
             --durability {tier}",
            tiers.join(", ")
        ),
        None if paced => {
            "at a fixed rate all stores are as fast as the rate: measure sessile bench cycle without --rate".to_owned()
        }
        None => format!(
            "the results have no sound row of cycle or scale (they have: {}): measure sessile bench cycle --durability \
             {tier}",
            if experiments.is_empty() { "nothing".to_owned() } else { experiments.join(", ") }
        ),
    }
}
