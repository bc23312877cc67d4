//! The settings of PHP, told by a PHP that is run for it.
//!
//! Invariant: the program gets no text of a visitor or a URL; its output is untrusted, and a
//! setting that it does not print is missing.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

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
    if (preg_match('/^(session\.|sessile\.)/', $name)) {
        echo $name, '=', str_replace("\n", ' ', (string) $value), "\n";
    }
}
// A php for the command line has no limit of its own: that of the site is in the files.
$longest = 30;
$files = explode(',', php_ini_loaded_file() . ',' . php_ini_scanned_files());
foreach (array_filter(array_map('trim', $files)) as $file) {
    $parsed = @parse_ini_file($file, false, INI_SCANNER_RAW);
    $longest = $parsed['max_execution_time'] ?? $longest;
}
echo 'max_execution_time=', $longest, "\n";
echo 'extension=', extension_loaded('sessile') ? 'yes' : 'no', "\n";"#;
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
const RUN_MAX: Duration = Duration::from_secs(5);
const ASK_FOR_END: Duration = Duration::from_millis(10);

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
    command.args(["-r", PRINT]).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let output = output_of(child).filter(|output| output.len() as u64 <= OUTPUT_BYTES_MAX);
    let output =
        output.ok_or_else(|| format!("{} does not print its settings", program.display()))?;
    let text = String::from_utf8_lossy(&output);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(PhpSettings(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
}

/// What a program prints, at most a byte more than is allowed. `None` if it fails or takes too
/// long, also if a child of it keeps the pipe open; then it is ended.
fn output_of(mut child: Child) -> Option<Vec<u8>> {
    let until = Instant::now() + RUN_MAX;
    let pipe = child.stdout.take()?;
    let (printed, prints) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
        // Nobody listens when the time is over.
        let _ = printed.send(read.is_ok().then_some(bytes));
    });
    let left = || until.saturating_duration_since(Instant::now());
    let bytes = prints.recv_timeout(left()).ok().flatten();
    while bytes.is_some() && !left().is_zero() {
        match child.try_wait() {
            Ok(Some(status)) => return bytes.filter(|_| status.success()),
            Ok(None) => std::thread::sleep(ASK_FOR_END),
            Err(_) => break,
        }
    }
    // Both fail only for a program that has ended.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_php_that_hangs_or_prints_without_end_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        for (name, script) in [("hangs", "sleep 60"), ("prints", "yes"), ("keeps", "sleep 60 & :")]
        {
            let program = dir.path().join(name);
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
            let start = Instant::now();
            let why = read(Some(&program), None).unwrap_err();
            assert!(why.contains("does not print"), "{why}");
            assert!(start.elapsed() < 4 * RUN_MAX, "{name}: {:?}", start.elapsed());
        }
    }
}
