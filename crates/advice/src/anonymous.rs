//! What lazy start of sessions saves for a site with anonymous visitors.
//!
//! Invariant: the saving was counted for one handler with and without lazy start, in one result. It
//! does not change the ranking: fewer sessions help every store.

use sessile_results::{Report, Row, Visitors};

use crate::candidate::Candidate;
use crate::site::Site;

const MIB: f64 = (1 << 20) as f64;

/// The note for a site with anonymous visitors; `best` is the recommended store.
pub(crate) fn saving(site: &Site, best: Option<&Candidate>, results: &[Report]) -> Option<String> {
    let (all, others) = (site.sessions, site.sessions_with_lazy_start());
    if others >= all {
        return None;
    }
    let mut text = format!(
        "start a session only when there is something to keep: {others} of {all} sessions remain"
    );
    if let Some(best) = best {
        let [less, more] =
            [others, all].map(|sessions| best.space(sessions, site.payload_bytes).0 as f64 / MIB);
        text.push_str(&format!(", in {} {less:.1} MiB in place of {more:.1} MiB", best.title()));
    }
    if let Some((title, with, without)) = counted(results) {
        let Visitors { visitors, storing, .. } = with;
        let [kept, kept_without] = [with, without].map(|it| it.records.unwrap_or(0));
        text.push_str(&format!(
            "; measured: of {visitors} visitors, of whom {storing} stored something, {title} kept \
             {kept} records with lazy start and {kept_without} without"
        ));
    }
    Some(text)
}

/// The largest measurement of one handler with and without lazy start, with equal numbers of
/// visitors.
fn counted(results: &[Report]) -> Option<(String, Visitors, Visitors)> {
    let mut pairs = Vec::new();
    for report in results {
        let rows =
            report.results.iter().filter(|row| row.question.is_of_visitors() && !row.is_bad());
        let lazy: Vec<(&Row, &Visitors)> =
            rows.filter_map(|row| Some((row, row.visitors()?))).collect();
        for (row, with) in lazy.iter().filter(|(_, visitors)| visitors.lazy_start == Some(true)) {
            let same = |(other, without): &&(&Row, &Visitors)| {
                other.subject.title() == row.subject.title()
                    && without.lazy_start == Some(false)
                    && without.visitors == with.visitors
            };
            if let Some((_, without)) = lazy.iter().find(same).filter(|_| with.records.is_some()) {
                pairs.extend(without.records.map(|_| (row.subject.title(), **with, **without)));
            }
        }
    }
    // Of equals the first.
    pairs.into_iter().rev().max_by_key(|(_, with, _)| with.visitors)
}
