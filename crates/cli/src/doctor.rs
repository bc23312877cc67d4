//! `sessile doctor`: finds what will go wrong with a store. Changes nothing.

use serde_json::{Value, json};
use sessile_doctor::{Examination, PhpSource, Report, Severity, examine};

use crate::arguments::DoctorArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::terminal::print_as;
use crate::units;

pub fn run(arguments: &DoctorArguments) -> CommandResult {
    let report = examine(&examination(arguments))
        .map_err(|error| CommandFailure::unknown(format!("{error:#}")))?;
    print_as(arguments.json, || as_json(&report), || as_text(&report))?;
    let findings = units::with_noun(report.findings.len() as u64, "finding");
    match report.worst() {
        None => Ok(()),
        Some(Severity::Warning) => Err(CommandFailure::found(findings)),
        Some(Severity::Critical) => Err(CommandFailure::critical(findings)),
    }
}

fn examination(arguments: &DoctorArguments) -> Examination {
    let DoctorArguments { url, keep, user, workers, php, php_ini, .. } = arguments;
    let php = match (php, php_ini) {
        (None, None) => PhpSource::IfItUsesSessile,
        (program, ini) => PhpSource::Given { program: program.clone(), ini: ini.clone() },
    };
    let (keep, user, workers) = (*keep, user.clone(), *workers);
    Examination { keep, user, workers, php, ..Examination::new(url) }
}

fn as_text(report: &Report) -> String {
    if report.findings.is_empty() {
        return format!("{} is sound\n", report.label);
    }
    report.findings.iter().map(|finding| finding.as_text() + "\n").collect()
}

fn as_json(report: &Report) -> Value {
    let findings: Vec<Value> =
        report.findings.iter().map(sessile_doctor::Finding::as_json).collect();
    let worst = report.worst().map_or("sound", Severity::name);
    json!({ "schema": 1, "store": report.label, "worst": worst, "findings": findings })
}
