//! PHP's settings against each other, and against the store.

use std::fs::read_dir;
use std::path::Path;

use sessile_stores::StoreUrl;

use crate::examination::Subject;
use crate::finding::Finding;
use crate::php_settings::{PhpSettings, PhpSource, read};

/// Files that run Debian's collector, which cleans only after PHP's own handler.
const COLLECTORS_OF_FILES: [&str; 2] =
    ["etc/cron.d/php", "etc/systemd/system/timers.target.wants/phpsessionclean.timer"];
/// Directories with files that may run ours.
const PLACES_OF_OURS: [&str; 3] =
    ["etc/cron.d", "etc/systemd/system", "etc/systemd/system/timers.target.wants"];
const SECONDS: u64 = 1_000;

pub fn check(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    let (program, ini) = match &subject.examination.php {
        PhpSource::Nowhere => return,
        PhpSource::IfItUsesSessile => (None, None),
        PhpSource::Given { program, ini } => (program.as_deref(), ini.as_deref()),
    };
    let asked = subject.examination.php != PhpSource::IfItUsesSessile;
    let settings = match read(program, ini) {
        Ok(settings) => settings,
        Err(why) if asked => {
            findings.push(Finding::warning(
                "php-unknown",
                why,
                "the settings of PHP are not checked",
                "name the program in --php and its php.ini in --php-ini",
            ));
            return;
        }
        Err(_) => return,
    };
    let ours = settings.text("session.save_handler") == "sessile";
    if !asked && !ours {
        return;
    }
    check_handler(subject, &settings, findings);
    check_cookies(&settings, findings);
    check_rules(&settings, findings);
    check_collectors(subject, &settings, findings);
    check_times(subject, &settings, findings);
}

fn check_handler(subject: &Subject<'_>, settings: &PhpSettings, findings: &mut Vec<Finding>) {
    let handler = settings.text("session.save_handler");
    let path = settings.text("session.save_path");
    if handler == "files" && subject.shared_with_php() {
        // `N;MODE;/dir`
        let directory = path.rsplit(';').next().unwrap_or_default();
        let depth = path.split_once(';').map_or("0", |(depth, _)| depth).parse().ok();
        let is_same_path = subject.url.path().is_ok_and(|own| own == Path::new(directory));
        if !is_same_path || subject.url.number("depth", 0, 0..=5).ok() != depth {
            findings.push(Finding::critical(
                "php-other-path",
                format!("session.save_path of PHP is {path:?}, not directory and depth of the URL"),
                "the store and PHP look at different sessions",
                "write the same directory into both, and the N of N;/dir into the URL (&depth=N)",
            ));
        }
        return;
    }
    if handler != "sessile" {
        findings.push(Finding::critical(
            "php-other-handler",
            format!("session.save_handler of PHP is {handler:?}"),
            "PHP does not keep its sessions in this store",
            "set session.save_handler = sessile, and session.save_path to the URL",
        ));
        return;
    }
    if settings.text("extension") == "no" {
        findings.push(Finding::critical(
            "php-without-extension",
            "the extension sessile is not loaded",
            "session_start() fails on each page",
            "add extension=sessile.so to php.ini",
        ));
    }
    let same =
        StoreUrl::parse(path).is_ok_and(|theirs| theirs.identity() == subject.url.identity());
    if !same {
        findings.push(Finding::critical(
            "php-other-path",
            format!("session.save_path of PHP is {}", StoreUrl::redact(path)),
            "PHP keeps its sessions in another store than the one examined",
            "examine that one, or correct session.save_path",
        ));
    }
}

fn check_cookies(settings: &PhpSettings, findings: &mut Vec<Finding>) {
    let is_off = |name| settings.is_on(name) == Some(false);
    if is_off("session.cookie_httponly") {
        findings.push(Finding::warning(
            "php-cookie-httponly",
            "session.cookie_httponly is off",
            "a script that gets into a page can read the cookie and send it away",
            "set session.cookie_httponly = 1",
        ));
    }
    if is_off("session.cookie_secure") {
        findings.push(Finding::warning(
            "php-cookie-secure",
            "session.cookie_secure is off",
            "the cookie goes over unencrypted connections, too, where others read it",
            "set session.cookie_secure = 1, on a site with HTTPS",
        ));
    }
    let same_site = settings.text("session.cookie_samesite");
    let is_none = same_site.eq_ignore_ascii_case("none");
    if same_site.is_empty() || is_none && is_off("session.cookie_secure") {
        findings.push(Finding::warning(
            "php-cookie-samesite",
            format!("session.cookie_samesite is {same_site:?}"),
            "pages of other sites can make requests in the name of the visitor; browsers drop \
             cookies with None that are not secure",
            "set session.cookie_samesite = Lax",
        ));
    }
    if is_off("session.use_only_cookies") || settings.is_on("session.use_trans_sid") == Some(true) {
        findings.push(Finding::critical(
            "php-id-in-url",
            "session.use_only_cookies is off, or session.use_trans_sid is on",
            "ids appear in URLs, and so in logs, in Referer headers and in links that people share",
            "set session.use_only_cookies = 1 and session.use_trans_sid = 0",
        ));
    }
}

