//! This machine's PHP: its version, its extensions, and the module of our handler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sessile_fixtures::{ServerKind, Web};
use sessile_results::php_handlers::SESSILE;

use crate::php::handler::{Handler, MAGENTO_VARIABLE};

/// Overrides the path of our handler's module.
pub(crate) const MODULE_VARIABLE: &str = "SESSILE_PHP_MODULE";

#[derive(Debug)]
pub(crate) struct PhpInstallation {
    pub version: String,
    extension_dir: PathBuf,
    built_in: Vec<String>,
    /// Of our handler.
    module: Option<PathBuf>,
}

impl PhpInstallation {
    /// Asks php-fpm. The error says what is missing and how to install it.
    pub(crate) fn detect() -> Result<PhpInstallation, String> {
        let missing = Web::missing();
        let (Some(php), true) = (Web::php(), missing.is_empty()) else {
            let missing: Vec<String> = missing
                .iter()
                .map(|(name, package)| format!("{name} (Debian package {package})"))
                .collect();
            return Err(format!("not installed: {}", missing.join(", ")));
        };
        let about = output(&php, "-i");
        let value = |name: &str| {
            let line =
                about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" => "))?;
            Some(line.split(" => ").next()?.to_owned())
        };
        let (Some(version), Some(extension_dir)) = (value("PHP Version"), value("extension_dir"))
        else {
            return Err(
                "php-fpm does not report its version and extension directory (php-fpm -n -i)"
                    .to_owned(),
            );
        };
        let built_in = output(&php, "-m").lines().map(str::to_lowercase).collect();
        let module = module(&version, Path::new(&extension_dir));
        Ok(PhpInstallation { version, extension_dir: extension_dir.into(), built_in, module })
    }

    pub(crate) fn obstacle(&self, handler: &Handler) -> Option<String> {
        let (server, package) = (handler.server.and_then(ServerKind::by_name), handler.package);
        let missing_tier = handler.extensions.iter().find(|name| !self.has(name));
        match (missing_tier, server.filter(|kind| kind.find().is_none())) {
            (Some(name), _) => {
                Some(format!("PHP's extension {name} is not installed (Debian package {package})"))
            }
            (None, Some(kind)) => {
                Some(format!("{} is not installed (Debian package {})", kind.name, kind.package))
            }
            (None, None)
                if handler.needs_copy() && std::env::var_os(MAGENTO_VARIABLE).is_none() =>
            {
                Some(format!(
                    "it is no part of this project: {MAGENTO_VARIABLE} names a directory with the \
                     user's copies of php-redis-session-abstract and credis"
                ))
            }
            (None, None) if handler.save_handler == SESSILE && self.module.is_none() => {
                Some(format!(
                    "its module for PHP {} is not built: `make php` builds it, or \
                     {MODULE_VARIABLE} names it",
                    self.version
                ))
            }
            _ => None,
        }
    }

    /// The settings that load the handler's extensions.
    pub(crate) fn loading(&self, handler: &Handler) -> Vec<(String, String)> {
        let load = |name: &str, place: &Path| (name.to_owned(), place.display().to_string());
        let mut settings = vec![load("zend_extension", &self.file("opcache"))];
        settings.retain(|_| self.file("opcache").is_file());
        let needed = handler.extensions.iter().filter(|name| !self.is_built_in(name));
        settings.extend(needed.map(|name| load("extension", &self.file(name))));
        settings.extend(
            self.module
                .as_ref()
                .filter(|_| handler.save_handler == SESSILE)
                .map(|it| load("extension", it)),
        );
        settings
    }

    pub(crate) fn has(&self, extension: &str) -> bool {
        self.is_built_in(extension) || self.file(extension).is_file()
    }

    pub(crate) fn has_module(&self) -> bool {
        self.module.is_some()
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.extension_dir.join(format!("{extension}.so"))
    }

    fn is_built_in(&self, extension: &str) -> bool {
        self.built_in.iter().any(|name| name == extension)
    }
}

fn output(php: &Path, flag: &str) -> String {
    let output = Command::new(php).args(["-n", flag]).stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// From the variable, from `make php`, or from `make php-install`.
fn module(version: &str, extension_dir: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(MODULE_VARIABLE) {
        return fs::canonicalize(named).ok();
    }
    let profiles: &[&str] =
        if cfg!(debug_assertions) { &["release", "debug"] } else { &["release"] };
    let program = std::env::current_exe().unwrap_or_default();
    let mut above: Vec<PathBuf> = program.ancestors().map(Path::to_owned).collect();
    above.extend(std::env::current_dir().map(|here| here.join("target")));
    let built = above.iter().flat_map(|dir| {
        profiles
            .iter()
            .map(move |profile| dir.join(format!("php-{profile}-{version}/modules/sessile.so")))
    });
    built.chain([extension_dir.join("sessile.so")]).find(|file| file.is_file())
}
