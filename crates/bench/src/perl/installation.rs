//! This machine's Perl: its version, and the modules that keepers need.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::unistd::geteuid;
use sessile_fixtures::ServerKind;

use crate::perl::keeper::{KEEPERS, Keeper, OURS};

/// Prints the version of each module, or that it is missing.
const PRINT_VERSIONS: &str = r#"
print "perl ", sprintf('%vd', $^V), "\n";
for my $module (@ARGV) {
    (my $file = "$module.pm") =~ s{::}{/}g;
    my $there = eval { local $SIG{__WARN__} = sub { }; require $file };
    print "$module ", $there ? $module->VERSION // '?' : '-', "\n";
}
"#;

#[derive(Debug)]
pub(crate) struct PerlInstallation {
    perl: PathBuf,
    /// Of Perl and of modules that can be loaded.
    versions: BTreeMap<String, String>,
    /// Whether a process can have private System V shared memory, or why not.
    private_memory: Result<(), String>,
}

impl PerlInstallation {
    /// Asks Perl. The error says what is missing and how to install it.
    pub(crate) fn detect() -> Result<PerlInstallation, String> {
        let perl = program("perl").ok_or("perl is not installed (Debian package perl)")?;
        let mut modules: Vec<&str> =
            KEEPERS.iter().flat_map(|keeper| keeper.modules).map(|(name, _)| *name).collect();
        modules.sort_unstable();
        modules.dedup();
        let output = Command::new(&perl)
            .args(["-e", PRINT_VERSIONS])
            .args(modules)
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| format!("perl cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let versions: BTreeMap<String, String> = said
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, version)| *version != "-")
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .collect();
        if !versions.contains_key("perl") {
            return Err("perl does not report its version".to_owned());
        }
        Ok(PerlInstallation { perl, versions, private_memory: private_memory() })
    }

    pub(crate) fn has(&self, module: &str) -> bool {
        self.versions.contains_key(module)
    }

    pub(crate) fn obstacle(&self, keeper: &Keeper) -> Option<String> {
        let missing_tier =
            keeper.modules.iter().find(|(name, _)| !self.versions.contains_key(*name));
        let server =
            keeper.server.and_then(ServerKind::by_name).filter(|kind| kind.find().is_none());
        match (missing_tier, server, &self.private_memory) {
            (Some((name, package)), ..) if *package == OURS => Some(format!(
                "Perl does not find {name} (make perl, then \
                 PERL5LIB=target/perl-release/blib/lib:target/perl-release/blib/arch)"
            )),
            (Some((name, package)), ..) => {
                Some(format!("Perl's module {name} is not installed (Debian package {package})"))
            }
            (None, Some(kind), _) => {
                Some(format!("{} is not installed (Debian package {})", kind.name, kind.package))
            }
            (None, None, Err(why)) if keeper.shares_key => Some(format!(
                "all programs of this machine that use it share one segment of memory; to measure \
                 it apart from theirs takes a \
                 namespace of its own, which is not allowed here ({why})"
            )),
            _ => None,
        }
    }

    pub(crate) fn versions<'a>(
        &'a self,
        keepers: &'a [&Keeper],
    ) -> impl Iterator<Item = (String, String)> + 'a {
        let used = |name: &str| {
            name == "perl"
                || keepers
                    .iter()
                    .any(|keeper| keeper.modules.iter().any(|(module, _)| *module == name))
        };
        let known = |version: &str| version.starts_with(|letter: char| letter.is_ascii_digit());
        self.versions
            .iter()
            .filter(move |(name, version)| used(name) && known(version))
            .map(|(name, it)| (name.clone(), it.clone()))
    }

    pub(crate) fn command(&self, keeper: &Keeper) -> Command {
        if !keeper.shares_key {
            return Command::new(&self.perl);
        }
        let mut command = in_private_memory();
        command.arg(&self.perl);
        command
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// `unshare` becomes the program that follows. Nobody else sees its shared memory, and the kernel
/// removes that with the process.
fn in_private_memory() -> Command {
    let mut command =
        Command::new(program("unshare").map_or_else(|| OsString::from("unshare"), Into::into));
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--ipc", "--"]);
    command
}

fn private_memory() -> Result<(), String> {
    let output = in_private_memory().arg("true").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let here = |names: &[&str]| PerlInstallation {
            perl: PathBuf::from("/nowhere/perl"),
            versions: names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect(),
            private_memory: Err("unshare: not permitted".to_owned()),
        };
        let keeper = |title: &str| KEEPERS.iter().find(|keeper| keeper.title() == title).unwrap();
        let missing_tier = here(&["perl"]).obstacle(keeper("fast-mmap")).unwrap();
        assert!(
            missing_tier.contains("Cache::FastMmap")
                && missing_tier.contains("libcache-fastmmap-perl"),
            "{missing_tier}"
        );
        assert_eq!(here(&["perl", "Apache::Session"]).obstacle(keeper("apache-file")), None);
        let ours = here(&["perl", "Apache::Session"]).obstacle(keeper("sessile")).unwrap();
        assert!(ours.contains("make perl") && !ours.contains("Debian"), "{ours}");
        let all = here(&["perl", "Apache::Session", "Cache::Cache", "Cache::SharedMemoryCache"]);
        let why = all.obstacle(keeper("apache-shared-memory")).unwrap();
        assert!(why.contains("not permitted"), "{why}");
        let used: Vec<String> =
            all.versions(&[keeper("apache-file")]).map(|(name, _)| name).collect();
        assert_eq!(used, ["Apache::Session", "perl"]);
    }
}
