//! Recommends a store for a site: a ranking, with the rules that fired.
//!
//! Invariant: neither the order nor a rule names a store. Facts come from the registry and from
//! measured rows, so our stores get no advantage. Nothing is measured here.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for this workspace only: what a name says needs no comment")]

mod anonymous;
mod basis;
mod candidate;
mod large;
mod measured;
mod paced;
mod practices;
mod rules;
mod show;
mod shown_url;
mod site;
mod size;
mod thresholds;

use serde::Serialize;
use sessile_core::Durability;
use sessile_results::Report;
use sessile_results::compare::{are_apart, are_apart_in_pairs};
use sessile_results::grouping::grouped;
use sessile_results::naming;
use sessile_results::number::{count, figure};
use sessile_stores::StoreEntry;

pub use self::candidate::{Candidate, Conditions, SpaceBasis, StorageMedium};
pub use self::large::{
    AcceptedPayload, LargePayloads, LostPayload, MeasuredServer, RefusedPayload,
};
pub use self::measured::{MeasuredFigures, MeasuredSpace, Restarts, SlowSweep};
pub use self::paced::MissedRate;
pub use self::practices::{handler_of_row, handlers_without_row};
pub use self::rules::{RULES, Rule, RuleEffect};
pub use self::show::table;
pub use self::site::{Site, SiteKind, site_kinds};
use self::thresholds::{PAYLOAD_FAR, SESSIONS_ALIKE};
pub use self::thresholds::{THRESHOLDS, Threshold};

/// The recommendation. Its JSON form is a promise.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    pub schema: u32,
    pub site: Site,
    /// The conditions of the compared rows; `None` without suitable results.
    pub question: Option<Conditions>,
    /// The recommended store. `None` if every store is excluded, or if there are results and none
    /// is of the site's tier.
    pub recommended: Option<String>,
    /// All candidates, best first, excluded ones last.
    pub ranking: Vec<RankedStore>,
    /// Why the results may not belong together.
    pub warnings: Vec<String>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RankedStore {
    pub store: &'static str,
    pub variant: &'static str,
    /// Its URL, with `<disk>`, `<shm>` and `<host>` as placeholders.
    pub url: String,
    /// The tier in which it is judged; none if it has none that the site needs.
    pub tier: Option<&'static str>,
    /// Whether the site cannot use it.
    pub excluded: bool,
    /// Whether it will do as well as the recommended one: as few objections, and a speed that the
    /// rounds do not tell from its; or the handler of the same product for another database.
    pub tied: bool,
    /// Locked requests a second.
    pub ops_per_second: Option<f64>,
    /// At the fixed rate `p99_at`, else in the closed loop.
    pub p99_us: Option<f64>,
    /// A rate that it kept up with and that the site does not exceed.
    pub p99_at: Option<f64>,
    pub medium: StorageMedium,
    /// Bytes of all sessions of the site.
    pub bytes: u64,
    /// Where these bytes are; for a server on a disk only memory is measured.
    pub bytes_in: StorageMedium,
    pub bytes_are: SpaceBasis,
    pub rules: Vec<FiredRule>,
    /// Its speed in each round.
    #[serde(skip)]
    rounds: Vec<f64>,
    /// The result in which it took turns with others.
    #[serde(skip)]
    turns_in: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FiredRule {
    pub rule: &'static str,
    pub effect: RuleEffect,
    pub why: String,
}

impl RankedStore {
    pub fn title(&self) -> String {
        naming::title(self.store, self.variant)
    }

    /// The p99 in microseconds, and under which load.
    pub fn p99(&self) -> Option<String> {
        let us = figure(self.p99_us?);
        Some(
            self.p99_at
                .map_or(format!("{us} saturated"), |rate| format!("{us} at {}/s", count(rate))),
        )
    }

    fn count(&self, effect: RuleEffect) -> usize {
        self.rules.iter().filter(|fired| fired.effect == effect).count()
    }

    /// Whether both were measured and have as much against them.
    fn is_rival_of(&self, other: &RankedStore) -> bool {
        let is_measured = |it: &RankedStore| !it.excluded && it.ops_per_second.is_some();
        let objections = |it: &RankedStore| it.count(RuleEffect::Against);
        is_measured(self) && is_measured(other) && objections(self) == objections(other)
    }

    /// Whether the rounds do not tell two rivals apart, with a chance of 5 % for all `comparisons`
    /// together.
    fn is_tied_with(&self, other: &RankedStore, comparisons: usize) -> bool {
        let took_turns = self.turns_in.is_some() && self.turns_in == other.turns_in;
        let are_apart = if took_turns { are_apart_in_pairs } else { are_apart };
        self.is_rival_of(other) && !are_apart(&self.rounds, &other.rounds, comparisons)
    }

    pub fn fired(&self, effect: RuleEffect) -> impl Iterator<Item = &FiredRule> {
        self.rules.iter().filter(move |fired| fired.effect == effect)
    }
}

impl Recommendation {
    pub fn best(&self) -> Option<&RankedStore> {
        self.ranking.first().filter(|_| self.recommended.is_some())
    }

    /// The excluded stores by the first rule that excludes them.
    pub fn excluded(&self) -> Vec<(&'static str, String)> {
        let excluded = self.ranking.iter().filter_map(|ranked| {
            Some((ranked.fired(RuleEffect::Excludes).next()?.rule, ranked.title()))
        });
        grouped(excluded).into_iter().map(|(rule, stores)| (rule, stores.join(", "))).collect()
    }

    /// The two after the best and its ties: `A, B` in order, or `A or B` if nothing orders them.
    pub fn next(&self) -> Option<String> {
        self.best()?;
        let mut others = self.ranking.iter().skip(1).filter(|it| !it.excluded && !it.tied);
        let first = others.next()?;
        let Some(second) = others.next() else { return Some(first.title()) };
        let speeds = (first.ops_per_second, second.ops_per_second);
        let objections = |it: &RankedStore| it.count(RuleEffect::Against);
        let are_alike = objections(first) == objections(second) && speeds == (None, None);
        let word = if are_alike || first.is_tied_with(second, 1) { " or" } else { "," };
        Some(format!("{}{word} {}", first.title(), second.title()))
    }
}

/// The answer to each kind of site.
pub fn answers(
    kinds: &[SiteKind],
    results: &[Report],
    known: &'static [StoreEntry],
) -> Vec<(SiteKind, Recommendation)> {
    let answer = |kind: &SiteKind| (kind.clone(), recommend(&kind.site, results, known));
    kinds.iter().map(answer).collect()
}

/// Warnings, then notes, each once, with the kinds of sites that it is about; none if about all.
pub fn shared_notes(answers: &[(SiteKind, Recommendation)]) -> Vec<(String, Vec<&'static str>)> {
    let told = |sign: &'static str, of: fn(&Recommendation) -> &Vec<String>| {
        answers.iter().flat_map(move |(kind, answer)| {
            of(answer).iter().map(move |text| (format!("{sign}: {text}"), kind.name))
        })
    };
    let warnings = told("warning", |answer| &answer.warnings);
    let mut notes = grouped(warnings.chain(told("note", |answer| &answer.notes)));
    notes.iter_mut().filter(|(_, of)| of.len() == answers.len()).for_each(|(_, of)| of.clear());
    notes
}

