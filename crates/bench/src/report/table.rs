//! The tables for the terminal: embedded stores apart from those over a socket, which are not
//! comparable.

use std::fmt;

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::report::markdown::{write_preformatted, write_section};
use crate::report::{Modes, Report, Row};
use crate::workload::Workload;

const COLUMNS: u16 = 100;
const COLUMNS_OF_MANY: u16 = 106;

/// The alternate form is Markdown without the machine: see [`Report::to_markdown`].
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            self.machine(f)?;
        }
        if let Some(row) = self.results.first().filter(|row| !row.has_no_seconds()) {
            let (sessions, payload, rounds) =
                (row.sessions, row.payload_bytes, self.results.iter().map(|row| row.rounds).max());
            let seconds = self.settings.seconds;
            let rounds = rounds.unwrap_or(0);
            let rate = self
                .settings
                .rate
                .map_or(String::new(), |rate| format!(", {} a second and worker", grouped(rate)));
            let awake = if self.settings.processors_awake { ", processors kept awake" } else { "" };
            let way = self
                .settings
                .round_trip_us
                .map_or(String::new(), |us| format!(", servers {} us away", three_digits(us)));
            let churn = self.settings.churn;
            let churn = if churn > 0 {
                format!(", after rewriting {churn} times as many")
            } else {
                String::new()
            };
            let seed = self.seed;
            let more = if self.results.iter().any(|row| row.sessions != sessions) {
                " and more"
            } else {
                ""
            };
            writeln!(
                f,
                "{sessions}{more} sessions of {payload} bytes{churn}, {rounds} rounds of {seconds} \
                 s{rate}{way}{awake}, seed {seed}"
            )?;
            if let Some(workload) = self.workload().and_then(Workload::from_name) {
                writeln!(f, "workload {}: {}", workload.name(), workload.description())?;
            }
        }
        for (kind, heading) in [
            ("embedded", "Embedded in the application's process"),
            ("socket", "Over a unix or TCP socket"),
        ] {
            let elsewhere = |row: &Row| row.has_no_seconds() || row.experiment == "scale";
            let here = |row: &&Row| row.kind == kind && !elsewhere(row);
            let rows: Vec<&Row> = self.results.iter().filter(here).collect();
            if !rows.is_empty() {
                write_section(f, heading, &throughput(&rows))?;
            }
        }
        self.lifecycle(f)?;
        self.perl(f)?;
        self.languages(f)?;
        self.scale(f)?;
        self.space(f)?;
        self.oversize(f)?;
        self.faults(f)?;
        self.rebuild(f)?;
        self.contention(f)?;
        self.histograms(f)?;
        for left in &self.left_out {
            writeln!(f, "left out: {}: {}", left.title(), left.reason)?;
        }
        for row in self.bad_rows() {
            writeln!(f, "FAILED: {}", row.failure_line())?;
        }
        for warning in &self.warnings {
            writeln!(f, "note: {warning}")?;
        }
        Ok(())
    }
}

impl Row {
    pub(crate) fn failure_line(&self) -> String {
        let (title, op, workers) = (self.title(), &self.op, self.workers);
        let why = self
            .failed
            .as_deref()
            .or(self.first_error.as_deref())
            .unwrap_or("no error was reported");
        let (errors, misses, lost) = (self.errors, self.misses, self.lost);
        format!("{title} {op} at {workers}: {errors} errors, {misses} misses, {lost} lost: {why}")
    }
}

