//! The rows as CSV.

use crate::collection::Collection;
use crate::report::{Report, Row};

/// The name of a column, and its text in a row; empty where nothing was measured.
type Column = (&'static str, fn(&Report, &Row) -> String);

const COLUMNS: [Column; 53] = [
    ("experiment", |_, row| row.experiment.clone()),
    ("store", |_, row| row.store.clone()),
    ("variant", |_, row| row.variant.clone()),
    ("url", |_, row| row.url.clone()),
    ("kind", |_, row| row.kind.clone()),
    ("op", |_, row| row.op.clone()),
    ("workers", |_, row| row.workers.to_string()),
    ("sessions", |_, row| row.sessions.to_string()),
    ("payload_bytes", |_, row| row.payload_bytes.to_string()),
    ("payload_spread", |_, row| row.payload_spread.clone()),
    ("durability", |_, row| row.durability.clone()),
    ("rounds", |_, row| row.rounds.to_string()),
    ("ops_per_second_median", |_, row| row.ops_per_second.median.to_string()),
    ("ops_per_second_low", |_, row| row.ops_per_second.low.to_string()),
    ("ops_per_second_high", |_, row| row.ops_per_second.high.to_string()),
    ("latency_us_min", |_, row| row.latency_us.min.to_string()),
    ("latency_us_p50", |_, row| row.latency_us.p50.to_string()),
    ("latency_us_p90", |_, row| row.latency_us.p90.to_string()),
    ("latency_us_p99", |_, row| row.latency_us.p99.to_string()),
    ("latency_us_p999", |_, row| row.latency_us.p999.to_string()),
    ("latency_us_max", |_, row| row.latency_us.max.to_string()),
    ("errors", |_, row| row.errors.to_string()),
    ("misses", |_, row| row.misses.to_string()),
    ("lost", |_, row| row.lost.to_string()),
    ("failed", |_, row| row.failed.clone().unwrap_or_default()),
    ("cpu_us_per_op_client", |_, row| row.cpu_us_per_op.client.to_string()),
    ("cpu_us_per_op_server", |_, row| text(row.cpu_us_per_op.of_server())),
    ("bytes_per_session", |_, row| row.bytes_per_session.to_string()),
    ("fairness", |_, row| text(row.fairness)),
    ("page_table_bytes", |_, row| text(row.memory.map(|memory| memory.page_tables))),
    ("resident_bytes", |_, row| text(row.memory.map(|memory| memory.resident))),
    ("proportional_bytes", |_, row| text(row.memory.map(|memory| memory.proportional))),
    ("prepared_bytes", |_, row| text(row.memory.map(|memory| memory.prepared))),
    ("cpu_us_per_op_web", |_, row| text(row.web.map(|web| web.cpu_us_per_op))),
    ("failed_requests", |_, row| text(row.web.map(|web| web.failed_requests))),
    ("not_2xx", |_, row| text(row.web.map(|web| web.not_2xx))),
    ("sessions_kept", |_, row| text(row.web.and_then(|web| web.sessions_kept))),
    ("outcome", |_, row| text(row.oversize.as_ref().map(|oversize| oversize.outcome.name()))),
    ("limit_bytes", |_, row| text(row.oversize.as_ref().and_then(|it| it.limit))),
    ("locking", |_, row| text(row.keeper.as_ref().map(|keeper| &keeper.locking))),
    ("kills", |_, row| text(row.faults.as_ref().map(|faults| faults.kills))),
    ("acknowledged", |_, row| text(row.faults.as_ref().map(|faults| faults.acknowledged))),
    ("updates_lost", |_, row| text(row.faults.as_ref().map(|faults| faults.lost))),
    ("sessions_lost", |_, row| text(row.faults.as_ref().map(|faults| faults.sessions_lost))),
    ("stuck", |_, row| text(row.faults.as_ref().map(|faults| faults.stuck))),
    ("refused", |_, row| text(row.faults.as_ref().map(|faults| faults.refused))),
    ("down_us", |_, row| text(row.faults.as_ref().and_then(|it| it.down_us))),
    ("views", |_, row| text(row.rebuild.as_ref().map(|rebuild| rebuild.views))),
    ("rebuilt", |_, row| text(row.rebuild.as_ref().map(|rebuild| rebuild.rebuilt))),
    ("rate", |report, _| text(report.settings.rate)),
    ("as_published", |report, _| report.settings.as_published.to_string()),
    ("restarted", |_, row| text(row.faults.as_ref().and_then(|it| it.restarted))),
    ("workload", |_, row| row.workload.clone().unwrap_or_default()),
];

impl Report {
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        rows_to_csv(std::slice::from_ref(self))
    }
}

impl Collection {
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        rows_to_csv(&self.runs)
    }
}

fn rows_to_csv(reports: &[Report]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.map(|(name, _)| name))?;
    for report in reports {
        for row in &report.results {
            writer.write_record(COLUMNS.map(|(_, text)| text(report, row)))?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CpuUs, Faults};

    fn report(experiment: &str) -> Report {
        let row = Row { experiment: experiment.into(), store: "files".into(), ..Row::default() };
        Report { results: vec![row], ..Report::default() }
    }

    /// `all` wrote the closed loop and the fixed rate, the corrected and the published form into
    /// one file in which nothing told them apart.
    #[test]
    fn two_forms_of_an_experiment_are_told_apart_and_what_nobody_counted_is_blank() {
        let mut paced = report("cycle");
        paced.settings.rate = Some(250.0);
        let mut published = report("ops");
        published.settings.as_published = true;
        let mut killed = report("faults");
        killed.results[0].faults = Some(Faults { restarted: Some(7), ..Faults::default() });
        let mut uncounted = report("faults");
        uncounted.results[0].faults = Some(Faults::default());
        let runs = vec![report("cycle"), paced, report("ops"), published, killed, uncounted];
        let text = Collection { runs, ..Collection::default() }.to_csv().unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
        let header = lines.next().unwrap();
        let place = |name: &str| header.iter().position(|column| *column == name).unwrap();
        let places = ["experiment", "rate", "as_published", "restarted"].map(place);
        let rows: Vec<[&str; 4]> = lines.map(|line| places.map(|place| line[place])).collect();
        let expected = [
            ["cycle", "", "false", ""],
            ["cycle", "250", "false", ""],
            ["ops", "", "false", ""],
            ["ops", "", "true", ""],
            ["faults", "", "false", "7"],
            ["faults", "", "false", ""],
        ];
        assert_eq!(rows, expected, "{text}");
    }

    /// `rebuild` does not look into its servers, and all of them had taken 0 us.
    #[test]
    fn the_time_of_a_server_that_nobody_knows_is_blank() {
        let took = |server| {
            let mut report = report("rebuild");
            report.results[0].cpu_us_per_op = CpuUs { client: 12.5, server };
            report.to_csv().unwrap()
        };
        assert!(took(7.5).contains(",12.5,7.5,"), "{}", took(7.5));
        assert!(took(0.0).contains(",12.5,,"), "{}", took(0.0));
    }
}
