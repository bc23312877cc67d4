//! The pages of `sessile serve`: an overview with charts, `check` and `doctor`.
//!
//! Invariants: no page has a script; every text that comes from a store passes [`escaped`]; a
//! session is shown as a digest.

use std::fmt::Write;

use sessile_core::{SharedCounts, Verified};
use sessile_doctor::Report;

use crate::chart::chart;
use crate::history::History;
use crate::sample::{LOCKS_SHOWN_MAX, Sample, detail_text, how_many, session_digest};
use crate::style::STYLE;
use crate::units::{bytes, seconds, short};

const PROBLEMS_SHOWN_MAX: usize = 100;

/// Text of a store in a page.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

fn page(title: &str, label: &str, body: &str) -> String {
    let label = escaped(label);
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title} - {label}</title><style>\
         {STYLE}</style></head><body><header><h1>{label}</h1><nav aria-label=\"Pages\"><a \
         href=\"./\">Overview</a><a href=\"./?still\">Overview, standing still</a><a \
         href=\"locks\">Locks</a><a href=\"check\">Check</a><a href=\"doctor\">Doctor</a></nav>\
         </header><main>{body}</main></body></html>"
    )
}

/// The overview.
pub fn overview(history: &History) -> String {
    let Some(sample) = history.last() else {
        return page("Overview", "", "<p>There is no sample of the store yet.</p>");
    };
    let mut body = String::new();
    if let Some(error) = &sample.error {
        let _ = write!(body, "<p class=\"critical\">{}</p>", escaped(error));
    }
    let per_second = |value: f64| format!("{}/s", short(value));
    let rate =
        |of: fn(&SharedCounts) -> u64| history.rates(|sample| sample.counts.as_ref().map(of));
    let _ = write!(body, "<h2>The last hour</h2><div class=\"charts\">");
    if sample.counts.is_some() {
        for (title, points) in [
            ("Requests", rate(|counts| counts.requests)),
            ("Hits", rate(|counts| counts.hits)),
            ("Commits", rate(|counts| counts.commits)),
            ("Failed saves", rate(|counts| counts.failed_saves)),
            ("Lock waits", rate(|counts| counts.lock_waits)),
        ] {
            body.push_str(&chart(title, &points, per_second));
        }
        let waited = rate(|counts| counts.lock_wait_us);
        let waited: Vec<_> = waited.into_iter().map(|(at, us)| (at, us / 1e6)).collect();
        body.push_str(&chart("Waiting requests, on average", &waited, short));
    }
    let stat = |of: fn(&sessile_core::Stat) -> u64| {
        history.values(|sample| sample.stat.as_ref().map(|stat| of(stat) as f64))
    };
    if sample.stat.is_some() {
        body.push_str(&chart("Sessions", &stat(|stat| stat.sessions), short));
        body.push_str(&chart("Payloads", &stat(|stat| stat.payload_bytes), bytes));
        body.push_str(&chart("Expired, not removed", &stat(|stat| stat.expired), short));
    }
    body.push_str("</div>");
    add_facts(&mut body, sample);
    page("Overview", &sample.label, &body)
}

fn add_facts(body: &mut String, sample: &Sample) {
    let mut rows: Vec<[String; 2]> = Vec::new();
    if let Some(counts) = sample.counts {
        let us = |us: u64| seconds(us as f64 / 1e6);
        rows.extend([
            ["requests".into(), short(counts.requests as f64)],
            ["failed saves".into(), short(counts.failed_saves as f64)],
            ["longest wait for a lock".into(), us(counts.lock_wait_us_max)],
        ]);
    }
    if let Some(oldest) = sample.stat.and_then(|stat| stat.oldest_written) {
        rows.push(["oldest write".into(), seconds(sample.at.since(oldest).as_secs_f64()) + " ago"]);
    }
    rows.extend(
        sample.details.iter().map(|(name, detail)| [name.replace('_', " "), detail_text(detail)]),
    );
    let _ = write!(body, "<h2>Now</h2>{}", table("Facts", ["fact", "value"], rows));
}

fn table<const N: usize>(
    name: &str,
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let mut table = format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><table><thead>\
         <tr>{heads}</tr></thead><tbody>"
    );
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        let _ = write!(table, "<tr>{cells}</tr>");
    }
    table + "</tbody></table></div>"
}

