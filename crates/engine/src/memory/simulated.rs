//! A disk that a unit test puts in the place of the real one, for the stores that its thread opens.
//!
//! Invariant: outside unit tests, and in models, there is none, and these functions do nothing.

#[cfg(any(not(test), sessile_model))]
use super::data_file::DataFile;

#[cfg(any(not(test), sessile_model))]
pub fn behind_simulated_disk(_: &str, file: Box<dyn DataFile>) -> Box<dyn DataFile> {
    file
}

#[cfg(any(not(test), sessile_model))]
pub const fn is_disk_simulated() -> bool {
    false
}

#[cfg(any(not(test), sessile_model))]
pub const fn simulate_sync_of_names() {}

#[cfg(all(test, not(sessile_model)))]
pub use chosen::*;

#[cfg(all(test, not(sessile_model)))]
mod chosen {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::super::data_file::DataFile;

    pub trait SimulatedDisk {
        /// What the engine gets instead of a file of the store.
        fn opened(&self, name: &str, file: Box<dyn DataFile>) -> Box<dyn DataFile>;

        /// The names in the directory of the store are on the disk.
        fn names_synced(&self);
    }

    thread_local! {
        static CHOSEN: RefCell<Option<Rc<dyn SimulatedDisk>>> = const { RefCell::new(None) };
    }

    /// Runs with this disk below all stores that the thread opens meanwhile.
    pub fn with_simulated_disk<T>(disk: Rc<dyn SimulatedDisk>, run: impl FnOnce() -> T) -> T {
        let before = CHOSEN.replace(Some(disk));
        let result = run();
        CHOSEN.set(before);
        result
    }

    pub fn behind_simulated_disk(name: &str, file: Box<dyn DataFile>) -> Box<dyn DataFile> {
        match CHOSEN.with_borrow(Clone::clone) {
            Some(disk) => disk.opened(name, file),
            None => file,
        }
    }

    pub fn is_disk_simulated() -> bool {
        CHOSEN.with_borrow(Option::is_some)
    }

    pub fn simulate_sync_of_names() {
        if let Some(disk) = CHOSEN.with_borrow(Clone::clone) {
            disk.names_synced();
        }
    }
}
