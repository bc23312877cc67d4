//! Sound stores have no findings.

use sessile_core::Durability;
use sessile_doctor::{Examination, PhpSource};
use sessile_fixtures::PrivateDir;

use crate::php::sound_php;
use crate::started::{codes, directory, filled, is_root, server};

fn none(examination: &Examination) {
    assert_eq!(codes(examination), Vec::<&str>::new(), "{}", examination.url);
}

#[test]
fn sound_stores_in_files_have_no_findings() {
    let dir = directory();
    let at = dir.path().display();
    for (url, keep) in [
        (format!("files:{at}/files?durability=commit"), Durability::Commit),
        (format!("sqlite:{at}/sessions.db"), Durability::Second),
        (format!("sessile:{at}/engine"), Durability::Second),
    ] {
        drop(filled(&url));
        none(&Examination { keep: Some(keep), ..Examination::new(url) });
    }
    let memory = PrivateDir::in_shared_memory().unwrap();
    let url = format!("sessile:{}/engine", memory.path().display());
    drop(filled(&url));
    none(&Examination { keep: Some(Durability::None), ..Examination::new(url) });
}

#[test]
fn sound_servers_have_no_findings() {
    for store in ["redis", "mysql", "postgres", "memcached"] {
        let Some(instance) = server(store, &[]) else { continue };
        drop(filled(instance.url()));
        let keep = if store == "memcached" { Durability::None } else { Durability::Commit };
        let workers = Some(100);
        none(&Examination { keep: Some(keep), workers, ..Examination::new(instance.url()) });
    }
}

#[test]
fn a_sound_php_has_no_findings() {
    let dir = directory();
    let url = format!("files:{}/php?php=1", dir.path().display());
    drop(filled(&url));
    let Some(php) = sound_php(dir.path(), &[]) else { return };
    none(&Examination { php, ..Examination::new(url.clone()) });
    none(&Examination { php: PhpSource::Nowhere, ..Examination::new(url) });
}

/// The directory that Debian makes for PHP: of root, and everybody may add files.
#[test]
fn a_directory_of_php_as_debian_makes_it_has_no_findings() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !is_root() {
        return;
    }
    let dir = directory();
    let place = dir.path().join("sessions");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o1733)).unwrap();
    let session = place.join("sess_secret1234567890abcdef123456");
    std::fs::write(&session, "cart|i:1;").unwrap();
    chown(&session, Some(65_534), None).unwrap();
    let user = Some("nobody".to_owned());
    let url = format!("files:{}?php=1", place.display());
    none(&Examination { user, php: PhpSource::Nowhere, ..Examination::new(url) });
}

#[test]
fn a_store_made_of_others_is_examined_through_them() {
    let dir = directory();
    let at = dir.path().display();
    let url = format!("route:?home=files:{at}/home&large=files:{at}/large");
    drop(filled(&url));
    none(&Examination::new(url.clone()));
    let keep = Some(Durability::Commit);
    assert_eq!(codes(&Examination { keep, ..Examination::new(url) }), ["weaker-tier"]);
}

/// PHP has the outer URL; it was compared with those of the stores of which the store is made.
#[test]
fn a_php_on_a_store_made_of_others_looks_at_that_store() {
    let dir = directory();
    let at = dir.path().display();
    let url = format!("route:?home=files:{at}/home&large=files:{at}/large");
    drop(filled(&url));
    let path = format!("\"{url}\"");
    let planted = [("session.save_handler", "sessile"), ("session.save_path", path.as_str())];
    let Some(php) = sound_php(dir.path(), &planted) else { return };
    let found = codes(&Examination { php, ..Examination::new(url) });
    assert_eq!(found, ["php-without-extension"], "this PHP has no settings but those");
}
