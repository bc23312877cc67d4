//! Pages of Drupal 7, from the user's copy of it (`--drupal DIR`), for visitors who are logged in:
//! with its own session storage, and with ours over the engine.
//!
//! Each site has its own MariaDB, its own installation and its own `sites`; only Drupal's core is
//! that of the user's copy, by links. Invariants: nothing is written to that copy, and nothing of
//! its sites is read; no text names a directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sessile_fixtures::WebOptions;
use sessile_results::UsageError;
use sessile_results::php_handlers::SESSILE;

use crate::experiments::lifecycle::site::{LifecycleSite, SiteOptions, VisitedPage};
use crate::experiments::web::{Site, of_page, pair};
use crate::interruption::interrupted;
use crate::php::{Handler, PhpInstallation};
use crate::private_places::PrivatePlaces;
use crate::worker::protocol::{ContenderFailure, WorkerResult};

const PAGES: [(&str, &str); 4] = [
    ("site.php", include_str!("../../../../../bench/contenders/php/drupal/site.php")),
    ("install.php", include_str!("../../../../../bench/contenders/php/drupal/install.php")),
    ("login.php", include_str!("../../../../../bench/contenders/php/drupal/login.php")),
    ("page.php", include_str!("../../../../../bench/contenders/php/drupal/page.php")),
];
/// Our storage, as `settings.php` names it.
const STORAGE: [(&str, &str); 2] = [
    ("sessile.inc", include_str!("../../../../../bindings/php/integrations/drupal7/sessile.inc")),
    (
        "session_handler.inc",
        include_str!("../../../../../bindings/php/integrations/drupal7/session_handler.inc"),
    ),
];
/// Users who are logged in. Each request is that of one of them, by chance.
const VISITORS: usize = 256;
/// Only the page of a visitor who is logged in has it.
const LOG_OUT: &str = "user/logout";

/// The place of a copy of Drupal 7.
pub(crate) fn check(copy: &Path) -> Result<PathBuf, UsageError> {
    let bootstrap = fs::read_to_string(copy.join("includes/bootstrap.inc"));
    if bootstrap.is_ok_and(|text| text.contains("define('VERSION', '7."))
        && let Ok(place) = fs::canonicalize(copy)
    {
        return Ok(place);
    }
    let why = "--drupal names no copy of Drupal 7: its includes/bootstrap.inc tells the version";
    Err(UsageError(why.to_owned()))
}

pub(super) fn open(
    handler: &Handler,
    php: &PhpInstallation,
    purpose: &SiteOptions,
    copy: &Path,
) -> WorkerResult<LifecycleSite> {
    let mut places =
        PrivatePlaces::open(&[handler.save_path], handler.server, purpose.durability, &[])?;
    places.hidden.push((copy.display().to_string(), "<drupal>"));
    let root = places.scratch().join("drupal");
    lay_out(copy, &root).map_err(|error| {
        let why = places.redact(&format!("Drupal cannot be laid out: {error}"));
        ContenderFailure::not_started(why)
    })?;
    let socket = places.server_socket().map(|it| it.display().to_string()).unwrap_or_default();
    let mut at_start = php.loading(handler);
    at_start.push(pair("contender.drupal", root.display().to_string()));
    at_start.push(pair("contender.socket", socket));
    // As on Debian, and for all rows.
    at_start.push(pair("session.gc_probability", "0"));
    if handler.save_handler == SESSILE {
        let url = places.fill(handler.save_path);
        let joint = if url.contains('?') { '&' } else { '?' };
        at_start.push(pair("session.save_handler", SESSILE));
        // Quoted: PHP reads settings of its command line as lines of php.ini.
        let url = format!("\"{url}{joint}durability={}\"", purpose.durability.name());
        at_start.push(pair("session.save_path", url));
    }
    at_start.extend(handler.at_start.iter().map(|(name, value)| pair(name, *value)));
    let options = WebOptions {
        pages: PAGES.map(|(name, text)| pair(name, text)).to_vec(),
        at_start,
        settings: [("memory_limit", "256M"), ("display_errors", "0"), ("log_errors", "1")]
            .map(|(name, value)| pair(name, value))
            .to_vec(),
        processes: purpose.processes,
    };
    let site = Site::start(places, &options)?;
    let asked = |page: &str, answer: &str| {
        let got = site.web.get(page).map_err(|error| format!("{page} does not answer: {error}"))?;
        if got.status == 200 && got.body.ends_with(answer) {
            return Ok(got.cookies);
        }
        let last = last_words(&got.body);
        let log = site.last_php_message();
        Err(site.places.redact(&format!("Drupal's {page} fails ({}): {last} {log}", got.status)))
    };
    let installed = asked("install", "installed\n");
    give_back(&root);
    installed.map_err(of_page)?;
    let mut visitors = String::new();
    for number in 0..VISITORS {
        if interrupted() {
            return Err(of_page("interrupted".to_owned()));
        }
        let login = format!("login?number={number}");
        let cookies = asked(&login, "logged in\n").map_err(of_page)?;
        let cookie = cookies.into_iter().rfind(|cookie| cookie.starts_with("SESS"));
        let none = || of_page("Drupal's login sets no cookie".to_owned());
        visitors += &cookie.ok_or_else(none)?;
        visitors.push('\n');
    }
    fs::write(site.places.scratch().join("web/visitors"), visitors)
        .map_err(|error| format!("the visitors cannot be told to the page: {error}"))
        .map_err(of_page)?;
    let page = VisitedPage { contains: LOG_OUT, is_all: false };
    Ok(LifecycleSite::of_pages(site, page))
}

