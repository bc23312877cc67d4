//! Faults of PHP's settings.

use std::fs;
use std::path::{Path, PathBuf};

use sessile_doctor::{Examination, PhpSource};

use crate::started::{codes, directory, filled, plant, plant_proc};

/// The settings of a PHP whose handler shares a directory with the store.
const SOUND: [(&str, &str); 10] = [
    ("session.save_handler", "files"),
    ("session.gc_maxlifetime", "1440"),
    ("session.gc_probability", "0"),
    ("session.cookie_httponly", "1"),
    ("session.cookie_secure", "1"),
    ("session.cookie_samesite", "Lax"),
    ("session.use_strict_mode", "1"),
    ("session.lazy_write", "1"),
    ("session.sid_length", "32"),
    ("session.sid_bits_per_character", "5"),
];

/// A php.ini with the store's directory `php` and further settings; the last of a name counts.
pub fn sound_php(dir: &Path, planted: &[(&str, &str)]) -> Option<PhpSource> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("php").exists()) {
        println!("skipped: php is not installed (package php-cli)");
        assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
        return None;
    }
    let own = format!("\"{}/php\"", dir.display());
    let settings = SOUND.iter().copied().chain([("session.save_path", own.as_str())]);
    let lines = settings.chain(planted.iter().copied());
    let text: String = lines.map(|(name, value)| format!("{name} = {value}\n")).collect();
    let ini = dir.join("php.ini");
    fs::write(&ini, text).unwrap();
    // Without the settings of this machine.
    fs::create_dir_all(dir.join("conf.d")).unwrap();
    Some(PhpSource::Given { program: None, ini: Some(ini) })
}

fn found(planted: &[(&str, &str)]) -> Option<Vec<&'static str>> {
    found_with("?php=1", planted)
}

fn found_with(options: &str, planted: &[(&str, &str)]) -> Option<Vec<&'static str>> {
    let dir = directory();
    let url = format!("files:{}/php{options}", dir.path().display());
    drop(filled(&url));
    let php = sound_php(dir.path(), planted)?;
    Some(codes(&Examination { php, ..Examination::new(url) }))
}

macro_rules! planted {
    ($($test:ident: $name:literal = $value:literal => $code:literal;)+) => {$(
        #[test]
        fn $test() {
            let Some(found) = found(&[($name, $value)]) else { return };
            assert_eq!(found, [$code]);
        }
    )+};
}

planted! {
    a_cookie_that_scripts_read_is_found:
        "session.cookie_httponly" = "0" => "php-cookie-httponly";
    a_cookie_on_open_connections_is_found:
        "session.cookie_secure" = "0" => "php-cookie-secure";
    a_cookie_for_other_sites_is_found:
        "session.cookie_samesite" = "" => "php-cookie-samesite";
    a_php_that_takes_planted_ids_is_found:
        "session.use_strict_mode" = "0" => "php-strict-mode";
    a_php_that_writes_unchanged_sessions_is_found:
        "session.lazy_write" = "0" => "php-lazy-write";
    a_php_that_puts_ids_into_urls_is_found:
        "session.use_only_cookies" = "0" => "php-id-in-url";
    a_php_with_short_ids_is_found:
        "session.sid_length" = "22" => "php-short-ids";
    a_cookie_that_outlives_the_session_is_found:
        "session.cookie_lifetime" = "86400" => "php-cookie-outlives-session";
    a_php_that_removes_sessions_earlier_than_the_store_is_found:
        "session.gc_maxlifetime" = "600" => "php-other-lifetime";
    a_php_with_another_directory_is_found:
        "session.save_path" = "\"/var/lib/php/elsewhere\"" => "php-other-path";
}

#[test]
fn a_php_with_another_handler_is_found() {
    let Some(found) = found_with("", &[]) else { return };
    assert_eq!(found, ["php-other-handler"]);
}

#[test]
fn a_php_without_the_extension_is_found() {
    let dir = directory();
    let url = format!("files:{}/php", dir.path().display());
    drop(filled(&url));
    let path = format!("\"{url}\"");
    let planted = [("session.save_handler", "sessile"), ("session.save_path", path.as_str())];
    let Some(php) = sound_php(dir.path(), &planted) else { return };
    let found = codes(&Examination { php, ..Examination::new(url) });
    assert_eq!(found, ["php-without-extension"]);
}