fn check_rules(settings: &PhpSettings, findings: &mut Vec<Finding>) {
    let is_off = |name| settings.is_on(name) == Some(false);
    if is_off("session.use_strict_mode") {
        findings.push(Finding::critical(
            "php-strict-mode",
            "session.use_strict_mode is off",
            "an attacker can plant an id that he knows and wait for the log-in (session fixation)",
            "set session.use_strict_mode = 1",
        ));
    }
    if is_off("session.lazy_write") {
        findings.push(Finding::warning(
            "php-lazy-write",
            "session.lazy_write is off",
            "each request writes its whole session, changed or not",
            "set session.lazy_write = 1",
        ));
    }
    let (length, bits) =
        (settings.number("session.sid_length"), settings.number("session.sid_bits_per_character"));
    if let (Some(length), Some(bits)) = (length, bits)
        && length * bits < 128
    {
        findings.push(Finding::critical(
            "php-short-ids",
            format!("ids have {} bits", length * bits),
            "an id with less than 128 bits can be guessed by those who try long enough",
            "leave session.sid_length at 32 or more",
        ));
    }
}

fn check_collectors(subject: &Subject<'_>, settings: &PhpSettings, findings: &mut Vec<Finding>) {
    let probability = settings.number("session.gc_probability").unwrap_or(0);
    let root = &subject.examination.root;
    let of_files = COLLECTORS_OF_FILES.iter().filter(|file| root.join(file).exists());
    let of_files = of_files.filter(|_| settings.text("session.save_handler") == "files");
    let timer = of_files.map(|file| (*file).to_owned()).next().or_else(|| collector_of_ours(root));
    if let Some(timer) = timer.filter(|_| probability > 0) {
        findings.push(Finding::warning(
            "two-collectors",
            format!("session.gc_probability is {probability}, and /{timer} runs a collector, too"),
            "a visitor's request removes expired sessions, for which a timer is there",
            "set session.gc_probability = 0",
        ));
    }
}

fn collector_of_ours(root: &Path) -> Option<String> {
    PLACES_OF_OURS.iter().find_map(|place| {
        let names = read_dir(root.join(place)).ok()?.flatten().map(|entry| entry.file_name());
        let mut names = names.filter_map(|name| name.into_string().ok());
        // A timer in place of all its kind (`sessile-gc@.timer`) runs nothing.
        let runs = |name: &String| {
            let timer = name.starts_with("sessile-gc") && name.ends_with(".timer");
            timer && !name.contains("@.") || *place == "etc/cron.d" && name.starts_with("sessile")
        };
        names.find(runs).map(|name| format!("{place}/{name}"))
    })
}

fn check_times(subject: &Subject<'_>, settings: &PhpSettings, findings: &mut Vec<Finding>) {
    let (life, cookie) =
        (settings.number("session.gc_maxlifetime"), settings.number("session.cookie_lifetime"));
    if let (Some(life), Some(cookie)) = (life, cookie)
        && cookie > life
    {
        findings.push(Finding::warning(
            "php-cookie-outlives-session",
            format!("session.cookie_lifetime is {cookie} s, session.gc_maxlifetime {life} s"),
            "visitors are logged out before the time that the cookie promises",
            "set session.gc_maxlifetime to at least session.cookie_lifetime",
        ));
    }
    if subject.shared_with_php()
        && let Some(life) = life
        && let Ok(ours) = subject.url.number("maxlifetime", 1_440, 1..=u64::MAX)
        && ours != life
    {
        findings.push(Finding::critical(
            "php-other-lifetime",
            format!("session.gc_maxlifetime is {life} s, maxlifetime of the URL {ours} s"),
            "PHP and the store disagree about when a session ends, and remove each other's",
            format!("write maxlifetime={life} into the URL"),
        ));
    }
    let lock_ttl = subject.url.number("lock_ttl_ms", 0, 0..=u64::MAX).unwrap_or(0);
    if lock_ttl > 0
        && let Some(longest) = settings.number("max_execution_time")
        && (longest == 0 || longest * SECONDS > lock_ttl)
    {
        findings.push(Finding::warning(
            "request-outlives-lock",
            format!("max_execution_time is {longest} s (0: no end), lock_ttl_ms {lock_ttl}"),
            "the lock of a slow request lapses, and the save of the slower one is refused as stale",
            "leave lock_ttl_ms out: the extension derives it from max_execution_time",
        ));
    }
}
