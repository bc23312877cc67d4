//! The name of this host, for the note of a lock.

use std::sync::OnceLock;

pub const NAME_BYTES_MAX: usize = 64;

/// The name in printable ASCII, up to [`NAME_BYTES_MAX`]; empty if the kernel gives none.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().chars().filter(char::is_ascii_graphic).take(NAME_BYTES_MAX).collect()
    })
}
