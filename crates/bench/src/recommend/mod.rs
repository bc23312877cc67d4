//! Which store for a site: a ranking, with the rules that fired.
//!
//! It owns one invariant: no store is named in the order or in a rule; what is known of one comes from the registry
//! and from measured rows, so that ours wins nothing by being ours. It measures nothing.

mod anonymous;
mod basis;
mod candidate;
mod large;
mod measured;
mod paced;
mod rules;
mod show;
mod shown_url;
mod site;
mod size;
mod thresholds;

use serde::Serialize;

pub use self::candidate::{Candidate, Medium, Question, SpaceBasis};
pub use self::large::{Large, Lost, Refused, Taken};
pub use self::measured::{Footprint, Measured, RestartLoss, Sweep};
pub use self::paced::FellBehind;
pub use self::rules::{Effect, RULES, Rule};
pub use self::show::table;
pub use self::site::{Kind, Site, kinds};
use self::thresholds::{PAYLOAD_FAR, SESSIONS_ALIKE};
pub use self::thresholds::{THRESHOLDS, Threshold};
use crate::naming;
use crate::report::Report;

/// The recommendation. Its JSON form is a promise.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// Version of this shape.
    pub schema: u32,
    /// What was asked.
    pub site: Site,
    /// The rows that speed was taken from; without results nothing.
    pub question: Option<Question>,
    /// All candidates, the best first, those that are excluded at the end.
    pub ranking: Vec<Ranked>,
    /// Why the results may not be meant to be looked at together.
    pub warnings: Vec<String>,
    /// What the reader should know before believing it.
    pub notes: Vec<String>,
}

/// One candidate in its place.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The registry name.
    pub store: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// How its URL looks; `<disk>`, `<shm>` and `<host>` stand for places.
    pub url: String,
    /// It cannot be used there.
    pub excluded: bool,
    /// Locked requests a second.
    pub ops_per_second: Option<f64>,
    /// Their 99th percentile in microseconds.
    pub p99_us: Option<f64>,
    /// Where the sessions lie.
    pub medium: Medium,
    /// What all sessions of the site take, and where that is.
    pub bytes: u64,
    /// Where these bytes are: not always where the sessions lie, as of a server on a disk only the memory is measured.
    pub bytes_in: Medium,
    /// What that rests on.
    pub bytes_are: SpaceBasis,
    /// The rules that fired.
    pub rules: Vec<Fired>,
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fired {
    /// Its name.
    pub rule: &'static str,
    /// What it does.
    pub effect: Effect,
    /// Why.
    pub why: String,
}

impl Ranked {
    /// Name and variant as one word.
    pub fn title(&self) -> String {
        naming::title(self.store, self.variant)
    }

    fn count(&self, effect: Effect) -> usize {
        self.rules.iter().filter(|fired| fired.effect == effect).count()
    }

    /// The rules of one effect.
    pub fn fired(&self, effect: Effect) -> impl Iterator<Item = &Fired> {
        self.rules.iter().filter(move |fired| fired.effect == effect)
    }
}

impl Recommendation {
    /// What is recommended, if anything can be used at all.
    pub fn best(&self) -> Option<&Ranked> {
        self.ranking.first().filter(|ranked| !ranked.excluded)
    }
}

/// Ranks all stores for a site by what results say of them, or without results by what they can.
pub fn recommend(site: &Site, results: &[Report]) -> Recommendation {
    let (candidates, question) = candidate::all(site, results);
    let mut ranking: Vec<Ranked> = candidates.iter().map(|candidate| judge(site, candidate)).collect();
    ranking.sort_by(|a, b| {
        // What was not measured comes after what was, whatever speaks against that: nobody knows.
        let unmeasured = |it: &Ranked| question.is_some() && it.ops_per_second.is_none();
        let faults = |it: &Ranked| (it.excluded, unmeasured(it), it.count(Effect::Against));
        let speed = |it: &Ranked| it.ops_per_second.unwrap_or(0.0);
        let strengths = |it: &Ranked| it.count(Effect::For);
        faults(a)
            .cmp(&faults(b))
            .then(speed(b).total_cmp(&speed(a)))
            .then(strengths(b).cmp(&strengths(a)))
            .then(a.title().cmp(&b.title()))
    });
    let mut notes = basis::basis(site, question.as_ref(), results);
    notes.extend(of_ranking(site, &candidates, &ranking, question.as_ref()));
    let best = ranking.first().filter(|it| !it.excluded);
    let best = best.and_then(|best| candidates.iter().find(|candidate| candidate.title() == best.title()));
    notes.extend(anonymous::saving(site, best, results));
    let warnings = basis::machines(question.as_ref(), results).into_iter().collect();
    Recommendation { schema: 1, site: site.clone(), question, ranking, warnings, notes }
}

