//! What experiments need of this machine: programs, extensions and modules, for whom, and how one gets them.
//!
//! It comes from the tables of stores, reference rows, handlers and keepers, so that a new one stands in it by itself. Not here:
//! the installing.

use serde::Serialize;
use sessile_fixtures::{SERVERS, Web};
use sessile_stores::registry::STORES;

use crate::experiment::Experiment;
use crate::experiments::{lifecycle, rebuild};
use crate::perl::{self, KEEPERS};
use crate::php::{self, HANDLERS, Handler};
use crate::reference::REFERENCES;

/// One thing that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What it is, for example `redis-server` or `PHP's extension apcu`.
    pub name: String,
    /// Whether it is there.
    pub present: bool,
    /// The Debian package that contains it.
    pub package: Option<String>,
    /// How one gets what is in no package.
    pub remedy: Option<String>,
    /// The contenders and experiments that are left out without it.
    pub wanted_by: Vec<String>,
}

/// Everything, whether it is there or not.
pub fn needs() -> Vec<Need> {
    let mut needs: Vec<Need> = SERVERS
        .iter()
        .map(|kind| {
            let of = |server: Option<&str>| server == Some(kind.name);
            let stores = STORES.iter().filter(|entry| of(entry.capabilities.server)).map(|entry| entry.name.to_owned());
            let references = REFERENCES.iter().filter(|it| of(it.server)).map(|it| it.name.to_owned());
            let handlers =
                of_pages().filter(|(_, it)| of(it.server)).map(|(page, it)| format!("{page} {}", it.title()));
            let keepers = KEEPERS.iter().filter(|it| of(it.server)).map(|it| format!("perl {}", it.title()));
            let wanted_by = stores.chain(references).chain(handlers).chain(keepers).collect();
            packaged(kind.name, kind.package, kind.find().is_some(), wanted_by)
        })
        .collect();
    let pages = || [Experiment::Lifecycle, Experiment::Rebuild].map(|page| page.name().to_owned()).to_vec();
    let programs = Web::programs().into_iter();
    needs.extend(programs.map(|(name, package, present)| packaged(name, package, present, pages())));
    needs.push(packaged("ab", "apache2-utils", lifecycle::makes_requests(), pages()));
    needs.extend(of_php());
    needs.extend(of_perl());
    needs
}

/// All ways of PHP, each with the experiment that measures it.
fn of_pages() -> impl Iterator<Item = (&'static str, &'static Handler)> {
    let lifecycle = HANDLERS.iter().map(|handler| (Experiment::Lifecycle.name(), handler));
    lifecycle.chain(rebuild::handlers().map(|handler| (Experiment::Rebuild.name(), handler)))
}

fn packaged(name: &str, package: &str, present: bool, wanted_by: Vec<String>) -> Need {
    Need { name: name.to_owned(), present, package: Some(package.to_owned()), remedy: None, wanted_by }
}

/// The extensions that handlers load. Without php-fpm nobody can say what it has.
fn of_php() -> Vec<Need> {
    let php = php::Installation::look().ok();
    let mut needs: Vec<Need> = Vec::new();
    for (page, handler) in of_pages() {
        let wanted_by = format!("{page} {}", handler.title());
        for extension in handler.extensions {
            let name = format!("PHP's extension {extension}");
            let present = php.as_ref().is_some_and(|php| php.has(extension));
            match needs.iter_mut().find(|need| need.name == name) {
                Some(need) => need.wanted_by.push(wanted_by.clone()),
                None => needs.push(packaged(&name, handler.package, present, vec![wanted_by.clone()])),
            }
        }
    }
    let ours = of_pages().filter(|(_, handler)| handler.save_handler == php::SESSILE);
    needs.push(Need {
        name: "PHP's extension sessile".to_owned(),
        present: php.as_ref().is_some_and(php::Installation::has_module),
        package: None,
        remedy: Some(format!("`make php` builds it, or {} names it", php::MODULE_VARIABLE)),
        wanted_by: ours.map(|(page, handler)| format!("{page} {}", handler.title())).collect(),
    });
    needs
}

/// Perl, and the modules that keepers load.
fn of_perl() -> Vec<Need> {
    let perl = perl::Installation::look().ok();
    let mut needs = vec![packaged("perl", "perl", perl.is_some(), vec!["perl".to_owned()])];
    for keeper in KEEPERS {
        let wanted_by = format!("perl {}", keeper.title());
        for (module, package) in keeper.modules {
            let name = format!("Perl's module {module}");
            let present = perl.as_ref().is_some_and(|perl| perl.has(module));
            match needs.iter_mut().find(|need| need.name == name) {
                Some(need) => need.wanted_by.push(wanted_by.clone()),
                None => needs.push(packaged(&name, package, present, vec![wanted_by.clone()])),
            }
        }
    }
    needs
}

/// The packages of what is missing, each once.
pub fn packages(needs: &[Need]) -> Vec<&str> {
    let missing = needs.iter().filter(|need| !need.present);
    let mut packages: Vec<&str> = missing.filter_map(|need| need.package.as_deref()).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_named_once_with_a_way_to_get_it_and_someone_who_wants_it() {
        let needs = needs();
        for need in &needs {
            assert_eq!(needs.iter().filter(|other| other.name == need.name).count(), 1, "{need:?}");
            assert!(need.package.is_some() != need.remedy.is_some() && !need.wanted_by.is_empty(), "{need:?}");
        }
        let wanted_by = |name: &str| needs.iter().find(|need| need.name == name).unwrap().wanted_by.join(", ");
        assert!(wanted_by("redis-server").contains("redis, redis-four-trips, lifecycle phpredis"));
        assert!(wanted_by("mariadbd").contains("perl apache-mysql"), "{}", wanted_by("mariadbd"));
        assert_eq!(wanted_by("PHP's extension apcu"), "lifecycle apcu");
        // Each was said to be wanted by one of the two only.
        for name in ["nginx", "ab"] {
            assert_eq!(wanted_by(name), "lifecycle, rebuild");
        }
        for name in ["memcached", "PHP's extension memcached"] {
            let by = wanted_by(name);
            assert!(by.contains("lifecycle php-memcached") && by.contains("rebuild php-memcached#8m"), "{by}");
        }
        assert!(wanted_by("PHP's extension sessile").contains("rebuild sessile#sqlite"));
        assert!(wanted_by("PHP's extension sessile").contains("lifecycle sessile#disk"));
        assert!(wanted_by("Perl's module Cache::FastMmap").contains("perl fast-mmap"));
    }

    #[test]
    fn a_package_is_installed_once_and_only_if_something_of_it_is_missing() {
        let need = |name: &str, package: &str, present| packaged(name, package, present, vec!["x".to_owned()]);
        let needs = [need("a", "php-mysql", false), need("b", "php-mysql", false), need("c", "nginx-light", true)];
        assert_eq!(packages(&needs), ["php-mysql"]);
    }
}
