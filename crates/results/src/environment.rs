//! The machine and the programs of a run. Never contains a host name, user, absolute path or kernel
//! build suffix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// The distribution.
    pub system: String,
    pub disk_file_system: String,
    /// How it is mounted.
    #[serde(default)]
    pub disk_mount_options: String,
    pub sessile: String,
    /// `release` or `debug`.
    pub build: String,
    /// Of the sources, and whether they differed from it.
    #[serde(default)]
    pub commit: String,
    /// Compiler, target and flags.
    #[serde(default)]
    pub build_flags: String,
    /// The command line of each private server that was measured, without its program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, String>,
    pub versions: BTreeMap<String, String>,
}
