//! CSV: one line a row, for spreadsheets.

use crate::collection::Collection;
use crate::report::{Faults, Report, WebFigures, WorkerMemory};

const HEADER: [&str; 53] = [
    "experiment",
    "store",
    "variant",
    "url",
    "kind",
    "op",
    "workers",
    "sessions",
    "payload_bytes",
    "payload_spread",
    "durability",
    "rounds",
    "ops_per_second_median",
    "ops_per_second_low",
    "ops_per_second_high",
    "latency_us_min",
    "latency_us_p50",
    "latency_us_p90",
    "latency_us_p99",
    "latency_us_p999",
    "latency_us_max",
    "errors",
    "misses",
    "lost",
    "failed",
    "cpu_us_per_op_client",
    "cpu_us_per_op_server",
    "bytes_per_session",
    "fairness",
    "page_table_bytes",
    "resident_bytes",
    "proportional_bytes",
    "prepared_bytes",
    "cpu_us_per_op_web",
    "failed_requests",
    "not_2xx",
    "sessions_kept",
    "outcome",
    "limit_bytes",
    "locking",
    "kills",
    "acknowledged",
    "updates_lost",
    "sessions_lost",
    "stuck",
    "refused",
    "down_us",
    "views",
    "rebuilt",
    "rate",
    "as_published",
    "restarted",
    "workload",
];

impl Report {
    /// The rows as CSV.
    ///
    /// # Errors
    ///
    /// None in practice: it writes into memory.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        of(std::slice::from_ref(self))
    }
}

impl Collection {
    /// The rows of all reports as CSV.
    ///
    /// # Errors
    ///
    /// None in practice: it writes into memory.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        of(&self.runs)
    }
}

fn of(reports: &[Report]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for (report, row) in reports.iter().flat_map(|report| report.results.iter().map(move |row| (report, row))) {
        let (rate, latency, cpu) = (row.ops_per_second, row.latency_us, row.cpu_us_per_op);
        let memory = |part: fn(&WorkerMemory) -> u64| row.memory.map_or(String::new(), |it| part(&it).to_string());
        let web = |part: &dyn Fn(&WebFigures) -> String| row.web.as_ref().map_or(String::new(), part);
        let kills = |part: fn(&Faults) -> u64| row.faults.as_ref().map_or(String::new(), |it| part(it).to_string());
        writer.write_record([
            row.experiment.clone(),
            row.store.clone(),
            row.variant.clone(),
            row.url.clone(),
            row.kind.clone(),
            row.op.clone(),
            row.workers.to_string(),
            row.sessions.to_string(),
            row.payload_bytes.to_string(),
            row.payload_spread.clone(),
            row.durability.clone(),
            row.rounds.to_string(),
            rate.median.to_string(),
            rate.low.to_string(),
            rate.high.to_string(),
            latency.min.to_string(),
            latency.p50.to_string(),
            latency.p90.to_string(),
            latency.p99.to_string(),
            latency.p999.to_string(),
            latency.max.to_string(),
            row.errors.to_string(),
            row.misses.to_string(),
            row.lost.to_string(),
            row.failed.clone().unwrap_or_default(),
            cpu.client.to_string(),
            cpu.of_server().map_or(String::new(), |us| us.to_string()),
            row.bytes_per_session.to_string(),
            row.fairness.map(|fairness| fairness.to_string()).unwrap_or_default(),
            memory(|memory| memory.page_tables),
            memory(|memory| memory.resident),
            memory(|memory| memory.proportional),
            memory(|memory| memory.prepared),
            web(&|web| web.cpu_us_per_op.to_string()),
            web(&|web| web.failed_requests.to_string()),
            web(&|web| web.not_2xx.to_string()),
            web(&|web| web.sessions_kept.map(|kept| kept.to_string()).unwrap_or_default()),
            row.oversize.as_ref().map_or(String::new(), |oversize| oversize.outcome.name().to_owned()),
            row.oversize.as_ref().and_then(|it| it.limit).map_or(String::new(), |limit| limit.to_string()),
            row.keeper.as_ref().map_or(String::new(), |keeper| keeper.locking.clone()),
            kills(|faults| faults.kills),
            kills(|faults| faults.acknowledged),
            kills(|faults| faults.lost),
            kills(|faults| faults.sessions_lost),
            kills(|faults| faults.stuck),
            kills(|faults| faults.refused),
            row.faults.as_ref().and_then(|it| it.down_us).map_or(String::new(), |down_us| down_us.to_string()),
            row.rebuild.as_ref().map_or(String::new(), |rebuild| rebuild.views.to_string()),
            row.rebuild.as_ref().map_or(String::new(), |rebuild| rebuild.rebuilt.to_string()),
            report.settings.rate.map_or(String::new(), |due| due.to_string()),
            report.settings.as_published.to_string(),
            row.faults.as_ref().and_then(|it| it.restarted).map_or(String::new(), |restarted| restarted.to_string()),
            row.workload.clone().unwrap_or_default(),
        ])?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CpuUs, Row};

    fn report(experiment: &str) -> Report {
        let row = Row { experiment: experiment.into(), store: "files".into(), ..Row::default() };
        Report { results: vec![row], ..Report::default() }
    }

    /// `all` wrote the closed loop and the fixed rate, the corrected and the published form into one file in which nothing
    /// told them apart.
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
