//! The numbers of a storm, and the first of its violations.

use std::collections::{HashMap, VecDeque};

use super::event::WorkerEvent;

pub const TRAILS_MAX: usize = 3;
const TRAIL_EVENTS: usize = 40;
const PROBLEMS_OF_A_KIND_MAX: usize = 3;
const PROBLEMS_LISTED_MAX: usize = 30;

#[derive(Default)]
pub struct StormCounts {
    pub calls: u64,
    pub commits: u64,
    pub reads: u64,
    pub timeouts: u64,
    /// Killed while the lock was certainly held, and another got it afterwards.
    pub steals: u64,
    /// Killed between the report of a call that changes something and its result.
    pub killed_in_change: u64,
    /// From the death of a holder, or the first client that wanted the lock after it, to the next
    /// grant.
    pub freed_ms: Vec<f64>,
    pub problems: Vec<String>,
    pub problems_unlisted: u64,
    pub trails: Vec<String>,
}

#[derive(Default)]
pub struct SessionTrails(HashMap<u64, VecDeque<String>>);

impl SessionTrails {
    pub fn add(&mut self, id: u64, worker: usize, at_ns: u64, event: &WorkerEvent) {
        let trail = self.0.entry(id).or_default();
        if trail.len() >= TRAIL_EVENTS {
            trail.pop_front();
        }
        trail.push_back(format!("\n    process {worker}: {at_ns} {event:?}"));
    }

    pub fn of_session(&self, id: u64) -> String {
        self.0.get(&id).into_iter().flatten().cloned().collect()
    }
}

impl StormCounts {
    pub fn note(&mut self, problem: String) {
        let of_kind = kind(&problem);
        let same = self.problems.iter().filter(|listed| kind(listed) == of_kind).count();
        if same < PROBLEMS_OF_A_KIND_MAX && self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(problem);
        } else {
            self.problems_unlisted += 1;
        }
    }
}

/// The same words about other sessions, moments and writes are the same kind.
fn kind(problem: &str) -> Vec<&str> {
    let numbered = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
    problem.split(' ').filter(|word| !numbered(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_of_problem_does_not_hide_another() {
        let mut counts = StormCounts::default();
        (0..100)
            .for_each(|session| counts.note(format!("session {session}: lost at {session} ms")));
        counts.note("session 7: torn".into());
        assert_eq!((counts.problems.len(), counts.problems_unlisted), (4, 97));
        assert_eq!(counts.problems.last().map(String::as_str), Some("session 7: torn"));
    }
}
