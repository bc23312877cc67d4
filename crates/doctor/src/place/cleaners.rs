//! What removes files behind the back of a store: log-outs of its user, and cleaners of temporary
//! directories.

use std::fs::{read_dir, read_to_string};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Place;
use crate::examination::Subject;
use crate::finding::Finding;

/// The first id of an ordinary user; logind cleans nothing of users below it.
const UID_MIN: u32 = 1_000;
/// `nobody` is no ordinary user.
const UID_MAX: u32 = 60_000;
const SHARED_MEMORY: &str = "/dev/shm";
const LOGIND: &str = "etc/systemd/logind.conf";

pub fn check(subject: &Subject<'_>, place: &Place, findings: &mut Vec<Finding>) {
    let root = &subject.examination.root;
    let owner = place.status.uid();
    if is_in_shared_memory(subject, place) && is_ordinary(owner) && removes_ipc(root) {
        findings.push(Finding::critical(
            "removed-at-logout",
            format!("{} belongs to user id {owner}, an ordinary user", place.path.display()),
            "systemd-logind removes all files of a user in /dev/shm when the last login of the \
             user ends (RemoveIPC=yes)",
            format!(
                "set RemoveIPC=no in /{LOGIND}, or run the workers as a system user (adduser \
                 --system)"
            ),
        ));
    }
    for (directory, age) in [("/tmp", "10 days"), ("/var/tmp", "30 days")] {
        if place.path.starts_with(directory) {
            findings.push(Finding::warning(
                "temporary-directory",
                format!("{} is in {directory}", place.path.display()),
                format!(
                    "systemd-tmpfiles removes there what was not used for {age}, locks and \
                     sessions included, and a reboot may empty it"
                ),
                "use a directory such as /var/lib/sessile",
            ));
        }
    }
}

/// The counters of a store without shared memory of its own, by the user of the workers.
pub fn check_counters(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    if let Some((name, uid)) = subject.workers_user() {
        check_counters_of(subject, name, uid, findings);
    }
}

fn check_counters_of(subject: &Subject<'_>, name: &str, uid: u32, findings: &mut Vec<Finding>) {
    let counts_in_file =
        subject.entry.capabilities.shared_by_processes && subject.entry.name != "sessile";
    if counts_in_file && is_ordinary(uid) && removes_ipc(&subject.examination.root) {
        findings.push(Finding::warning(
            "counters-removed",
            format!("the workers run as {name} (user id {uid}), an ordinary user"),
            format!(
                "systemd-logind removes {SHARED_MEMORY}/sessile-counters-{uid} when the last login \
                 of the user ends (RemoveIPC=yes): top, metrics and serve show no counters until \
                 the workers start again"
            ),
            format!("set RemoveIPC=no in /{LOGIND}, or run the workers as a system user"),
        ));
    }
}

fn is_ordinary(uid: u32) -> bool {
    (UID_MIN..=UID_MAX).contains(&uid)
}

/// The store itself, or the control plane of an engine on a disk.
fn is_in_shared_memory(subject: &Subject<'_>, place: &Place) -> bool {
    let control = subject.url.text("control").unwrap_or(SHARED_MEMORY);
    let has_control = subject.entry.name == "sessile" && !place.in_memory;
    place.path.starts_with(SHARED_MEMORY)
        || has_control && Path::new(control).starts_with(SHARED_MEMORY)
}

/// Whether logind is there and removes. Its default is yes.
fn removes_ipc(root: &Path) -> bool {
    let main = root.join(LOGIND);
    let of_vendor = root.join("usr/lib/systemd/logind.conf");
    // The first of the main files counts; logind reads the other only without it.
    let mut files = vec![if main.exists() { main.clone() } else { of_vendor.clone() }];
    for folder in ["usr/lib/systemd", "etc/systemd", "run/systemd"] {
        let found = read_dir(root.join(folder).join("logind.conf.d")).into_iter().flatten();
        let mut found: Vec<PathBuf> = found.flatten().map(|name| name.path()).collect();
        found.sort();
        files.extend(found);
    }
    let words = files.iter().filter_map(|file| read_to_string(file).ok()).flat_map(|text| {
        let value = |line: &str| line.trim().strip_prefix("RemoveIPC=").map(str::to_owned);
        text.lines().filter_map(value).collect::<Vec<_>>()
    });
    let last = words.last();
    let is_no = |word: &str| matches!(word.trim(), "no" | "false" | "0" | "off");
    (main.exists() || of_vendor.exists()) && !last.is_some_and(|word| is_no(&word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::examination::with_subject_below;

    #[test]
    fn counters_that_logind_removes_at_a_log_out_are_found() {
        let root = tempfile::tempdir().unwrap();
        let logind = root.path().join(LOGIND);
        std::fs::create_dir_all(logind.parent().unwrap()).unwrap();
        std::fs::write(&logind, "[Login]\n").unwrap();
        let codes = |url, uid| {
            with_subject_below(root.path(), url, |subject, findings| {
                check_counters_of(subject, "shop", uid, findings);
            })
        };
        let none: [&str; 0] = [];
        assert_eq!(codes("redis://cache/0", UID_MIN), ["counters-removed"]);
        assert_eq!(codes("redis://cache/0", 33), none, "a system user");
        assert_eq!(codes("sessile:/dev/shm/shop", UID_MIN), none, "the engine has its own");
        assert_eq!(codes("memory:", UID_MIN), none, "no other process counts");
        std::fs::write(&logind, "[Login]\nRemoveIPC=no\n").unwrap();
        assert_eq!(codes("redis://cache/0", UID_MIN), none, "and with the fix not");
    }
}
