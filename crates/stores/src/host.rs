//! The name of this host, as it is told to those who ask who holds a lock.

use std::sync::OnceLock;

/// Longest name that is told; the rest is cut.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// The name in printable ASCII, at most [`NAME_BYTES_MAX`] of it; empty when the kernel does not say.
pub(crate) fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().chars().filter(char::is_ascii_graphic).take(NAME_BYTES_MAX).collect()
    })
}
