//! CSV: one line a row, for spreadsheets.

use crate::collection::Collection;
use crate::report::{Faults, Report, Row, WebFigures, WorkerMemory};

const HEADER: [&str; 49] = [
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
];

impl Report {
    /// The rows as CSV.
    ///
    /// # Errors
    ///
    /// None in practice: it writes into memory.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        of(&self.results)
    }
}

impl Collection {
    /// The rows of all reports as CSV.
    ///
    /// # Errors
    ///
    /// None in practice: it writes into memory.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        of(self.runs.iter().flat_map(|report| &report.results))
    }
}

fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for row in rows {
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
            cpu.server.to_string(),
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
        ])?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
