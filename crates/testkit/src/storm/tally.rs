//! The numbers of a storm, and what was wrong, told without drowning the reader.

use std::collections::{HashMap, VecDeque};

use super::event::Event;

/// Sessions whose events are told, and how many of each.
pub const TRAILS_MAX: usize = 3;
const TRAIL_EVENTS: usize = 40;
/// Problems that are told in full, of one kind and of all; beyond they are counted.
const PROBLEMS_OF_A_KIND_MAX: usize = 3;
const PROBLEMS_TOLD_MAX: usize = 30;

/// What the processes did, as the checker heard it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub calls: u64,
    pub commits: u64,
    pub reads: u64,
    pub timeouts: u64,
    /// Killed while the lock was surely held, and another got it afterwards.
    pub steals: u64,
    /// Killed between the line of a call that changes something and its answer.
    pub killed_in_change: u64,
    /// From the death of a holder, or the first one who wanted the lock after it, to the next grant.
    pub freed_ms: Vec<f64>,
    pub problems: Vec<String>,
    pub problems_untold: u64,
    /// What was heard of a session before a violation, for the first few.
    pub trails: Vec<String>,
}

/// The last events about each session, for whoever has to find out why.
#[derive(Debug, Default)]
pub struct Trails(HashMap<u64, VecDeque<String>>);

impl Trails {
    /// Remembers an event of a process about a session.
    pub fn add(&mut self, id: u64, worker: usize, at_ns: u64, event: &Event) {
        let trail = self.0.entry(id).or_default();
        if trail.len() >= TRAIL_EVENTS {
            trail.pop_front();
        }
        trail.push_back(format!("process {worker}: {}", event.line(at_ns).trim_end()));
    }

    /// What is remembered of a session.
    pub fn of(&self, id: u64) -> String {
        self.0.get(&id).map(|trail| trail.iter().cloned().collect::<Vec<_>>().join("\n    ")).unwrap_or_default()
    }
}

impl Tally {
    /// Notes a violation.
    pub fn note(&mut self, problem: String) {
        let of_kind = kind(&problem);
        let same = self.problems.iter().filter(|told| kind(told) == of_kind).count();
        if same < PROBLEMS_OF_A_KIND_MAX && self.problems.len() < PROBLEMS_TOLD_MAX {
            self.problems.push(problem);
        } else {
            self.problems_untold += 1;
        }
    }
}

/// The same words about other sessions, moments and writes are the same kind.
fn kind(problem: &str) -> String {
    let numbered = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    problem.split(' ').filter(|word| !numbered(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_of_problem_does_not_hide_another() {
        let mut tally = Tally::default();
        (0..100).for_each(|session| tally.note(format!("session {session}: lost at {session} ms")));
        tally.note("session 7: torn".into());
        assert_eq!((tally.problems.len(), tally.problems_untold), (4, 97));
        assert_eq!(tally.problems.last().map(String::as_str), Some("session 7: torn"));
    }
}
