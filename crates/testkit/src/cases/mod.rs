//! Every case, one file a subject of the contract.
//!
//! The order is the order of the rows of the matrix.

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
mod processes;
mod races;
mod records;
mod regenerate;
mod servers;
mod sweep;
mod touch;

use crate::case::Case;

/// All cases.
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
        operators::CASES,
        races::CASES,
        opening::CASES,
        processes::CASES,
        deaths::CASES,
        servers::CASES,
    ];
    subjects.concat()
}
