//! Processors for the workers of two programs that are compared.
//!
//! Linux lets a worker continue where it ran before. Each program would keep its own processor for
//! hundreds of samples, and the effect of neighbours on one of them would look like a difference of
//! the programs. So both use the same processors in samples that belong together, and others in the
//! next round.

use std::io;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// One processor for each worker, drawn from those that this process may use. With fewer processors
/// than workers plus one, each worker may use all.
pub(super) fn draw_processors(workers: usize, seed: u64) -> io::Result<Vec<CpuSet>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let mut processors: Vec<usize> =
        (0..CpuSet::count()).filter(|it| allowed.is_set(*it).unwrap_or(false)).collect();
    if workers >= processors.len() {
        return Ok(vec![allowed; workers]);
    }
    fastrand::Rng::with_seed(seed).shuffle(&mut processors);
    let alone = |processor: usize| {
        let mut set = CpuSet::new();
        set.set(processor).map(|()| set).map_err(io::Error::from)
    };
    processors.into_iter().take(workers).map(alone).collect()
}

/// Also pins the children of the process: a script may have started the worker.
pub(super) fn pin(pid: u32, processors: &CpuSet) -> io::Result<()> {
    let pin_task = |task: u32| -> io::Result<()> {
        let number = i32::try_from(task).map_err(io::Error::other)?;
        Ok(sched_setaffinity(Pid::from_raw(number), processors)?)
    };
    pin_task(pid)?;
    for task in tasks(pid) {
        unless_gone(pin_task(task))?;
        // Every distribution's kernel has this file.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{task}/children"))
            .unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
        children.try_for_each(|child| unless_gone(pin(child, processors)))?;
    }
    Ok(())
}

fn tasks(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A short-lived child of a script may end meanwhile.
fn unless_gone(placed: io::Result<()>) -> io::Result<()> {
    placed.or_else(|error| {
        if error.raw_os_error() == Some(Errno::ESRCH as i32) { Ok(()) } else { Err(error) }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    fn processors(set: &CpuSet) -> BTreeSet<usize> {
        (0..CpuSet::count()).filter(|it| set.is_set(*it).unwrap()).collect()
    }

    fn of_process(pid: u32) -> BTreeSet<usize> {
        processors(&sched_getaffinity(Pid::from_raw(pid.try_into().unwrap())).unwrap())
    }

    #[test]
    fn each_worker_has_one_of_its_own_and_the_same_seed_draws_the_same() {
        let allowed = of_process(std::process::id());
        for workers in 1..allowed.len() {
            let sets: Vec<BTreeSet<usize>> =
                draw_processors(workers, 7).unwrap().iter().map(processors).collect();
            let all: BTreeSet<usize> = sets.iter().flatten().copied().collect();
            assert!(
                sets.iter().all(|set| set.len() == 1)
                    && all.len() == workers
                    && all.is_subset(&allowed),
                "{sets:?}"
            );
            assert_eq!(
                sets,
                draw_processors(workers, 7)
                    .unwrap()
                    .iter()
                    .map(processors)
                    .collect::<Vec<BTreeSet<usize>>>()
            );
        }
        for workers in [allowed.len(), allowed.len() + 1] {
            let sets = draw_processors(workers, 7).unwrap();
            assert!(sets.len() == workers && sets.iter().all(|set| processors(set) == allowed));
        }
        let one = |seed: u64| processors(draw_processors(1, seed).unwrap().first().unwrap());
        let ever: BTreeSet<usize> = (0..100 * allowed.len() as u64).flat_map(one).collect();
        assert_eq!(ever, allowed, "a round comes to each of them");
    }

    struct KilledOnDrop(Child);

    impl Drop for KilledOnDrop {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A program that is given as `--baseline` may be a script that goes on beside the worker.
    #[test]
    fn what_a_script_has_started_is_placed_with_it() {
        // The subshells end while they are looked for.
        let script = "sleep 60 & echo $! >$0; while :; do (:); done";
        let dir = tempfile::tempdir().unwrap();
        let noted = dir.path().join("pid");
        let script =
            KilledOnDrop(Command::new("sh").args(["-c", script]).arg(&noted).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(30);
        let child = loop {
            match std::fs::read_to_string(&noted).unwrap_or_default().trim().parse::<u32>() {
                Ok(child) => break child,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < until, "it has started nothing");
        };
        let last = *of_process(child).last().unwrap();
        let mut set = CpuSet::new();
        set.set(last).unwrap();
        for _ in 0..100 {
            pin(script.0.id(), &set).unwrap();
        }
        assert_eq!(
            [of_process(script.0.id()), of_process(child)],
            [(); 2].map(|()| BTreeSet::from([last]))
        );
        let _ = nix::sys::signal::kill(
            Pid::from_raw(child.try_into().unwrap()),
            nix::sys::signal::SIGKILL,
        );
    }
}