fn judge(site: &Site, candidate: &Candidate) -> Ranked {
    let fired = RULES.iter().filter_map(|rule| {
        let why = (rule.fires)(site, candidate)?;
        Some(Fired { rule: rule.name, effect: rule.effect, why })
    });
    let rules: Vec<Fired> = fired.collect();
    let (bytes, bytes_are) = candidate.space(site.sessions, site.payload_bytes);
    Ranked {
        store: candidate.store,
        variant: candidate.variant,
        url: candidate.url.clone(),
        excluded: rules.iter().any(|fired| fired.effect == Effect::Excludes),
        ops_per_second: candidate.measured.cycles.map(|spread| spread.median),
        p99_us: candidate.measured.cycles.map(|_| candidate.measured.p99_us),
        medium: candidate.medium,
        bytes,
        bytes_in: candidate.space_is_in(),
        bytes_are,
        rules,
    }
}

fn of_ranking(site: &Site, candidates: &[Candidate], ranking: &[Ranked], question: Option<&Question>) -> Vec<String> {
    let mut notes = question.map(|question| of_question(site, question, candidates, ranking)).unwrap_or_default();
    let on_disk = ranking.iter().filter(|it| !it.excluded && it.bytes_in != it.medium).map(Ranked::title);
    let on_disk: Vec<String> = on_disk.collect();
    if !on_disk.is_empty() {
        let titles = on_disk.join(", ");
        notes.push(format!(
            "the space of {titles} is memory, by which the server has grown; what it takes of the disk was not measured"
        ));
    }
    notes
}

fn of_question(site: &Site, question: &Question, candidates: &[Candidate], ranking: &[Ranked]) -> Vec<String> {
    let mut notes = Vec::new();
    let unmeasured: Vec<String> =
        ranking.iter().filter(|it| !it.excluded && it.ops_per_second.is_none()).map(Ranked::title).collect();
    if !unmeasured.is_empty() {
        notes.push(format!("not measured, so they come after those that are: {}", unmeasured.join(", ")));
    }
    if site.web_servers > 1 && question.round_trip_us == 0.0 {
        notes.push(
            "servers were measured without a network; measure with --round-trip 0.3 for several hosts".to_owned(),
        );
    }
    if (question.sessions as u64) < site.sessions / SESSIONS_ALIKE.value {
        let (measured, wanted) = (question.sessions, site.sessions);
        notes.push(format!("measured with {measured} sessions; measure with --sessions {wanted}"));
    }
    if (question.payload_bytes as u64) <= site.payload_bytes / PAYLOAD_FAR.value {
        let (measured, wanted) = (question.payload_bytes, site.payload_bytes);
        notes.push(format!("measured with {measured} bytes a session; measure with --payload {wanted}"));
    }
    let usable = ranking.iter().filter(|it| !it.excluded && it.ops_per_second.is_some());
    if let [first, second] = usable.take(2).collect::<Vec<&Ranked>>().as_slice() {
        let spread = |it: &Ranked| {
            let candidate = candidates.iter().find(|candidate| candidate.title() == it.title());
            candidate.and_then(|candidate| candidate.measured.cycles).unwrap_or_default()
        };
        let (a, b) = (spread(first), spread(second));
        if a.low <= b.high && b.low <= a.high && first.count(Effect::Against) == second.count(Effect::Against) {
            let (first, second) = (first.title(), second.title());
            notes.push(format!("{first} and {second} differ by less than their rounds do: either will do"));
        }
    }
    notes
}
