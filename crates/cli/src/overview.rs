//! `sessile` without a verb on a terminal: PHP's settings, the stores that are here, what to do.
//!
//! Reads files at known places only: no store is opened and no program is started.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::command_result::CommandResult;
use crate::terminal::print;

/// The first line of the file `format` of an engine: crates/engine/src/storage/format.rs.
const ENGINE: &str = "sessile engine";
/// Directories in which engines are usually made.
const PLACES: [&str; 3] = ["/var/lib/sessile", "/dev/shm", "/var/lib/php"];
const STORES_SHOWN_MAX: usize = 20;

pub fn run() -> CommandResult {
    print(&overview(Path::new("/")))
}

/// `root` stands for the root of the file system.
fn overview(root: &Path) -> String {
    let mut text = "Sessile keeps the sessions of web applications.\n\nPHP\n".to_owned();
    let settings = php_settings(root);
    if settings.is_empty() {
        text.push_str("  no settings of PHP in /etc/php\n");
    }
    for PhpSetting { file, handler, path } in &settings {
        let _ = writeln!(text, "  {}: {handler} {}", file.display(), path.as_deref().unwrap_or(""));
    }
    text.push_str("\nStores\n");
    let stores = stores(root);
    if stores.is_empty() {
        text.push_str("  no engine in /var/lib/sessile, /dev/shm and /var/lib/php\n");
    }
    for store in stores.iter().take(STORES_SHOWN_MAX) {
        let _ = writeln!(text, "  sessile:{}", store.display());
    }
    if let Some(more) = stores.len().checked_sub(STORES_SHOWN_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
    let url = stores.first().map_or("URL".to_owned(), |it| format!("sessile:{}", it.display()));
    let _ = write!(
        text,
        "\nNext\n  sessile stat {url}\n  sessile stores       the kinds of stores\n  sessile \
         bench        measures them here, half a minute\n  sessile --help       all verbs\n"
    );
    text
}

/// Where PHP's settings choose a handler of sessions.
struct PhpSetting {
    file: PathBuf,
    handler: String,
    path: Option<String>,
}

/// From /etc/php/VERSION/SERVER: php.ini, conf.d and the pools of php-fpm.
fn php_settings(root: &Path) -> Vec<PhpSetting> {
    let versions = entries(&root.join("etc/php"));
    let servers = versions.iter().flat_map(|version| entries(version));
    let files = servers.flat_map(|server| {
        let mut files = vec![server.join("php.ini")];
        files.extend(entries(&server.join("conf.d")));
        files.extend(entries(&server.join("pool.d")));
        files
    });
    files.filter_map(|file| php_setting(file, root)).collect()
}

fn php_setting(file: PathBuf, root: &Path) -> Option<PhpSetting> {
    let text = std::fs::read_to_string(&file).ok()?;
    let value = |name: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with([';', '#']));
        lines.filter_map(|line| line.split_once('=')).rev().find_map(|(key, value)| {
            let key = key.trim();
            let named = key == name || key.ends_with(&format!("[{name}]"));
            named.then(|| value.trim().trim_matches('"').to_owned())
        })
    };
    let handler = value("session.save_handler")?;
    // The URL of a server may have a password, a path of an engine or of files has none.
    let path = value("session.save_path")
        .map(|path| if path.contains('@') { "(a URL with a login)".to_owned() } else { path });
    let file = Path::new("/").join(file.strip_prefix(root).unwrap_or(&file));
    Some(PhpSetting { file, handler, path })
}

/// Engines directly in the usual places, or one directory deeper.
fn stores(root: &Path) -> Vec<PathBuf> {
    let is_store = |place: &PathBuf| {
        std::fs::read_to_string(place.join("format")).is_ok_and(|text| text.starts_with(ENGINE))
    };
    let places = PLACES.iter().map(|place| root.join(place.trim_start_matches('/')));
    let candidates = places.flat_map(|place| [vec![place.clone()], entries(&place)].concat());
    let found = candidates.filter(is_store);
    found.map(|place| Path::new("/").join(place.strip_prefix(root).unwrap_or(&place))).collect()
}

/// What is in a directory, sorted; nothing if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_stores_are_found_and_passwords_are_not_shown() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        assert!(overview(root.path()).contains("no engine in"), "nothing is there yet");
        write("etc/php/8.4/fpm/php.ini", "; session.save_handler = none\nsession.name = a\n");
        write(
            "etc/php/8.4/fpm/conf.d/30-sessile-sessions.ini",
            "session.save_handler = sessile\n\
             session.save_path = \"sessile:/var/lib/sessile/php\"\n",
        );
        write(
            "etc/php/8.4/fpm/pool.d/shop.conf",
            "php_value[session.save_handler] = sessile\n\
             php_value[session.save_path] = redis://shop:topsecret@cache\n",
        );
        write("var/lib/sessile/php/format", "sessile engine\nformat 3\n");
        write("var/lib/sessile/other/format", "of another program\n");
        let text = overview(root.path());
        for line in [
            "  /etc/php/8.4/fpm/conf.d/30-sessile-sessions.ini: sessile \
             sessile:/var/lib/sessile/php",
            "  /etc/php/8.4/fpm/pool.d/shop.conf: sessile (a URL with a login)",
            "  sessile:/var/lib/sessile/php",
            "  sessile stat sessile:/var/lib/sessile/php",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("topsecret") && !text.contains("other"), "{text}");
        assert!(!text.contains("php.ini"), "a comment is no setting: {text}");
        assert!(text.lines().count() < 24, "{text}");
    }
}