fn throughput(rows: &[&Row]) -> Table {
    // One round has no range.
    let spread = rows.iter().any(|row| row.rounds > 1);
    let mut header = vec![
        "store",
        "op",
        "workers",
        "tier",
        "per s",
        "low..high",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "cpu us/op",
    ];
    header.retain(|name| spread || *name != "low..high");
    let mut table = new_table(&header);
    widen(&mut table, &header, &["store", "op", "low..high", "cpu us/op"]);
    for row in rows {
        let cpu = row.cpu_us_per_op;
        let cpu = if row.kind == "socket" {
            format!("{} + {}", three_digits(cpu.client), or_dash(cpu.of_server()))
        } else {
            three_digits(cpu.client)
        };
        let rate = row.ops_per_second;
        let failed = row.failed.is_some();
        let or_failed = |text: String| if failed { "failed".to_owned() } else { text };
        let mut cells = vec![
            Cell::new(row.shown_title()),
            Cell::new(&row.op),
            right_aligned(row.workers),
            Cell::new(&row.durability),
            right_aligned(or_failed(grouped(rate.median))),
            right_aligned(format!("{}..{}", abbreviated(rate.low), abbreviated(rate.high))),
            right_aligned(three_digits(row.latency_us.p50)),
            right_aligned(three_digits(row.latency_us.p99)),
            right_aligned(three_digits(row.latency_us.p999)),
            right_aligned(cpu),
        ];
        if failed {
            cells.truncate(5);
        } else if !spread {
            cells.remove(5);
        }
        table.add_row(cells);
    }
    table
}

impl Row {
    /// Whether the experiment counts operations instead of seconds, and has its own table.
    fn has_no_seconds(&self) -> bool {
        matches!(
            self.experiment.as_str(),
            "lifecycle" | "oversize" | "perl" | "faults" | "rebuild" | "languages"
        )
    }
}

impl Report {
    fn machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = &self.environment;
        let gib = environment.memory_bytes >> 30;
        let (cpu, cores, kernel) = (&environment.cpu, environment.cores, &environment.kernel);
        writeln!(f, "{cpu}, {cores} cores, {gib} GiB, {kernel}, {}", environment.system)?;
        let versions: Vec<String> = environment
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        let (disk, options) = (&environment.disk_file_system, &environment.disk_mount_options);
        writeln!(f, "disk {disk} ({options}); {}", versions.join(", "))?;
        let (commit, flags) = (&environment.commit, &environment.build_flags);
        writeln!(f, "commit {commit}; {flags}")?;
        f.write_str(&environment.servers_text(""))
    }

    fn contention(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> = self
            .results
            .iter()
            .filter(|row| row.waits.is_some() || row.fairness.is_some())
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let header = [
            "store",
            "op",
            "tier",
            "fairness",
            "found taken",
            "wait p50 us",
            "wait p99 us",
            "all p50 us",
            "lost",
        ];
        let mut table = new_table(&header);
        widen(&mut table, &header, &["store", "op", "found taken"]);
        for row in rows {
            let waits = row.waits.unwrap_or_default();
            let waited =
                |value: f64| if row.waits.is_some() { three_digits(value) } else { String::new() };
            let taken = if row.waits.is_some() {
                format!("{} of {}", waits.taken, waits.begins)
            } else {
                String::new()
            };
            table.add_row(vec![
                Cell::new(row.shown_title()),
                Cell::new(&row.op),
                Cell::new(&row.durability),
                right_aligned(
                    row.fairness.map_or(String::new(), |fairness| format!("{fairness:.2}")),
                ),
                right_aligned(taken),
                right_aligned(waited(waits.taken_p50)),
                right_aligned(waited(waits.taken_p99)),
                right_aligned(waited(waits.all_p50)),
                right_aligned(row.lost),
            ]);
        }
        write_section(
            f,
            "One session, all workers: waits of the begins that found it taken",
            &table,
        )
    }

    fn histograms(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown: Vec<(String, &str, usize)> = Vec::new();
        for row in self.results.iter().filter(|row| row.histogram.is_some() && row.waits.is_none())
        {
            let group = group_of(row);
            if shown.contains(&group) {
                continue;
            }
            let same: Vec<&Row> =
                self.results.iter().filter(|other| group_of(other) == group).collect();
            for pair in same.chunks(2) {
                let buckets: Vec<(String, &crate::report::Buckets)> = pair
                    .iter()
                    .filter_map(|row| Some((row.op.clone(), row.histogram.as_ref()?)))
                    .collect();
                let (title, tier, sessions) = &group;
                let heading =
                    format!("{title} with {sessions} sessions, tier {tier} (bars are logarithmic)");
                write_preformatted(f, &heading, &super::bars::histograms_text(&buckets))?;
            }
            for row in same {
                if let Some(modes) = row.modes {
                    let (plain, sweeping) =
                        (three_digits(modes.plain_p50), three_digits(modes.sweeping_p50));
                    let slow = three_digits(modes.sweeping_p90);
                    let (op, count) = (&row.op, modes.sweeping);
                    let modes = modes_text(modes, row.sessions);
                    writeln!(
                        f,
                        "{op}: {modes}: median {plain} us; of the {count} that swept median \
                         {sweeping}, p90 {slow} us"
                    )?;
                }
                if let Some(removal) = row.removal {
                    writeln!(f, "{}: {}", row.op, removal.in_words())?;
                }
            }
            shown.push(group);
        }
        Ok(())
    }
}