#[test]
fn two_collectors_are_found() {
    let (dir, root) = (directory(), directory());
    let url = format!("files:{}/php?php=1", dir.path().display());
    drop(filled(&url));
    let Some(php) = sound_php(dir.path(), &[("session.gc_probability", "1")]) else { return };
    let mut examination = Examination { php, ..Examination::new(url) };
    plant_proc(root.path(), "1024");
    examination.root = root.path().to_owned();
    assert_eq!(codes(&examination), Vec::<&str>::new(), "one collector");
    let system = "etc/systemd/system";
    plant(root.path(), &format!("{system}/sessile-gc@.timer"), "[Timer]\n");
    assert_eq!(codes(&examination), Vec::<&str>::new(), "a template runs nothing");
    for timer in [
        "etc/cron.d/php".to_owned(),
        "etc/cron.d/sessile".to_owned(),
        format!("{system}/sessile-gc.timer"),
        format!("{system}/timers.target.wants/sessile-gc@shop.timer"),
        format!("{system}/timers.target.wants/phpsessionclean.timer"),
    ] {
        plant(root.path(), &timer, "[Timer]\n");
        assert_eq!(codes(&examination), ["two-collectors"], "{timer}");
        fs::remove_file(root.path().join(timer)).unwrap();
    }
}

/// Debian's collector knows only the files of PHP's own handler.
#[test]
fn debians_collector_is_none_for_another_handler() {
    let (dir, root) = (directory(), directory());
    let url = format!("files:{}/php", dir.path().display());
    drop(filled(&url));
    let path = format!("\"{url}\"");
    let planted = [
        ("session.save_handler", "sessile"),
        ("session.save_path", path.as_str()),
        ("session.gc_probability", "1"),
    ];
    let Some(php) = sound_php(dir.path(), &planted) else { return };
    let mut examination = Examination { php, ..Examination::new(url) };
    plant_proc(root.path(), "1024");
    plant(root.path(), "etc/cron.d/php", "# sessionclean\n");
    examination.root = root.path().to_owned();
    assert_eq!(codes(&examination), ["php-without-extension"]);
    plant(root.path(), "etc/systemd/system/timers.target.wants/sessile-gc@shop.timer", "");
    assert_eq!(codes(&examination), ["php-without-extension", "two-collectors"]);
}

/// PHP on the command line tells of no limit, whatever that of the site is.
#[test]
fn a_request_that_outlives_its_lock_is_found_and_a_shorter_one_is_sound() {
    let dir = directory();
    let Some(instance) = crate::started::server("redis", &[]) else { return };
    let url = sessile_stores::with_option(instance.url(), "lock_ttl_ms", "60000");
    let path = format!("\"{url}\"");
    for (longest, outlives) in [("0", true), ("61", true), ("30", false)] {
        let planted = [
            ("session.save_handler", "sessile"),
            ("session.save_path", path.as_str()),
            ("max_execution_time", longest),
        ];
        let Some(php) = sound_php(dir.path(), &planted) else { return };
        let found = codes(&Examination { php, ..Examination::new(url.clone()) });
        let outlived = found.contains(&"request-outlives-lock");
        assert_eq!(outlived, outlives, "{longest}: {found:?}");
        assert_eq!(found.len(), 1 + usize::from(outlives), "{longest}: {found:?}");
    }
}

/// The steps of a move with a URL of another depth would have logged everybody out.
#[test]
fn a_php_with_another_depth_is_found() {
    let dir = directory();
    let place = format!("{}/php", dir.path().display());
    fs::create_dir(&place).unwrap();
    for (path, depth, other) in
        [("", 0, false), ("", 1, true), ("1;", 1, false), ("1;600;", 1, false), ("1;600;", 0, true)]
    {
        let planted = [
            ("session.save_handler", "files"),
            ("session.save_path", &*format!("\"{path}{place}\"")),
        ];
        let Some(php) = sound_php(dir.path(), &planted) else { return };
        let url = format!("files:{place}?php=1&depth={depth}");
        let found = codes(&Examination { php, ..Examination::new(url) });
        assert_eq!(found.contains(&"php-other-path"), other, "{path:?} {depth}: {found:?}");
    }
}

/// Two stores on one server differ by their options.
#[test]
fn a_php_with_another_prefix_is_found() {
    let dir = directory();
    let Some(instance) = crate::started::server("redis", &[]) else { return };
    let with = |prefix| sessile_stores::with_option(instance.url(), "prefix", prefix);
    for (prefix, other) in [("shop", false), ("blog", true)] {
        let path = format!("\"{}\"", with(prefix));
        let planted = [("session.save_handler", "sessile"), ("session.save_path", path.as_str())];
        let Some(php) = sound_php(dir.path(), &planted) else { return };
        let found = codes(&Examination { php, ..Examination::new(with("shop")) });
        assert_eq!(found.contains(&"php-other-path"), other, "{found:?}");
    }
}

#[test]
fn a_php_that_is_not_there_is_found() {
    let dir = directory();
    let url = format!("files:{}/php", dir.path().display());
    drop(filled(&url));
    let program = Some(PathBuf::from("/nowhere/php"));
    let php = PhpSource::Given { program, ini: None };
    assert_eq!(codes(&Examination { php, ..Examination::new(url) }), ["php-unknown"]);
}
