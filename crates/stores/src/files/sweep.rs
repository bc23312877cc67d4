//! The sweep. It looks at stat alone where it can, and keeps its position between calls.
//!
//! Invariant: a file is removed only under its lock and gate, after looking again. So a file that
//! is leased, or was touched at this instant, stays.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, Stat};
use sessile_core::{Budget, Result, Swept};

use super::directory::FileName;
use super::lock::try_flock;
use super::mode::{FileRole, Mode};
use super::system::is_regular;
use super::walk::Walk;
use crate::locks::process_local::ProcessLocal;

/// A temporary file lives for microseconds. A process that is stopped for longer than this finds
/// its file removed and fails to commit, with the old record intact.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(900);

/// Where the next sweep continues. A forked child would share the position of its parent's
/// directories.
pub type SweptTo = ProcessLocal<Walk>;

pub fn sweep(mode: &impl Mode, swept_to: &SweptTo, budget: Budget) -> Result<Swept> {
    let mut walk = swept_to.take();
    let swept = sweep_from(mode, &mut walk, budget);
    swept_to.put(walk);
    swept
}

fn sweep_from(mode: &impl Mode, walk: &mut Walk, budget: Budget) -> Result<Swept> {
    let start = Instant::now();
    if walk.is_complete() {
        *walk = Walk::new(mode, mode.swept_folder())?;
    }
    let mut swept = Swept::default();
    while swept.examined < budget.records_max && start.elapsed() < budget.time_max {
        let Some(found) = walk.next(mode)? else {
            swept.complete = true;
            break;
        };
        if matches!(found.role, FileRole::Foreign) {
            continue;
        }
        let name = mode.root().name(found.path);
        if !matches!(found.role, FileRole::Temporary) {
            swept.removed += u64::from(mode.sweep_file(&found.role, &name)?);
        } else if is_leftover(&name)? {
            name.unlink()?;
        }
        swept.examined += 1;
    }
    Ok(swept)
}

/// Whether the writer of a file was killed.
pub fn is_leftover(name: &FileName<'_>) -> Result<bool> {
    // By the kernel's clock, which no test drives.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_old = |stat: Stat| {
        let changed = Duration::from_secs(stat.st_ctime.unsigned_abs());
        is_regular(&stat) && now.saturating_sub(changed) > TEMPORARY_AGE_MAX
    };
    Ok(name.stat()?.is_some_and(is_old))
}

/// Removes a file that is due by its stat, before and under its lock and gate. `may_remove` looks
/// into it and returns `Some` if it may go: whether it is a record.
pub fn remove_if_due(
    name: &FileName<'_>,
    is_due: impl Fn(&Stat) -> bool,
    may_remove: impl FnOnce(&OwnedFd, &Stat) -> Option<bool>,
) -> Result<bool> {
    if !name.stat()?.is_some_and(|stat| is_regular(&stat) && is_due(&stat)) {
        return Ok(false);
    }
    if let Some(opened) = name.open_checked(OFlags::RDWR)?
        && try_flock(&opened.0)?
        && let Some(named) = name.enter_gate(&opened)?.filter(is_due)
        && let Some(is_record) = may_remove(&opened.0, &named)
    {
        name.unlink()?;
        return Ok(is_record);
    }
    Ok(false)
}
