//! Stores that are sound, on which a test plants one fault; and what the doctor says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sessile_core::{Clock, Durability, Key, Sessions, Ttl};
use sessile_doctor::{Examination, examine};
use sessile_fixtures::{Instance, ServerOptions, StartError};
use sessile_stores::{Context, registry};

/// The codes of all findings.
pub fn codes(examination: &Examination) -> Vec<&'static str> {
    let report = examine(examination).unwrap();
    for finding in &report.findings {
        let text = finding.as_text();
        assert!(!text.contains("secret") && text.lines().count() == 3, "{text}");
        println!("{text}");
    }
    report.findings.iter().map(|finding| finding.code).collect()
}

/// A private server whose settings are sound, with further arguments behind them. The last of a
/// name counts. `None`, told and counted, if the server is not installed.
pub fn server(store: &str, arguments: &[&str]) -> Option<Instance> {
    let entry = registry::by_name(store).unwrap();
    let sound: &[&str] = match store {
        "redis" => &["--maxmemory", "256mb", "--maxmemory-policy", "noeviction"],
        _ => &[],
    };
    let extra = sound.iter().chain(arguments).map(Into::into).collect();
    let options = ServerOptions { durability: Durability::Commit, extra, measured: false };
    match Instance::start(entry, &entry.fixtures[0], &options) {
        Ok(instance) => Some(instance),
        Err(StartError::Missing { server, package }) => {
            println!("skipped: {server} is not installed (package {package})");
            assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A fresh directory on a disk that nothing cleans, also of a clone below /tmp.
pub fn directory() -> tempfile::TempDir {
    let target = env!("CARGO_TARGET_TMPDIR");
    let is_cleaned = target.starts_with("/tmp/") || target.starts_with("/var/tmp/");
    tempfile::tempdir_in(if is_cleaned { "/srv" } else { target }).unwrap()
}

/// A store that exists, with ten sessions.
pub fn filled(url: &str) -> Sessions {
    let store = sessile_stores::open(url, &Context::default()).unwrap();
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    for number in 0..10 {
        store.create(&Key::session(&format!("secret{number}")).unwrap(), b"cart", hour).unwrap();
    }
    store
}

/// Sessions that expired an hour ago.
pub fn add_expired(url: &str, name: &str, sessions: u64) {
    let past = Clock::manual(Clock::system().now().minus(Duration::from_secs(7_200)));
    let store = sessile_stores::open(url, &Context { clock: past }).unwrap();
    let hour = Ttl::sliding(Duration::from_secs(3_600)).unwrap();
    for number in 0..sessions {
        store.create(&Key::session(&format!("{name}{number}")).unwrap(), b"x", hour).unwrap();
    }
}

/// Root may plant foreign owners and mounts.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        println!("skipped: only root can plant this");
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
    }
    root
}

/// A file below a planted root.
pub fn plant(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The `/proc` of a planted root, with a sound limit.
pub fn plant_proc(root: &Path, open_files: &str) {
    plant(root, "proc/self/stat", "1 (x) R");
    let limits = format!("Limit  Soft  Hard\nMax open files   {open_files}   524288   files\n");
    plant(root, "proc/self/limits", &limits);
}
