//! The process behind the workers of the conformance suite.

#![forbid(unsafe_code)]

fn main() {
    sessile_testkit::run_suite_worker(&std::env::args().nth(1).unwrap_or_default());
}
