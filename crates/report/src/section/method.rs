//! Machine, conditions and commands: enough to repeat the measurement.

use std::collections::BTreeSet;

use maud::{Markup, html};
use sessile_results::Report;
use sessile_results::number::{bytes, figure};
use sessile_results::table::{right, text};

use super::prose;
use crate::ids::ElementIds;
use crate::runs::PageReports;
use crate::table::{HtmlCell, HtmlTable};

pub(super) fn body(runs: &PageReports<'_>, ids: &ElementIds) -> Markup {
    html! {
        ul {
            li {
                "Workers are processes, as in production. They get one start moment; nothing is "
                "exchanged while a sample runs."
            }
            li {
                "Payloads are made before the timed part. Every read is compared byte by byte with "
                "what must be there; after the last round acknowledged changes are counted against "
                "what the store holds."
            }
            li {
                "Contenders take turns in a random order drawn from the seed. A figure is the "
                "median of the rounds."
            }
            li {
                "Servers are private: started for the run on a socket of their own, and gone after "
                "it."
            }
            li {
                "The whole method is " code { "bench/METHODOLOGY.md" } " in the repository of "
                "Sessile; who wrote it, and where that may show, is " code { "bench/BIAS.md" } "."
            }
        }
        h3 { "Machines" }
        @if runs.reports.is_empty() { p.not-run { strong { "Nothing was measured." } } }
        @for (machine, reports) in runs.machines() {
            dl.machine {
                dt { "Processor" } dd { (machine.cpu) ", " (machine.cores) " logical processors" }
                dt { "Memory" } dd { (bytes(machine.memory_bytes as f64)) }
                dt { "System" }
                dd {
                    (machine.system) ", " (machine.kernel) ", disk " (machine.disk_file_system)
                    @if !machine.disk_mount_options.is_empty() {
                        " (" (machine.disk_mount_options) ")"
                    }
                }
                dt { "Sessile" }
                dd {
                    (machine.sessile) ", " (machine.build) " build"
                    @if !machine.commit.is_empty() {
                        ", commit " (machine.commit) "; " (machine.build_flags)
                    }
                }
                @for (name, flags) in servers(&reports) {
                    dt { (name) } dd { code.command { (prose(flags)) } }
                }
                dt { "Programs and libraries" } dd { (versions(&reports)) }
            }
        }
        h3 { "Commands" }
        (commands(runs).draw(ids))
    }
}

/// The flags of each server; runs may differ in the tier.
fn servers<'a>(reports: &[&'a Report]) -> BTreeSet<(&'a String, &'a String)> {
    reports.iter().flat_map(|report| &report.environment.servers).collect()
}

/// All versions of a machine: experiments use different programs.
fn versions(reports: &[&Report]) -> String {
    let mut versions: Vec<String> = reports
        .iter()
        .flat_map(|report| &report.environment.versions)
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    versions.sort();
    versions.dedup();
    versions.join(", ")
}

fn commands(runs: &PageReports<'_>) -> HtmlTable {
    let columns = [
        "experiment",
        "command",
        "seed",
        "sample",
        "ttl",
        "at a fixed rate",
        "processor time taken by others",
    ];
    let mut table = HtmlTable::new("Settings of each run", &columns).wordy();
    for report in runs.reports {
        let settings = &report.settings;
        let rate =
            settings.rate.map_or("no".to_owned(), |rate| format!("{rate} a second and worker"));
        let awake = if settings.processors_awake { ", processors kept awake" } else { "" };
        let stolen = settings.stolen.map(|stolen| right(format!("{:.2} %", stolen * 100.0)));
        table.row(vec![
            text(PageReports::name(report)).into(),
            HtmlCell::Rich(html! { code.command { (prose(&report.command)) } }),
            right(report.seed).into(),
            right(format!("{} s", figure(settings.seconds))).into(),
            right(format!("{} s", settings.ttl_seconds)).into(),
            text(format!("{rate}{awake}")).into(),
            stolen.unwrap_or_else(|| text("not measured")).into(),
        ]);
    }
    table
}