/// What histograms side by side have in common.
fn group_of(row: &Row) -> (String, &str, usize) {
    (row.title(), &row.durability, row.sessions)
}

fn modes_text(modes: Modes, sessions: usize) -> &'static str {
    match modes.modes {
        1 if sessions < Modes::SESSIONS_MIN => "too few sessions to tell modes apart",
        1 => "one mode",
        _ => "two modes",
    }
}

/// Rows grouped by durability tier: costs of a commit are compared only within one.
pub(super) fn by_tier<'a>(rows: &[&'a Row]) -> Vec<(&'a str, Vec<&'a Row>)> {
    let mut tiers: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows.iter().copied() {
        match tiers.iter_mut().find(|(tier, _)| *tier == row.durability) {
            Some((_, own)) => own.push(row),
            None => tiers.push((&row.durability, vec![row])),
        }
    }
    tiers
}

pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(COLUMNS).set_header(header.to_vec());
    table
}

/// Widens a table with many columns and keeps the named ones unbroken.
pub(super) fn widen(table: &mut Table, header: &[&str], columns: &[&str]) {
    table.set_width(COLUMNS_OF_MANY);
    for place in columns.iter().filter_map(|whole| header.iter().position(|name| name == whole)) {
        never_wrap(table, place);
    }
}

/// Keeps a column unbroken: a broken name cannot be searched for, and a broken number misleads.
pub(crate) fn never_wrap(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

pub(crate) fn right_aligned(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

/// At most three significant digits.
pub(crate) fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => grouped(v),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), three_digits)
}

/// Three significant digits with a suffix.
pub(super) fn abbreviated(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}M", three_digits(v / 1e6)),
        v if v >= 1_000.0 => format!("{}k", three_digits(v / 1e3)),
        v => format!("{v:.0}"),
    }
}

