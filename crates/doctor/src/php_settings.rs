//! The settings of PHP, told by a PHP that is run for it.
//!
//! Invariant: the program gets no text of a visitor or a URL; its output is untrusted, and a
//! setting that it does not print is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where PHP's settings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpSource {
    /// PHP is not looked at.
    Nowhere,
    /// The `php` in PATH, if sessile keeps its sessions.
    IfItUsesSessile,
    /// This program, or the one in PATH, with this php.ini or its own.
    Given {
        /// The program.
        program: Option<PathBuf>,
        /// The php.ini, for example that of php-fpm.
        ini: Option<PathBuf>,
    },
}

/// Prints what php_settings reads: one `name=value` each line.
const PRINT: &str = r#"foreach (ini_get_all(null, false) as $name => $value) {
    if (preg_match('/^(session\.|sessile\.|max_execution_time$)/', $name)) {
        echo $name, '=', str_replace("\n", ' ', (string) $value), "\n";
    }
}
echo 'extension=', extension_loaded('sessile') ? 'yes' : 'no', "\n";"#;
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The settings by their names.
#[derive(Clone, Debug, Default)]
pub struct PhpSettings(BTreeMap<String, String>);

impl PhpSettings {
    /// The text of a setting; empty for a missing one.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The number of a setting.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// A switch; `None` if the setting is missing.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        let text = self.0.get(name)?;
        Some(!matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "off" | "no"))
    }
}

/// Runs PHP. Error: why it cannot be asked.
pub fn read(program: Option<&Path>, ini: Option<&Path>) -> Result<PhpSettings, String> {
    let program = program.unwrap_or(Path::new("php"));
    let mut command = Command::new(program);
    if let Some(ini) = ini {
        command.arg("-c").arg(ini);
        // Debian has the files of extensions beside each php.ini.
        let scanned = ini.parent().map(|folder| folder.join("conf.d"));
        if let Some(scanned) = scanned.filter(|folder| folder.is_dir()) {
            command.env("PHP_INI_SCAN_DIR", scanned);
        }
    }
    let asked = command.args(["-r", PRINT]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = asked.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() || output.stdout.len() > OUTPUT_BYTES_MAX {
        return Err(format!("{} does not print its settings", program.display()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(PhpSettings(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
}
