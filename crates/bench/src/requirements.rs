//! The programs, extensions and modules that experiments need, and how to install them.
//!
//! The list is derived from the tables of stores, reference rows, handlers and languages.
//! Installing is not done here.

use serde::Serialize;
use sessile_fixtures::{ServerKind, Web};
use sessile_results::Experiment;
use sessile_stores::registry::STORES;

use crate::experiments::{languages, rebuild, web};
use crate::php::{self, HANDLERS, Handler};
use crate::reference::REFERENCES;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// For example `redis-server` or `PHP's extension apcu`.
    pub name: String,
    pub present: bool,
    pub package: Option<String>,
    /// How to get it without a package.
    pub remedy: Option<String>,
    /// The contenders and experiments that are left out without it.
    pub wanted_by: Vec<String>,
}

/// All requirements, installed or not.
pub fn requirements() -> Vec<Requirement> {
    let mut requirements: Vec<Requirement> = ServerKind::all()
        .map(|kind| {
            let of = |server: Option<&str>| server == Some(kind.name);
            let stores = STORES
                .iter()
                .filter(|entry| of(entry.capabilities.server))
                .map(|entry| entry.name.to_owned());
            let references =
                REFERENCES.iter().filter(|it| of(it.server)).map(|it| it.name.to_owned());
            let handlers = handlers_of_pages()
                .filter(|(_, it)| of(it.server))
                .map(|(page, it)| format!("{page} {}", it.title()));
            let wanted_by = stores.chain(references).chain(handlers).collect();
            in_package(kind.name, kind.package, kind.find().is_some(), wanted_by)
        })
        .collect();
    let pages =
        || [Experiment::Lifecycle, Experiment::Rebuild].map(|page| page.name().to_owned()).to_vec();
    let programs = Web::programs().into_iter();
    requirements.extend(
        programs.map(|(name, package, present)| in_package(name, package, present, pages())),
    );
    requirements.push(in_package("ab", "apache2-utils", web::has_load_generator(), pages()));
    requirements.extend(php_requirements());
    requirements.extend(languages::requirements());
    requirements
}

/// All handlers of PHP, each with the experiment that measures it.
fn handlers_of_pages() -> impl Iterator<Item = (&'static str, &'static Handler)> {
    let lifecycle = HANDLERS.iter().map(|handler| (Experiment::Lifecycle.name(), handler));
    lifecycle.chain(rebuild::handlers().map(|handler| (Experiment::Rebuild.name(), handler)))
}

fn in_package(name: &str, package: &str, present: bool, wanted_by: Vec<String>) -> Requirement {
    Requirement {
        name: name.to_owned(),
        present,
        package: Some(package.to_owned()),
        remedy: None,
        wanted_by,
    }
}

/// Extensions that handlers load. Without php-fpm none counts as installed.
fn php_requirements() -> Vec<Requirement> {
    let php = php::PhpInstallation::detect().ok();
    let mut requirements: Vec<Requirement> = Vec::new();
    for (page, handler) in handlers_of_pages() {
        let wanted_by = format!("{page} {}", handler.title());
        for extension in handler.extensions {
            let name = format!("PHP's extension {extension}");
            let present = php.as_ref().is_some_and(|php| php.has(extension));
            match requirements.iter_mut().find(|requirement| requirement.name == name) {
                Some(requirement) => requirement.wanted_by.push(wanted_by.clone()),
                None => requirements.push(in_package(
                    &name,
                    handler.package,
                    present,
                    vec![wanted_by.clone()],
                )),
            }
        }
    }
    let ours = handlers_of_pages()
        .filter(|(_, handler)| handler.save_handler == sessile_results::php_handlers::SESSILE);
    requirements.push(Requirement {
        name: "PHP's extension sessile".to_owned(),
        present: php.as_ref().is_some_and(php::PhpInstallation::has_module),
        package: None,
        remedy: Some(format!("`make php` builds it, or {} names it", php::MODULE_VARIABLE)),
        wanted_by: ours.map(|(page, handler)| format!("{page} {}", handler.title())).collect(),
    });
    requirements
}

/// The packages to install, each once.
pub fn missing_packages(requirements: &[Requirement]) -> Vec<&str> {
    let missing = requirements.iter().filter(|requirement| !requirement.present);
    let mut missing_packages: Vec<&str> =
        missing.filter_map(|requirement| requirement.package.as_deref()).collect();
    missing_packages.sort_unstable();
    missing_packages.dedup();
    missing_packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_named_once_with_a_way_to_get_it_and_someone_who_wants_it() {
        let requirements = requirements();
        for requirement in &requirements {
            assert_eq!(
                requirements.iter().filter(|other| other.name == requirement.name).count(),
                1,
                "{requirement:?}"
            );
            assert!(
                requirement.package.is_some() != requirement.remedy.is_some()
                    && !requirement.wanted_by.is_empty(),
                "{requirement:?}"
            );
        }
        let wanted_by = |name: &str| {
            requirements
                .iter()
                .find(|requirement| requirement.name == name)
                .unwrap()
                .wanted_by
                .join(", ")
        };
        assert!(wanted_by("redis-server").contains("redis, redis-four-trips, "));
        assert!(wanted_by("redis-server").contains(", lifecycle phpredis"));
        assert_eq!(wanted_by("PHP's extension apcu"), "lifecycle apcu");
        // Each was said to be wanted by one of the two only.
        for name in ["nginx", "ab"] {
            assert_eq!(wanted_by(name), "lifecycle, rebuild");
        }
        for name in ["memcached", "PHP's extension memcached"] {
            let by = wanted_by(name);
            assert!(
                by.contains("lifecycle php-memcached") && by.contains("rebuild php-memcached#8m"),
                "{by}"
            );
        }
        assert!(wanted_by("PHP's extension sessile").contains("rebuild sessile#sqlite"));
        assert!(wanted_by("PHP's extension sessile").contains("lifecycle sessile#disk"));
        assert_eq!(wanted_by("what the program of perl loads"), "languages perl");
    }

    #[test]
    fn a_package_is_installed_once_and_only_if_something_of_it_is_missing() {
        let requirement = |name: &str, package: &str, present| {
            in_package(name, package, present, vec!["x".to_owned()])
        };
        let requirements = [
            requirement("a", "php-mysql", false),
            requirement("b", "php-mysql", false),
            requirement("c", "nginx-light", true),
        ];
        assert_eq!(missing_packages(&requirements), ["php-mysql"]);
    }
}
