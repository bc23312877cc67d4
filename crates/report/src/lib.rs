//! The results of the benchmark as one page of HTML.
//!
//! The way through it: [`html`] takes the results of several experiments; each file of `section` picks the rows that it
//! is about and makes a part of the page from tables (`table`) and charts (`chart`); `page` puts head, contents and
//! sections together. An experiment that was not run says so in its place.
//!
//! Invariants: the page needs nothing but itself, neither a network nor JavaScript, and a content security policy holds it
//! to that; every text from a result is escaped; a row that failed is shown where its figure would stand. Nothing is
//! measured and nothing is judged here: figures and verdicts are those of `sessile-bench`.

#![forbid(unsafe_code)]

mod chart;
mod ids;
mod ink;
mod missing;
mod number;
mod page;
mod runs;
mod section;
mod table;

use std::fmt;

use sessile_bench::Collection;

use crate::runs::Runs;

/// A chart could not be drawn. What it says is the drawing library's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawError(String);

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a chart of the report cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for DrawError {}

/// The page for these results: experiments in any order; several runs of one experiment stand one after the other. What is
/// not there is said to be missing in its section, with the reason if the collection has one.
///
/// # Errors
///
/// [`DrawError`], when the drawing library refuses a figure; the tables alone are not worth a page.
pub fn html(results: &Collection) -> Result<String, DrawError> {
    let runs = Runs::of(results);
    let sections = section::all(&runs)?;
    Ok(page::page(&runs, &sections).into_string())
}
