//! This host: the user of the workers, /proc, and the limits of a process.

use std::fs::read_to_string;

use nix::unistd::User;

use crate::examination::Examination;
use crate::finding::Finding;

/// A worker has a few descriptors for each store and many for the site.
const OPEN_FILES_MIN: u64 = 1_024;

pub fn check(examination: &Examination, findings: &mut Vec<Finding>) {
    if let Some(name) = &examination.user
        && User::from_name(name).is_ok_and(|user| user.is_none())
    {
        findings.push(Finding::critical(
            "unknown-user",
            format!("there is no user {name} on this host"),
            "the workers cannot run as a user that does not exist",
            "correct --user",
        ));
    }
    let proc = examination.root.join("proc");
    if !proc.join("self/stat").exists() {
        findings.push(Finding::warning(
            "no-proc",
            format!("{} is not mounted", proc.display()),
            "messages about a lock cannot name its holder, and limits cannot be read",
            "mount /proc in the container or jail of the workers",
        ));
        return;
    }
    let limits = read_to_string(proc.join("self/limits")).unwrap_or_default();
    if let Some(open) = open_files(&limits)
        && open < OPEN_FILES_MIN
    {
        findings.push(Finding::warning(
            "few-open-files",
            format!("a process may open {open} files"),
            "a request for which no file can be opened fails, sessions included",
            "raise LimitNOFILE= of the unit, rlimit_files of php-fpm or ulimit -n to 1024 or more",
        ));
    }
}

/// The soft limit: `Max open files  1024  524288  files`.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
