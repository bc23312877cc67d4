//! On which processors workers run that are held against each other.
//!
//! A worker that wakes up goes on where it ran before. Of two programs that take turns each then keeps a processor of its own for
//! hundreds of samples, and what neighbours do to one of the two is taken for a difference of the programs. So both have the same
//! processors in the turns that belong together, and others in the next round.

use std::io;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// One processor for each of so many workers, drawn by a seed among those that this process may use. As many workers as there
/// are processors use all of them, and each may use any.
pub(super) fn drawn(workers: usize, seed: u64) -> io::Result<Vec<CpuSet>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let mut processors: Vec<usize> = (0..CpuSet::count()).filter(|it| allowed.is_set(*it).unwrap_or(false)).collect();
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

/// Lets a process run nowhere else, nor what it has started: the worker may be the child of a script.
pub(super) fn place(pid: u32, processors: &CpuSet) -> io::Result<()> {
    let put = |task: u32| -> io::Result<()> {
        let number = i32::try_from(task).map_err(io::Error::other)?;
        Ok(sched_setaffinity(Pid::from_raw(number), processors)?)
    };
    put(pid)?;
    for task in tasks(pid) {
        unless_gone(put(task))?;
        // A kernel without that file is none that a distribution has built.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
        children.try_for_each(|child| unless_gone(place(child, processors)))?;
    }
    Ok(())
}

fn tasks(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// What a script starts for a moment may end in this one.
fn unless_gone(placed: io::Result<()>) -> io::Result<()> {
    placed.or_else(|error| if error.raw_os_error() == Some(Errno::ESRCH as i32) { Ok(()) } else { Err(error) })
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
            let sets: Vec<BTreeSet<usize>> = drawn(workers, 7).unwrap().iter().map(processors).collect();
            let all: BTreeSet<usize> = sets.iter().flatten().copied().collect();
            assert!(
                sets.iter().all(|set| set.len() == 1) && all.len() == workers && all.is_subset(&allowed),
                "{sets:?}"
            );
            assert_eq!(sets, drawn(workers, 7).unwrap().iter().map(processors).collect::<Vec<BTreeSet<usize>>>());
        }
        for workers in [allowed.len(), allowed.len() + 1] {
            let sets = drawn(workers, 7).unwrap();
            assert!(sets.len() == workers && sets.iter().all(|set| processors(set) == allowed));
        }
        let one = |seed: u64| processors(drawn(1, seed).unwrap().first().unwrap());
        let ever: BTreeSet<usize> = (0..100 * allowed.len() as u64).flat_map(one).collect();
        assert_eq!(ever, allowed, "a round comes to each of them");
    }

    struct Ends(Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A program that is given as `--against` may be a script that goes on beside the worker.
    #[test]
    fn what_a_script_has_started_is_placed_with_it() {
        // The subshells end while they are looked for.
        let script = "sleep 60 & echo $! >$0; while :; do (:); done";
        let dir = tempfile::tempdir().unwrap();
        let noted = dir.path().join("pid");
        let script = Ends(Command::new("sh").args(["-c", script]).arg(&noted).spawn().unwrap());
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
            place(script.0.id(), &set).unwrap();
        }
        assert_eq!([of_process(script.0.id()), of_process(child)], [(); 2].map(|()| BTreeSet::from([last])));
        let _ = nix::sys::signal::kill(Pid::from_raw(child.try_into().unwrap()), nix::sys::signal::SIGKILL);
    }
}
