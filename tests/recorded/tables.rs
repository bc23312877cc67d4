//! The tables as Markdown. A figure that the record lacks fails the test, with its name.

pub mod gc;

use sessile_results::{Collection, Report};
use sessile_results::{Row, SaveOutcome};
/// The report of an experiment in the form of these flags.
fn run<'a>(record: &'a Collection, experiment: &str, flags: &str) -> &'a Report {
    let this = |run: &&Report| run.experiment() == Some(experiment) && run.flags() == flags;
    record
        .runs
        .iter()
        .find(this)
        .unwrap_or_else(|| panic!("the record has no {experiment} {flags}"))
}

fn row<'a>(run: &'a Report, title: &str, op: &str, workers: usize) -> &'a Row {
    let this = |row: &&Row| {
        row.subject.title() == title && row.question.op == op && row.question.workers == workers
    };
    run.results
        .iter()
        .find(this)
        .unwrap_or_else(|| panic!("the record has no {title} {op} at {workers}"))
}

/// The distinct titles of rows with this operation, in their order.
fn titles(run: &Report, op: &str) -> Vec<String> {
    let mut titles: Vec<String> = run
        .results
        .iter()
        .filter(|row| row.question.op == op)
        .map(|row| row.subject.title())
        .collect();
    let mut seen = std::collections::HashSet::new();
    titles.retain(|title| seen.insert(title.clone()));
    titles
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule = line(&vec!["---".to_owned(); head.len()]);
    let rows: String = rows.into_iter().map(|cells| line(&cells)).collect();
    format!("{}{rule}{rows}", line(&head))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let length = digits.len();
    let comma = |(at, digit): (usize, char)| {
        let comma = at > 0 && (length - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// Three significant digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => grouped(value),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// `bench cycle`: stores inside the process, then stores behind a socket.
pub fn cycle(record: &Collection) -> String {
    let run = run(record, "cycle", "");
    let headed = |kind: &str, heading: &str| {
        let here = titles(run, "cycle")
            .into_iter()
            .filter(|title| row(run, title, "cycle", 1).subject.kind == kind);
        let rows = here.map(|title| {
            let (one, eight) = (
                row(run, &title, "cycle", 1),
                run.results
                    .iter()
                    .find(|row| row.subject.title() == title && row.question.workers == 8),
            );
            let rates = [Some(one), eight].map(|row| row.map_or("-".to_owned(), with_range));
            let [one_rate, eight_rate] = rates;
            let p999 = |row: &Row| figure(row.figures.latency_us.p999);
            let (p50, tail) =
                (figure(one.figures.latency_us.p50), eight.map_or("-".to_owned(), p999));
            vec![
                code(&title),
                one_rate,
                p50,
                p999(one),
                eight_rate,
                tail,
                grouped(one.figures.bytes_per_session as f64),
            ]
        });
        table(
            &[
                heading,
                "1 process: a second",
                "p50 us",
                "p99.9 us",
                "8 processes: a second",
                "p99.9 us",
                "bytes each",
            ],
            rows,
        )
    };
    let first = row(run, "sessile", "cycle", 1);
    let measured = format!(
        "{} sessions of {} bytes, {} rounds of {} s, durability {}, {}, {} cores, which servers \
         share with their clients. \
         In brackets the slowest and the fastest round.",
        grouped(first.question.sessions as f64),
        grouped(first.question.payload_bytes as f64),
        first.figures.rounds,
        run.settings.seconds,
        first.question.durability,
        run.environment.cpu,
        run.environment.cores,
    );
    let (embedded, socket) =
        (headed("embedded", "in the process"), headed("socket", "over a unix socket"));
    format!("\n{measured}\n\n{embedded}\n{socket}\n")
}

/// `bench cycle` in the engine's own tier, with eight processes.
pub fn default_tier(record: &Collection) -> String {
    let in_the_tier = |run: &&Report| {
        run.experiment() == Some("cycle")
            && run.settings.rate.is_none()
            && run.results.iter().all(|row| row.question.durability == "1s")
    };
    let run = record.runs.iter().find(in_the_tier).unwrap();
    let mut stores = titles(run, "cycle");
    stores.sort_by_key(|title| {
        std::cmp::Reverse(row(run, title, "cycle", 8).figures.ops_per_second.median as u64)
    });
    let rows = stores.iter().map(|title| {
        let row = row(run, title, "cycle", 8);
        let [p50, p999] = [row.figures.latency_us.p50, row.figures.latency_us.p999].map(figure);
        vec![code(title), with_range(row), p50, p999]
    });
    table(&["row", "requests a second", "p50 us", "p99.9 us"], rows)
}

/// The median of the rounds, with their range.
fn with_range(row: &Row) -> String {
    let rate = row.figures.ops_per_second;
    format!("{} ({} to {})", grouped(rate.median), grouped(rate.low), grouped(rate.high))
}

/// Source A: pages per second by the number of parallel requests.
pub fn pages(record: &Collection) -> String {
    let run = run(record, "lifecycle", "");
    let parallel = [4, 8, 16, 32];
    let published = [
        ("source A: WinCache", ["927", "1,623", "1,732", "1,809"]),
        ("source A: database", ["898", "1,447", "1,527", "1,661"]),
        ("source A: Memcache", ["742", "871", "failed", "883"]),
    ];
    let published = published
        .map(|(title, rates)| [title].iter().chain(&rates).map(|&cell| cell.to_owned()).collect());
    let mut handlers = titles(run, "page");
    handlers.sort_by_key(|title| {
        std::cmp::Reverse(row(run, title, "page", 8).figures.ops_per_second.median as u64)
    });
    let here = handlers.iter().map(|title| {
        let rates = parallel.map(|workers| rate(row(run, title, "page", workers)));
        [code(title)].into_iter().chain(rates).collect()
    });
    table(&["pages a second", "4", "8", "16", "32"], published.into_iter().chain(here))
}

fn rate(row: &Row) -> String {
    if row.outcome.failed.is_some() {
        "failed".to_owned()
    } else {
        grouped(row.figures.ops_per_second.median)
    }
}

/// Source A: the records of visitors who store nothing, with and without lazy start.
pub fn visitors(record: &Collection) -> String {
    let run = run(record, "lifecycle", "");
    let rows = run
        .results
        .iter()
        .filter(|row| row.question.is_of_visitors() && row.outcome.failed.is_none())
        .map(|row| {
            let left =
                row.visitors().unwrap_or_else(|| panic!("{} has no visitors", row.subject.title()));
            let lazy = row.lazy_start().map_or("no rule", |lazy| if lazy { "on" } else { "off" });
            let known = |value: Option<u64>| {
                value.map_or("not known".to_owned(), |value| grouped(value as f64))
            };
            let grown = left
                .grown_bytes
                .map_or("not known".to_owned(), |bytes| (bytes / 1_024).to_string());
            let changes =
                left.server.map_or(String::new(), |server| grouped(server.changes as f64));
            let counts = [left.visitors, left.storing].map(|count| grouped(count as f64));
            let [all, storing] = counts;
            vec![
                code(&row.subject.title()),
                lazy.to_owned(),
                all,
                storing,
                known(left.records),
                grouped(left.cookies as f64),
                grown,
                changes,
            ]
        });
    table(
        &[
            "handler",
            "lazy start",
            "visitors",
            "stored something",
            "records",
            "cookies",
            "KiB grown",
            "changes in Redis",
        ],
        rows,
    )
}

/// The rows of a language, each in its own runtime.
fn languages<'a>(record: &'a Collection, language: &str) -> Vec<&'a Row> {
    let rows = record.runs.iter().flat_map(|run| &run.results);
    rows.filter(|row| row.question.experiment == "languages" && row.subject.store == language)
        .collect()
}

/// Source C: a thousand sessions created and opened again, and what is left of the additions of
/// several processes.
pub fn perl(record: &Collection) -> String {
    let rows = languages(record, "perl");
    let published = |variant: &str| match variant {
        "apache-session-file-on-a-disk" => "1.63",
        "apache-session-file-on-tmpfs" => "1.44",
        "cache-sharedmemorycache-10-sessions" => "795 (7.95 for 10)",
        _ => "",
    };
    let of = |variant: &str, op: &str| {
        rows.iter().find(|row| row.subject.variant == variant && row.question.op.contains(op))
    };
    let made = rows.iter().filter(|row| row.question.op == "make").map(|made| {
        let variant = &made.subject.variant;
        let again = of(variant, "reopen").unwrap_or_else(|| panic!("{variant} was not reopened"));
        let us = made.figures.latency_us.p50 + again.figures.latency_us.p50;
        let kept = of(variant, "additions")
            .map(|row| format!("{} of {}", row.figures.operations, row.question.op));
        vec![
            code(&made.subject.title()),
            made.question.sessions.to_string(),
            published(variant).to_owned(),
            figure(us / 1e3),
            kept.unwrap_or_default(),
        ]
    });
    table(&["row", "sessions", "source C, s", "here, s", "kept"], made)
}

/// Source D: the page with a too large cache entry, before and after.
pub fn rebuild(record: &Collection) -> String {
    let run = run(record, "rebuild", "");
    let rows = run.results.iter().map(|row| {
        let told = row
            .rebuild
            .as_ref()
            .unwrap_or_else(|| panic!("{} tells nothing of its views", row.subject.title()));
        let siege = &told.siege;
        let of_views =
            format!("{} of {}", grouped(told.rebuilt as f64), grouped(told.views as f64));
        let times = [told.load_us, told.rebuild_us, told.save_us].map(|us| figure(us / 1e3));
        let cells =
            [code(&row.subject.title()), figure(siege.response_s), figure(siege.rate), of_views];
        cells.into_iter().chain(times).collect()
    });
    let head = [
        "cache",
        "response, s",
        "transactions/s",
        "views that rebuilt",
        "load, ms",
        "rebuild, ms",
        "save, ms",
    ];
    table(&head, rows)
}

/// Source D: the fate of a payload.
pub fn oversize(record: &Collection) -> String {
    let run = run(record, "oversize", "");
    let mut sizes: Vec<usize> = run.results.iter().map(|row| row.question.payload_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rows = titles(run, "save").into_iter().map(|title| {
        let of = |size: &usize| {
            run.results
                .iter()
                .find(|row| row.subject.title() == title && row.question.payload_bytes == *size)
        };
        let outcome = |size: &usize| of(size).map_or(String::new(), became);
        [code(&title)].into_iter().chain(sizes.iter().map(outcome)).collect()
    });
    let head: Vec<String> = sizes.iter().map(|size| format!("{} KiB", size >> 10)).collect();
    let head: Vec<&str> = ["store"].into_iter().chain(head.iter().map(String::as_str)).collect();
    table(&head, rows)
}

/// The time of a save that can be read back, or its fate.
fn became(row: &Row) -> String {
    match row.oversize.as_ref().map(|it| it.outcome) {
        Some(SaveOutcome::Stored) => format!("{} ms", figure(row.figures.latency_us.p50 / 1e3)),
        Some(outcome) => format!("**{}**", outcome.name()),
        None => String::new(),
    }
}

/// Source E, corrected.
pub fn ops(record: &Collection) -> String {
    operations(run(record, "ops", ""))
}

/// Source E, as published.
pub fn ops_as_published(record: &Collection) -> String {
    operations(run(record, "ops", "--as-published"))
}

fn operations(run: &Report) -> String {
    let rows = titles(run, "create").into_iter().map(|title| {
        let cell = |op: &str, workers: usize| {
            let there = run.results.iter().find(|row| {
                row.subject.title() == title
                    && row.question.op == op
                    && row.question.workers == workers
            });
            there.map_or("-".to_owned(), rate)
        };
        let cells = [1, 8]
            .into_iter()
            .flat_map(|workers| ["create", "read", "change"].map(|op| cell(op, workers)));
        [code(&title)].into_iter().chain(cells).collect()
    });
    table(
        &["a second", "create, 1", "read, 1", "change, 1", "create, 8", "read, 8", "change, 8"],
        rows,
    )
}
