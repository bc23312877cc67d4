//! Every case, one file a subject of the contract.
//!
//! The order is the order of the rows of the matrix. The imports are the vocabulary of all cases.

use std::time::{Duration, Instant};

use sessile_core::{Bin, Budget, Counter, ErrorKind, Filter, Key, Limits, Ttl};

use crate::case::*;
use crate::check::{
    Failure, SECRET, ensure, equal, eventually, refused, refused_early, soon, unless_refused,
};
use crate::concurrent::{
    behind_a_waiter, count_cycles, in_closed_loops, join, on_threads, race, wait_after,
};
use crate::sealed::{BYTES_MIN, seal, token_of};
use crate::testbed::{
    BegunText, FREE, FREE_WITHIN, MINUTE, PATIENCE, TestStore, Testbed, minute, ms, new_key,
    new_key_in, open, payload, secs, storm_factor, text_of, ttl,
};
use crate::worker::{SuiteWorker, command, number};

mod answers;
mod create;
mod deaths;
mod destroy;
mod expiry;
mod fences;
mod limits;
mod listing;
mod locks;
mod opening;
mod operators;
mod owners;
mod processes;
mod races;
mod records;
mod regenerate;
mod servers;
mod stalls;
mod sweep;
mod touch;

pub fn all() -> Vec<Case> {
    let subjects = [
        records::CASES,
        create::CASES,
        expiry::CASES,
        touch::CASES,
        locks::CASES,
        fences::CASES,
        destroy::CASES,
        regenerate::CASES,
        limits::CASES,
        sweep::CASES,
        listing::CASES,
        owners::CASES,
        operators::CASES,
        races::CASES,
        opening::CASES,
        processes::CASES,
        deaths::CASES,
        servers::CASES,
        answers::CASES,
        stalls::CASES,
    ];
    subjects.concat()
}