/// Ranks all stores for a site, by results or, without them, by capabilities. Sites that a restart
/// must not log out are judged in tier `1s` or a stronger one. `known` are the stores to choose
/// from.
pub fn recommend(site: &Site, results: &[Report], known: &'static [StoreEntry]) -> Recommendation {
    let site = &site.in_its_tier();
    let (candidates, question) = candidate::candidates(site, results, known);
    let mut ranking: Vec<RankedStore> =
        candidates.iter().map(|candidate| rank(site, candidate)).collect();
    ranking.sort_by(|a, b| {
        // Unmeasured stores come after measured ones: their speed is unknown.
        let unmeasured = |it: &RankedStore| question.is_some() && it.ops_per_second.is_none();
        let faults =
            |it: &RankedStore| (it.excluded, unmeasured(it), it.count(RuleEffect::Against));
        let speed = |it: &RankedStore| it.ops_per_second.unwrap_or(0.0);
        let strengths = |it: &RankedStore| it.count(RuleEffect::For);
        faults(a)
            .cmp(&faults(b))
            .then(speed(b).total_cmp(&speed(a)))
            .then(strengths(b).cmp(&strengths(a)))
            .then(a.title().cmp(&b.title()))
    });
    mark_ties(site, &mut ranking);
    let mut notes = basis::basis(site, question.as_ref(), results);
    notes.extend(basis::servers(&candidates));
    notes.extend(of_ranking(site, &ranking, question.as_ref()));
    let is_judged = question.is_some() || results.is_empty();
    let best = ranking.first().filter(|it| is_judged && !it.excluded);
    let ties = ranking.iter().filter(|it| it.tied).map(RankedStore::title);
    let recommended =
        best.map(|best| std::iter::once(best.title()).chain(ties).collect::<Vec<_>>().join(" or "));
    let best =
        best.and_then(|best| candidates.iter().find(|candidate| candidate.title() == best.title()));
    notes.extend(anonymous::saving(site, best, results));
    let warnings = basis::machines(question.as_ref(), results).into_iter().collect();
    Recommendation {
        schema: 1,
        site: site.clone(),
        question,
        recommended,
        ranking,
        warnings,
        notes,
    }
}

/// Compares the best with all of its rivals.
fn mark_ties(site: &Site, ranking: &mut [RankedStore]) {
    let Some((best, others)) = ranking.split_first_mut() else { return };
    let rivals = others.iter().filter(|it| best.is_rival_of(it)).count();
    for it in others {
        it.tied = are_of_database(site, [best, it]) || best.is_tied_with(it, rivals);
    }
}

/// Whether both are handlers of a product for its database, of which it has one: no speed chooses.
fn are_of_database(site: &Site, both: [&RankedStore; 2]) -> bool {
    let [one, other] = both.map(|it| it.count(RuleEffect::Against));
    let is_of_database = |it: &&RankedStore| {
        !it.excluded && it.medium == StorageMedium::ServerDisk && site.comes_with(&it.title())
    };
    one == other && both.iter().all(is_of_database)
}

