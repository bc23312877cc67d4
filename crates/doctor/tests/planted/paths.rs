//! Faults of the place of a store.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::process::Command;

use sessile_core::Durability;
use sessile_doctor::Examination;
use sessile_fixtures::PrivateDir;

use crate::started::{add_expired, codes, directory, filled, is_root, plant, plant_proc};

const ORDINARY: u32 = 4_711;

#[test]
fn a_store_that_logind_removes_at_a_log_out_is_found() {
    if !is_root() {
        return;
    }
    let (memory, root) = (PrivateDir::in_shared_memory().unwrap(), directory());
    let store = memory.path().join("engine");
    let url = format!("sessile:{}", store.display());
    drop(filled(&url));
    chown(&store, Some(ORDINARY), None).unwrap();
    for file in fs::read_dir(&store).unwrap() {
        chown(file.unwrap().path(), Some(ORDINARY), None).unwrap();
    }
    plant_proc(root.path(), "1024");
    let mut examination = Examination::new(url);
    examination.root = root.path().to_owned();
    assert_eq!(codes(&examination), ["not-opened"], "there is no logind");
    plant(root.path(), "etc/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\n");
    assert_eq!(codes(&examination), ["removed-at-logout", "not-opened"]);
    plant(root.path(), "etc/systemd/logind.conf.d/ipc.conf", "[Login]\nRemoveIPC=no\n");
    assert_eq!(codes(&examination), ["not-opened"], "and with the fix not");
}

/// Its sessions survive, but all workers have to be restarted.
#[test]
fn an_engine_on_a_disk_whose_control_plane_logind_removes_is_found() {
    if !is_root() {
        return;
    }
    let (dir, root) = (directory(), directory());
    let store = dir.path().join("engine");
    let url = format!("sessile:{}", store.display());
    drop(filled(&url));
    chown(&store, Some(ORDINARY), None).unwrap();
    for file in fs::read_dir(&store).unwrap() {
        chown(file.unwrap().path(), Some(ORDINARY), None).unwrap();
    }
    plant_proc(root.path(), "1024");
    plant(root.path(), "etc/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\n");
    let mut examination = Examination::new(url);
    examination.root = root.path().to_owned();
    assert_eq!(codes(&examination), ["removed-at-logout", "not-opened"]);
    examination.url.push_str("?control=/run");
    assert_eq!(codes(&examination), ["not-opened"]);
}

#[test]
fn a_directory_that_others_may_write_is_found() {
    let dir = directory();
    let store = dir.path().join("files");
    let url = format!("files:{}", store.display());
    drop(filled(&url));
    fs::set_permissions(&store, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(codes(&Examination::new(url)), ["writable-by-others"]);
}

#[test]
fn a_directory_that_others_may_read_is_found() {
    let dir = directory();
    let store = dir.path().join("engine");
    let url = format!("sessile:{}", store.display());
    drop(filled(&url));
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(codes(&Examination::new(url)), ["readable-by-others"]);
}

#[test]
fn workers_that_run_as_another_user_are_found() {
    let dir = directory();
    let url = format!("sqlite:{}/sessions.db", dir.path().display());
    drop(filled(&url));
    let as_user =
        |name: &str| Examination { user: Some(name.to_owned()), ..Examination::new(url.clone()) };
    assert_eq!(codes(&as_user("nobody")), ["other-user"]);
    assert_eq!(codes(&as_user("no-such-user")), ["unknown-user"]);
}

#[test]
fn a_file_that_root_made_among_the_workers_is_found() {
    if !is_root() {
        return;
    }
    let dir = directory();
    let store = dir.path().join("files");
    let url = format!("files:{}", store.display());
    drop(filled(&url));
    let one = fs::read_dir(&store).unwrap().next().unwrap().unwrap();
    chown(one.path(), Some(ORDINARY), None).unwrap();
    let found = codes(&Examination::new(url));
    assert!(found.contains(&"mixed-owners"), "{found:?}");
}

#[test]
fn a_store_in_a_temporary_directory_is_found() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let url = format!("files:{}/files", dir.path().display());
    drop(filled(&url));
    assert_eq!(codes(&Examination::new(url)), ["temporary-directory"]);
}

#[test]
fn a_limit_beyond_the_file_system_is_found() {
    let memory = PrivateDir::in_shared_memory().unwrap();
    let url = format!("sessile:{}/engine?size_bytes_max=1125899906842624", memory.path().display());
    drop(filled(&url));
    assert_eq!(codes(&Examination::new(url)), ["size-over-file-system"]);
}

