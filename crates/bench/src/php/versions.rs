//! Versions of nginx, PHP, and the extensions of the measured handlers.
//!
//! Invariant: nothing but versions is kept. PHP's information contains its environment.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use sessile_fixtures::Web;
use sessile_results::php_handlers::{OPCACHE, OPCACHE_MISSING};

use crate::environment::program_version;
use crate::php::{Handler, PhpInstallation};
use crate::selection::{Choice, ContenderSource};

/// For the environment of a result. Extensions without a version of their own have PHP's.
pub(crate) fn versions(php: &PhpInstallation, choices: &[Choice]) -> BTreeMap<String, String> {
    let handlers = choices.iter().filter_map(|choice| match choice.target {
        ContenderSource::Handler(handler) => Some(handler),
        _ => None,
    });
    let handlers: Vec<&Handler> = handlers.collect();
    let about = about(php, &handlers);
    let extensions = handlers.iter().flat_map(|handler| handler.extensions);
    // The server and our library of the same name have versions too.
    let extensions =
        extensions.filter_map(|name| Some((format!("php-{name}"), of_extension(&about, name)?)));
    let mut versions: BTreeMap<String, String> = extensions.collect();
    versions.insert("php".to_owned(), php.version.clone());
    let nginx = Web::nginx().and_then(|nginx| program_version(&nginx, "-v"));
    let opcache = if php.has("opcache") { "loaded" } else { OPCACHE_MISSING };
    versions.insert(OPCACHE.to_owned(), opcache.to_owned());
    versions.extend(nginx.map(|version| ("nginx".to_owned(), version)));
    versions
}

/// PHP's information with all extensions of these handlers; empty on failure.
fn about(php: &PhpInstallation, handlers: &[&Handler]) -> String {
    let Some(program) = Web::php() else { return String::new() };
    let mut settings: Vec<(String, String)> = Vec::new();
    for setting in handlers.iter().flat_map(|handler| php.loading(handler)) {
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let mut command = Command::new(program);
    command.arg("-n").stdin(Stdio::null());
    for (name, value) in settings {
        command.arg("-d").arg(format!("{name}={value}"));
    }
    let output = command.arg("-i").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// The version in the section under an extension's name.
fn of_extension(about: &str, name: &str) -> Option<String> {
    let own = format!("{name} version");
    let rest = about.lines().skip_while(|line| !line.eq_ignore_ascii_case(name)).skip(1);
    let part = rest.take_while(|line| line.is_empty() || line.contains(" => "));
    let mut facts = part.filter_map(|line| line.split_once(" => "));
    let (_, version) = facts.find(|(key, _)| {
        ["version", "extension version", own.as_str()].iter().any(|it| key.eq_ignore_ascii_case(it))
    })?;
    let word = version.split_whitespace().next()?;
    word.starts_with(|letter: char| letter.is_ascii_digit()).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: &str = "\
phpinfo()
PHP Version => 8.2.36

apcu

APCu Support => Enabled
Version => 5.1.22

igbinary

igbinary support => enabled
igbinary version => 3.2.13

memcached

memcached support => enabled
Version => 3.2.0
libmemcached library version => 1.1.4

msgpack

MessagePack Support => enabled
extension Version => 2.2.0RC2

mysqlnd

mysqlnd => enabled
Version => mysqlnd 8.2.36

PDO

PDO drivers => mysql

random

Version => 8.2.36

redis

Redis Support => enabled
Redis Version => 5.3.7
Redis Sentinel Version => 0.1
";

    /// A result once had the server's version under `redis` and no version of the extension, which
    /// decides over phpredis's speed.
    #[test]
    fn an_extension_has_the_version_in_its_own_part_and_what_comes_with_php_has_none() {
        let of = |name| of_extension(ABOUT, name);
        let known = [
            ("apcu", "5.1.22"),
            ("igbinary", "3.2.13"),
            ("memcached", "3.2.0"),
            ("redis", "5.3.7"),
        ];
        for (name, version) in known {
            assert_eq!(of(name).as_deref(), Some(version), "{name}");
        }
        assert_eq!(of("msgpack").as_deref(), Some("2.2.0RC2"));
        for name in ["mysqlnd", "pdo", "relay"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