fn rank(site: &Site, candidate: &Candidate) -> RankedStore {
    let fired = RULES.iter().filter_map(|rule| {
        let why = (rule.fires)(site, candidate)?;
        Some(FiredRule { rule: rule.name, effect: rule.effect, why })
    });
    let rules: Vec<FiredRule> = fired.collect();
    let at_rate = candidate.measured.p99_at_rate;
    let (bytes, bytes_are) = candidate.space(site.sessions, site.payload_bytes);
    RankedStore {
        store: candidate.store,
        variant: candidate.variant,
        url: candidate.url.clone(),
        tier: candidate.tier.map(Durability::name),
        tied: false,
        excluded: rules.iter().any(|fired| fired.effect == RuleEffect::Excludes),
        ops_per_second: candidate.measured.cycles.map(|spread| spread.median),
        p99_us: candidate
            .measured
            .cycles
            .map(|_| at_rate.map_or(candidate.measured.p99_us, |it| it.1)),
        p99_at: at_rate.map(|it| it.0),
        medium: candidate.medium,
        bytes,
        bytes_in: candidate.space_is_in(),
        bytes_are,
        rules,
        rounds: candidate.measured.rounds.clone(),
        turns_in: candidate.measured.turns_in,
    }
}

fn of_ranking(site: &Site, ranking: &[RankedStore], question: Option<&Conditions>) -> Vec<String> {
    let usable = || ranking.iter().filter(|it| !it.excluded);
    let titles = |of: fn(&RankedStore) -> bool| {
        let titles: Vec<String> = usable().filter(|it| of(it)).map(RankedStore::title).collect();
        (!titles.is_empty()).then(|| titles.join(", "))
    };
    let mut notes = Vec::new();
    if let Some(question) = question {
        let unmeasured = titles(|it| it.ops_per_second.is_none());
        notes
            .extend(unmeasured.map(|titles| {
                format!("not measured, so they come after those that are: {titles}")
            }));
        notes.extend(of_question(site, question));
    }
    let ties = ranking
        .first()
        .into_iter()
        .flat_map(|best| ranking.iter().filter(|it| it.tied).map(move |tied| (best, tied)));
    notes.extend(ties.map(|(best, tied)| {
        let (first, other) = (best.title(), tied.title());
        if are_of_database(site, [best, tied]) {
            return format!(
                "{first} or {other}: that of the database which the site has; the figures are \
                 those of {first}"
            );
        }
        format!(
            "the rounds do not tell {other} from {first}: take either, or measure with more \
             --rounds"
        )
    }));
    notes.extend(titles(|it| it.bytes_in != it.medium).map(|titles| {
        format!(
            "the space of {titles} is memory, by which the server has grown; what it takes of the \
             disk was not measured"
        )
    }));
    notes
}

/// Notes on results that were measured under other conditions than the site's.
fn of_question(site: &Site, question: &Conditions) -> Vec<String> {
    let mut notes = Vec::new();
    if site.web_servers > 1 && question.round_trip_us == 0.0 {
        let why = "servers were measured without a network; measure with --round-trip 0.3ms for \
                   several hosts";
        notes.push(why.to_owned());
    }
    let (measured, wanted) = (question.sessions, site.sessions);
    if (measured as u64) < wanted / SESSIONS_ALIKE.value {
        notes.push(format!("measured with {measured} sessions; measure with --sessions {wanted}"));
    }
    let (measured, wanted) = (question.payload_bytes, site.payload_bytes);
    if (measured as u64) <= wanted / PAYLOAD_FAR.value {
        notes.push(format!(
            "measured with {measured} bytes a session; measure with --payload {wanted}"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a store of this speed that scatter by 3 %.
    fn rounds(random: &mut fastrand::Rng, speed: f64) -> Vec<f64> {
        let scatter = |random: &mut fastrand::Rng| {
            (0..12).map(|_| random.f64()).sum::<f64>() - 6.0 // nearly normal
        };
        (0..5).map(|_| speed * (1.0 + 0.03 * scatter(random))).collect()
    }

    /// Of many comparisons of equal stores each had its chance of 5 % to find a difference.
    #[test]
    fn among_ten_equal_stores_one_is_told_apart_in_one_of_twenty_runs_at_most() {
        for test in [are_apart_in_pairs, are_apart] {
            let mut random = fastrand::Rng::with_seed(1);
            let mut told = |others: usize, corrected: usize, slower: f64| {
                let any_is_apart = |_: &usize| {
                    let best = rounds(&mut random, 1_000.0);
                    (0..others)
                        .map(|_| test(&best, &rounds(&mut random, slower), corrected))
                        .fold(false, |any, apart| any | apart)
                };
                (0..500).filter(any_is_apart).count()
            };
            let (together, each) = (told(9, 9, 1_000.0), told(9, 1, 1_000.0));
            assert!(together <= 25, "{together} of 500");
            assert!(each > 60, "without the correction {each} of 500");
            assert!(told(1, 9, 500.0) > 450, "twice as fast is seen");
        }
    }
}