/// The end of a page's text, without its tags.
fn last_words(page: &str) -> String {
    let text: String = page
        .split('<')
        .filter_map(|part| part.split_once('>'))
        .fold(String::new(), |text, (_, words)| text + " " + words);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.get(words.len().saturating_sub(40)..).unwrap_or_default().join(" ")
}

/// Drupal's core as links, beside sites of its own: nothing of the user's sites is used, nor
/// written to.
fn lay_out(copy: &Path, root: &Path) -> std::io::Result<()> {
    fs::create_dir(root)?;
    for entry in fs::read_dir(copy)? {
        let entry = entry?;
        if entry.file_name() != "sites" {
            symlink(entry.path(), root.join(entry.file_name()))?;
        }
    }
    let sites = root.join("sites");
    for dir in ["default", "all/modules", "all/themes", "all/libraries/sessile"] {
        fs::create_dir_all(sites.join(dir))?;
    }
    let settings = "default/default.settings.php";
    fs::copy(copy.join("sites").join(settings), sites.join(settings))?;
    for (name, text) in STORAGE {
        fs::write(sites.join("all/libraries/sessile").join(name), text)?;
    }
    Ok(())
}

/// Drupal's installer takes the right to write from its directory, which would stay.
fn give_back(root: &Path) {
    let writable = fs::Permissions::from_mode(0o755);
    let _ = fs::set_permissions(root.join("sites/default"), writable);
}

#[cfg(test)]
mod tests {
    use sessile_fixtures::PrivateDir;

    use super::*;

    /// The pages of another version would be measured as those of Drupal 7, or the installation
    /// would fail minutes later.
    #[test]
    fn what_is_no_copy_of_drupal_7_is_refused_without_its_place() {
        let dir = PrivateDir::in_shared_memory().unwrap();
        let includes = dir.path().join("includes");
        fs::create_dir(&includes).unwrap();
        let is = |version: &str| {
            let text = format!("<?php\ndefine('VERSION', '{version}');\n");
            fs::write(includes.join("bootstrap.inc"), text).unwrap();
            check(dir.path())
        };
        assert!(is("7.105").is_ok());
        let why = is("6.38").unwrap_err().0;
        assert!(why.contains("--drupal") && !why.contains("/dev/shm"), "{why}");
        assert!(check(&includes).is_err());
    }

    #[test]
    fn the_end_of_a_page_is_told_without_its_tags() {
        assert_eq!(last_words("<html><p class=\"a\">No <b>gd</b>\n here</p></html>"), "No gd here");
        assert_eq!(last_words("no page"), "");
    }

    /// A copy with links made the user's own site the one that was installed into.
    #[test]
    fn the_users_site_is_neither_read_nor_written_to() {
        let (dir, shm) =
            (PrivateDir::in_shared_memory().unwrap(), PrivateDir::in_shared_memory().unwrap());
        let (copy, live) = (dir.path().join("copy"), dir.path().join("live"));
        let path = |name: &str| live.join(name);
        fs::create_dir_all(path("default/files")).unwrap();
        fs::create_dir_all(copy.join("includes")).unwrap();
        fs::write(copy.join("index.php"), "<?php").unwrap();
        fs::write(path("default/default.settings.php"), "<?php").unwrap();
        fs::write(path("default/settings.php"), "the password").unwrap();
        fs::write(path("default/files/upload"), "precious").unwrap();
        symlink(&live, copy.join("sites")).unwrap();
        let root = shm.path().join("drupal");
        lay_out(&copy, &root).unwrap();
        assert!(root.join("index.php").exists() && root.join("includes").is_dir());
        let own = root.join("sites/default");
        assert!(!own.join("settings.php").exists() && !own.join("files").exists());
        fs::write(own.join("settings.php"), "ours").unwrap();
        assert_eq!(fs::read_to_string(path("default/settings.php")).unwrap(), "the password");
        assert_eq!(fs::read_to_string(path("default/files/upload")).unwrap(), "precious");
        assert!(!path("all").exists());
    }
}
