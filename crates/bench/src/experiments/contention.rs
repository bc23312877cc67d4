//! `contention`: not built yet.
use crate::experiments::Bench;
use crate::run::RunError;
pub(super) fn run(_bench: &mut Bench) -> Result<(), RunError> {
    Ok(())
}