/// The locks that are held.
pub fn locks(sample: &Sample) -> String {
    let Some(locks) = &sample.locks else {
        let why = sample.error.as_deref().unwrap_or("This store cannot list its locks.");
        return page("Locks", &sample.label, &format!("<p>{}</p>", escaped(why)));
    };
    let rows = locks.iter().take(LOCKS_SHOWN_MAX).map(|lock| {
        let holder = &lock.holder;
        let pid = holder.pid.map_or("unknown".to_owned(), |pid| pid.to_string());
        let held = holder.since.map(|since| seconds(sample.locks_at.since(since).as_secs_f64()));
        [
            session_digest(lock.key.as_ref()),
            pid,
            holder.host.clone().unwrap_or_default(),
            held.unwrap_or_default(),
            if lock.has_waiters == Some(true) { "yes".to_owned() } else { String::new() },
        ]
    });
    let table = table("Locks", ["session", "pid", "host", "held for", "others wait"], rows);
    let shown = match locks.len() {
        0..=LOCKS_SHOWN_MAX => String::new(),
        _ => format!(", the {LOCKS_SHOWN_MAX} that are held longest"),
    };
    let table = if locks.is_empty() { String::new() } else { table };
    let body = format!("<h2>Locks held: {}{shown}</h2>{table}", how_many(locks));
    page("Locks", &sample.label, &body)
}

/// Before the first result of `check` or `doctor`.
pub fn running(title: &str, label: &str) -> String {
    page(title, label, &format!("<h2>{title}</h2><p>Running. The result will show here.</p>"))
}

/// The result of `check`.
pub fn checked(label: &str, result: &sessile_core::Result<Verified>) -> String {
    let body = match result {
        Err(error) => format!("<p>{}</p>", escaped(&format!("{error:#}"))),
        Ok(verified) => {
            let found = verified.problems.len() as u64 + verified.unlisted;
            let class = if found == 0 { "pale" } else { "critical" };
            let shown = verified.problems.iter().take(PROBLEMS_SHOWN_MAX);
            let list: String =
                shown.map(|problem| format!("<li>{}</li>", escaped(problem))).collect();
            format!(
                "<p class=\"{class}\">{} checked, {found} problems</p><ul>{list}</ul>",
                verified.checked
            )
        }
    };
    page("Check", label, &format!("<h2>Check</h2>{body}"))
}

/// The result of `doctor`.
pub fn examined(label: &str, result: &sessile_core::Result<Report>) -> String {
    let body = match result {
        Err(error) => format!("<p>{}</p>", escaped(&format!("{error:#}"))),
        Ok(report) if report.findings.is_empty() => "<p>No findings.</p>".to_owned(),
        Ok(report) => report
            .findings
            .iter()
            .map(|finding| {
                let severity = finding.severity.name();
                format!(
                    "<p><span class=\"{severity}\">{severity}</span> {}: {}. Fix: {}</p>",
                    escaped(&finding.what),
                    escaped(&finding.why),
                    escaped(&finding.fix)
                )
            })
            .collect(),
    };
    page("Doctor", label, &format!("<h2>Doctor</h2>{body}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use sessile_core::{Detail, HeldLock, Holder, Key};

    const HOSTILE: &str = "<script>alert(1)</script>\"'&";

    #[test]
    fn nothing_of_a_store_becomes_an_element_or_ends_an_attribute() {
        let key = Some(Key::session("secret1234567890").unwrap());
        let holder = Holder { host: Some(HOSTILE.into()), ..Holder::default() };
        let sample = Sample {
            label: format!("files:/{HOSTILE}"),
            error: Some(HOSTILE.into()),
            details: vec![("lock", Detail::Text(HOSTILE.into()))],
            locks: Some(vec![HeldLock { key, holder, has_waiters: None }]),
            ..Sample::default()
        };
        let mut history = History::default();
        history.push(sample.clone());
        let problems = Verified { problems: vec![HOSTILE.into()], ..Verified::default() };
        for page in [overview(&history), locks(&sample), checked(HOSTILE, &Ok(problems))] {
            assert!(!page.contains("<script") && !page.contains("secret"), "{page}");
            assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
        }
    }
}
