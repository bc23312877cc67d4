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

impl Environment {
    /// What of machine and build differs, here and there. Two programs may be of different
    /// versions.
    pub fn differences(&self, other: &Environment) -> Vec<(String, String, String)> {
        let facts = |it: &Environment| {
            [
                ("the processor", it.cpu.clone()),
                ("the number of processors", it.cores.to_string()),
                ("the memory in bytes", it.memory_bytes.to_string()),
                ("the kernel", it.kernel.clone()),
                ("the system", it.system.clone()),
                ("the file system", it.disk_file_system.clone()),
                ("the mount of the disk", it.disk_mount_options.clone()),
                ("the build", it.build_flags.clone()),
            ]
        };
        let both = facts(self).into_iter().zip(facts(other));
        let both = both.map(|((what, here), (_, there))| (what.to_owned(), here, there));
        both.filter(|(_, here, there)| here != there).collect()
    }

    /// The same for the servers that both have measured.
    pub fn differences_of_servers(&self, other: &Environment) -> Vec<(String, String, String)> {
        let both = self.servers.iter().filter_map(|(name, here)| {
            let there = other.servers.get(name)?;
            Some((format!("the command line of {name}"), here.clone(), there.clone()))
        });
        both.filter(|(_, here, there)| here != there).collect()
    }
}
