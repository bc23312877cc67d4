//! Pages of Drupal 7, from the user's copy of it (`--drupal DIR`), for visitors who are logged in:
//! with its own session storage, and with ours over the engine.
//!
//! Each site has its own copy, its own MariaDB and its own installation, so that the user's copy is
//! only read. Invariant: no text names a directory.

use std::path::Path;
use std::process::{Command, Stdio};

use sessile_fixtures::{Web, WebOptions};
use sessile_results::UsageError;
use sessile_results::php_handlers::SESSILE;

use crate::experiments::lifecycle::site::{LifecycleSite, SiteOptions, VisitedPage};
use crate::php::{Handler, PhpInstallation};
use crate::private_places::PrivatePlaces;
use crate::redact;

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
/// Who ask for pages, one of them at random each time.
const VISITORS: usize = 64;
/// Only the page of a visitor who is logged in has it.
const LOG_OUT: &str = "user/logout";

/// Whether a directory is a copy of Drupal 7.
pub(crate) fn check(copy: &Path) -> Result<(), UsageError> {
    let bootstrap = std::fs::read_to_string(copy.join("includes/bootstrap.inc"));
    if bootstrap.is_ok_and(|text| text.contains("define('VERSION', '7.")) {
        return Ok(());
    }
    let why = "--drupal names no copy of Drupal 7: its includes/bootstrap.inc tells the version";
    Err(UsageError(why.to_owned()))
}

pub(super) fn open(
    handler: &Handler,
    php: &PhpInstallation,
    purpose: &SiteOptions,
    copy: &Path,
) -> Result<LifecycleSite, String> {
    let mut places =
        PrivatePlaces::open(&[handler.save_path], handler.server, purpose.durability, &[])?;
    places.hidden.push((copy.display().to_string(), "<drupal>"));
    let root = places.scratch().join("drupal");
    copy_drupal(copy, &root)?;
    let socket = places.server_socket().map(|it| it.display().to_string()).unwrap_or_default();
    let mut at_start = php.loading(handler);
    let pair = |name: &str, value: String| (name.to_owned(), value);
    at_start.push(pair("contender.drupal", root.display().to_string()));
    at_start.push(pair("contender.socket", socket));
    if handler.save_handler == SESSILE {
        let url = places.fill(handler.save_path);
        at_start.push(pair("session.save_handler", SESSILE.to_owned()));
        at_start.push(pair(
            "session.save_path",
            // Quoted: PHP reads settings of its command line as lines of php.ini.
            format!("\"{url}?durability={}\"", purpose.durability.name()),
        ));
    }
    let options = WebOptions {
        pages: PAGES.map(|(name, text)| pair(name, text.to_owned())).to_vec(),
        at_start,
        settings: vec![pair("memory_limit", "256M".into()), pair("log_errors", "1".into())],
        processes: purpose.processes,
    };
    let web =
        Web::start(places.scratch(), &options).map_err(|error| redact::start_error(&error))?;
    let asked = |page: &str, answer: &str| {
        let got = web.get(page).map_err(|error| format!("{page} does not answer: {error}"))?;
        if got.status == 200 && got.body.ends_with(answer) {
            return Ok(got.cookies);
        }
        let last = last_words(&got.body);
        let log = web.log();
        let log = log.lines().rfind(|line| line.contains("PHP ")).unwrap_or_default();
        Err(places.redact(&format!("Drupal's {page} fails ({}): {last} {log}", got.status)))
    };
    asked("install", "installed\n")?;
    let mut visitors = String::new();
    for _ in 0..VISITORS {
        let cookies = asked("login", "logged in\n")?;
        let cookie = cookies.into_iter().rfind(|cookie| cookie.starts_with("SESS"));
        visitors += &cookie.ok_or("Drupal's login sets no cookie")?;
        visitors.push('\n');
    }
    std::fs::write(places.scratch().join("web/visitors"), visitors)
        .map_err(|error| format!("the visitors cannot be told to the page: {error}"))?;
    let page = VisitedPage { contains: LOG_OUT, is_all: false };
    Ok(LifecycleSite::of_pages(web, places, page))
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

fn copy_drupal(copy: &Path, root: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("Drupal is not copied: {error}");
    let mut command = Command::new("cp");
    command.arg("-R").arg(copy).arg(root).stdin(Stdio::null());
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        return Err("Drupal cannot be copied into shared memory".to_owned());
    }
    // What the user's own site has there is none of ours.
    let own = root.join("sites/default");
    for name in ["settings.php", "files"] {
        let _ = std::fs::remove_dir_all(own.join(name))
            .or_else(|_| std::fs::remove_file(own.join(name)));
    }
    let storage = root.join("sites/all/libraries/sessile");
    std::fs::create_dir_all(&storage).map_err(failed)?;
    for (name, text) in STORAGE {
        std::fs::write(storage.join(name), text).map_err(failed)?;
    }
    Ok(())
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
        std::fs::create_dir(&includes).unwrap();
        let is = |version: &str| {
            let text = format!("<?php\ndefine('VERSION', '{version}');\n");
            std::fs::write(includes.join("bootstrap.inc"), text).unwrap();
            check(dir.path())
        };
        assert_eq!(is("7.105"), Ok(()));
        let why = is("6.38").unwrap_err().0;
        assert!(why.contains("--drupal") && !why.contains("/dev/shm"), "{why}");
        assert!(check(&includes).is_err());
    }

    #[test]
    fn the_end_of_a_page_is_told_without_its_tags() {
        assert_eq!(last_words("<html><p class=\"a\">No <b>gd</b>\n here</p></html>"), "No gd here");
        assert_eq!(last_words("no page"), "");
    }
}