/// A space between groups of three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Buckets, CpuUs, LatencyUs, Waits};

    #[test]
    fn names_stay_whole_in_rows_of_wide_figures() {
        for rounds in [1, 3] {
            let row = Row {
                store: "redis-four-trips".into(),
                variant: "default".into(),
                op: "begin-while-sweeping".into(),
                durability: "commit".into(),
                workers: 8,
                rounds,
                latency_us: LatencyUs {
                    p50: 123_456.0,
                    p99: 1_234_567.0,
                    p999: 12_345_678.0,
                    ..LatencyUs::default()
                },
                ..Row::default()
            };
            let text = throughput(&[&row]).to_string();
            assert!(
                text.contains("redis-four-trips ") && text.contains("begin-while-sweeping "),
                "{text}"
            );
            assert_eq!(text.contains("low.."), rounds > 1, "{text}");
        }
    }

    /// Waits, slow ends, space and histograms did not say it, and space of two tiers was told for
    /// the first.
    #[test]
    fn each_table_says_the_durability_tier_and_keeps_names_and_numbers_whole() {
        let rows = |change: &dyn Fn(&mut Row)| {
            let tiers = ["none", "commit"].map(|tier| {
                let (store, op) = ("postgres-transaction".into(), "closed-loop".into());
                let (durability, variant) = (tier.into(), "default".into());
                let mut row =
                    Row { store, op, durability, variant, sessions: 5_000_000, ..Row::default() };
                change(&mut row);
                row
            });
            Report { results: tiers.to_vec(), ..Report::default() }.to_string()
        };
        let waits =
            Waits { begins: 123_456, taken: 12_345, taken_p99: 1_234_567.0, ..Waits::default() };
        let text = rows(&|row| row.waits = Some(waits));
        {
            let (heading, whole) = ("One session, all workers", "12345 of 123456");
            let table = text.split(heading).nth(1).unwrap_or_else(|| panic!("{text}"));
            let lines = table
                .lines()
                .filter(|line| line.contains("postgres-transaction "))
                .collect::<Vec<&str>>();
            for (tier, line) in
                ["none", "commit"].iter().flat_map(|tier| vec![tier; lines.len() / 2]).zip(&lines)
            {
                assert!(
                    line.split_whitespace().any(|word| word == *tier) && line.contains(whole),
                    "{table}"
                );
            }
            assert!(lines.len() >= 2 && table.lines().all(|line| line.len() <= 106), "{table}");
        }
        let weighed = rows(&|row| (row.bytes_per_session, row.payload_bytes) = (123_456, 65_536));
        let histogram = Buckets { bounds_us: Vec::new(), counts: vec![1] };
        let pictured = rows(&|row| row.histogram = Some(histogram.clone()));
        for tier in ["none", "commit"] {
            let heading = format!("Space at the end of the run, tier {tier}: ");
            let table = weighed.split(&heading).nth(1).unwrap_or_else(|| panic!("{weighed}"));
            // Of a server with a disk the memory is no multiple of the payload.
            let line = table.lines().nth(3).unwrap().trim_end();
            assert!(line.contains("postgres-transaction ") && line.ends_with(" -"), "{weighed}");
            let heading = format!("postgres-transaction with 5000000 sessions, tier {tier} (bars");
            assert_eq!(pictured.matches(&heading).count(), 1, "{pictured}");
        }
    }

    /// A server of the user's, whose process nobody has looked into, had taken 0 us.
    #[test]
    fn the_time_of_a_server_that_nobody_knows_is_a_dash() {
        let shown = |server| {
            let cpu_us_per_op = CpuUs { client: 12.5, server };
            throughput(&[&Row { kind: "socket".into(), cpu_us_per_op, ..Row::default() }])
                .to_string()
        };
        assert!(shown(7.5).contains("12.5 + 7.50"), "{}", shown(7.5));
        assert!(shown(0.0).contains("12.5 + -"), "{}", shown(0.0));
    }

    /// A server in another room stood beside one behind a unix socket as if they were equally far.
    #[test]
    fn a_way_over_tcp_is_told_from_one_over_a_unix_socket() {
        let row = |url: &str, kind: &str| {
            let (store, variant) = ("redis".into(), "default".into());
            Row {
                store,
                variant,
                url: url.into(),
                kind: kind.into(),
                op: "cycle".into(),
                ..Row::default()
            }
        };
        let urls = [
            ("redis://<host>", "socket"),
            ("redis+unix:<path>", "socket"),
            ("redis+unix:<disk>/socket", "socket"),
        ];
        let rows: Vec<Row> = urls.iter().map(|(url, kind)| row(url, kind)).collect();
        let text = throughput(&rows.iter().collect::<Vec<&Row>>()).to_string();
        assert_eq!(text.matches("redis (tcp) ").count(), 1, "{text}");
        assert_eq!(crate::redact::url("rediss://u:pw@10.0.0.7:6379/0#far"), "rediss://<host>");
    }

    /// One mode among 2,200 sessions looked like an all-clear for half a million.
    #[test]
    fn one_mode_is_said_only_where_a_sweep_would_stand_out() {
        let modes = |modes| Modes { modes, ..Modes::default() };
        assert_eq!(
            [2_200, 50_000].map(|sessions| modes_text(modes(1), sessions) == "one mode"),
            [false, true]
        );
        assert_eq!(modes_text(modes(2), 1_000), "two modes");
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!(grouped(1_234_567.4), "1 234 567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(three_digits(0.123), "0.12");
        assert_eq!(three_digits(12.34), "12.3");
        assert_eq!(three_digits(12_345.6), "12 346");
        assert_eq!(
            [abbreviated(999.0), abbreviated(1_234.0), abbreviated(2_500_000.0)],
            ["999", "1.23k", "2.50M"]
        );
    }
}