/// Runs an ignored test of this file in a mount namespace of its own.
fn with_mounts(test: &str, options: &str) {
    if !is_root() {
        return;
    }
    let dir = directory();
    let script = format!(
        "mount -t tmpfs -o {options} tmpfs {0} && exec {1} --exact paths::{test} --ignored \
         --nocapture",
        dir.path().display(),
        std::env::current_exe().unwrap().display(),
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("SESSILE_TEST_MOUNT", dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn mount() -> String {
    std::env::var("SESSILE_TEST_MOUNT").unwrap()
}

#[test]
fn shared_memory_of_a_container_by_default_is_found() {
    with_mounts("in_small_memory", "size=64m");
}

#[test]
#[ignore = "run in a namespace by the test above"]
fn in_small_memory() {
    let url = format!("sessile:{}/engine", mount());
    drop(filled(&url));
    assert_eq!(codes(&Examination::new(url)), ["shared-memory-small"]);
}

#[test]
fn a_file_system_that_is_nearly_full_is_found() {
    with_mounts("in_full_memory", "size=128m");
}

#[test]
#[ignore = "run in a namespace by the test above"]
fn in_full_memory() {
    let url = format!("sqlite:{}/sessions.db", mount());
    drop(filled(&url));
    fs::write(format!("{}/backup", mount()), vec![1; 124 << 20]).unwrap();
    assert_eq!(codes(&Examination::new(url)), ["nearly-full"]);
}

#[test]
fn a_file_system_with_few_inodes_left_is_found() {
    with_mounts("with_few_inodes", "size=128m,nr_inodes=200");
}

#[test]
#[ignore = "run in a namespace by the test above"]
fn with_few_inodes() {
    let url = format!("files:{}/files", mount());
    drop(filled(&url));
    for number in 0..200 {
        let _ = fs::write(format!("{}/{number}", mount()), "");
    }
    // One for the queue of the store.
    for number in 0..4 {
        fs::remove_file(format!("{}/{number}", mount())).unwrap();
    }
    assert_eq!(codes(&Examination::new(url)), ["few-inodes"]);
}

#[test]
fn a_file_system_that_is_mounted_read_only_is_found() {
    with_mounts("in_read_only", "size=128m");
}

#[test]
#[ignore = "run in a namespace by the test above"]
fn in_read_only() {
    let url = format!("files:{}/files", mount());
    drop(filled(&url));
    let remounted = Command::new("mount").args(["-o", "remount,ro", &mount()]).status().unwrap();
    assert!(remounted.success());
    assert_eq!(codes(&Examination::new(url)), ["read-only"]);
}

#[test]
fn a_store_in_the_layer_of_a_container_is_found() {
    with_mounts("in_layer", "size=128m");
}

#[test]
#[ignore = "run in a namespace by the test above"]
fn in_layer() {
    let at = mount();
    for folder in ["lower", "upper", "work", "merged"] {
        fs::create_dir(format!("{at}/{folder}")).unwrap();
    }
    let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
    let merged = format!("{at}/merged");
    let mount = ["-t", "overlay", "-o", &options, "overlay", &merged];
    assert!(Command::new("mount").args(mount).status().unwrap().success());
    let url = format!("files:{merged}/files");
    drop(filled(&url));
    assert_eq!(codes(&Examination::new(url)), ["container-layer"]);
}

#[test]
fn a_store_that_keeps_less_than_the_site_needs_is_found() {
    let dir = directory();
    let at = dir.path().display();
    let memory = PrivateDir::in_shared_memory().unwrap();
    for (url, keep) in [
        (format!("files:{at}/files"), Durability::Second),
        (format!("sqlite:{at}/sessions.db"), Durability::Commit),
        (format!("sessile:{at}/engine?durability=250ms"), Durability::Commit),
        (format!("sessile:{}/engine", memory.path().display()), Durability::Second),
    ] {
        drop(filled(&url));
        let keep = Some(keep);
        assert_eq!(codes(&Examination { keep, ..Examination::new(url) }), ["weaker-tier"]);
    }
}

#[test]
fn expired_sessions_that_nobody_removes_are_found() {
    let dir = directory();
    let url = format!("sqlite:{}/sessions.db", dir.path().display());
    drop(filled(&url));
    add_expired(&url, "few", 900);
    assert_eq!(codes(&Examination::new(url.clone())), Vec::<&str>::new());
    add_expired(&url, "more", 200);
    assert_eq!(codes(&Examination::new(url)), ["no-collector"]);
}

#[test]
fn an_engine_of_another_version_is_found() {
    let memory = PrivateDir::in_shared_memory().unwrap();
    let store = memory.path().join("engine");
    let url = format!("sessile:{}", store.display());
    drop(filled(&url));
    let control = fs::File::options().write(true).open(store.join("control")).unwrap();
    control.write_at(&99_u64.to_le_bytes(), 8).unwrap();
    assert_eq!(codes(&Examination::new(url)), ["cannot-open"]);
}

#[test]
fn a_store_that_is_not_there_is_found_and_not_made() {
    let dir = directory();
    let url = format!("files:{}/files", dir.path().display());
    assert_eq!(codes(&Examination::new(url)), ["cannot-open"]);
    assert!(!dir.path().join("files").exists());
}
