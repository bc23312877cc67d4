//! The table of keepers, from which selection, configuration and results come.
//!
//! Each entry states its locking: figures with and without locks answer different questions.

use sessile_core::Durability;
use sessile_results::UsageError;
use sessile_results::naming;

use crate::selection::{Choice, ContenderSource};

#[derive(Debug)]
pub struct Keeper {
    pub name: &'static str,
    pub variant: &'static str,
    /// The Perl package that the runner calls.
    pub package: &'static str,
    /// Names and texts of its source files, in the order of loading.
    pub files: &'static [(&'static str, &'static str)],
    /// `{shm}` and `{disk}` stand for private directories, `{socket}` for the server's socket in
    /// `{socket_dir}`; `{megabytes}` suffices for all sessions of a run.
    pub settings: &'static [(&'static str, &'static str)],
    /// Perl modules that it needs, with their Debian packages, or `OURS`.
    pub modules: &'static [(&'static str, &'static str)],
    pub server: Option<&'static str>,
    pub durability: &'static [Durability],
    pub locking: KeeperLocking,
    pub space: SpaceSource,
    /// The module that it represents.
    pub stands_for: Option<&'static str>,
    /// The cost of a session depends on the number of sessions.
    pub depends_on_number: bool,
    /// It uses a System V shared memory key that all programs share.
    pub shares_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperLocking {
    /// Single calls only: one of two changes can be lost.
    Nothing,
    /// Several may have it open, and a save waits for the others to close: one of two changes can
    /// be lost.
    Shared,
    /// Exclusive from open to close.
    Whole,
}

impl KeeperLocking {
    pub const fn name(self) -> &'static str {
        match self {
            KeeperLocking::Nothing => "none",
            KeeperLocking::Shared => "shared",
            KeeperLocking::Whole => "whole",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceSource {
    /// In files of its directory.
    Files,
    /// The keeper reports it when dissected.
    Reported,
    /// In a server, or in a file of fixed size.
    Unknown,
}

/// In place of a Debian package: a module of this project.
pub(crate) const OURS: &str = "";

const VOLATILE: &[Durability] = &[Durability::None];
const ALL: &[Durability] = &[Durability::None, Durability::Second, Durability::Commit];
const APACHE_SESSION: (&str, &str) = (
    "apache_session.pl",
    include_str!("../../../../bench/contenders/perl/keepers/apache_session.pl"),
);
const SHARED_MEMORY: (&str, &str) = (
    "shared_memory.pl",
    include_str!("../../../../bench/contenders/perl/keepers/shared_memory.pl"),
);
const FAST_MMAP: (&str, &str) =
    ("fast_mmap.pl", include_str!("../../../../bench/contenders/perl/keepers/fast_mmap.pl"));

const SESSILE: (&str, &str) =
    ("sessile.pl", include_str!("../../../../bench/contenders/perl/keepers/sessile.pl"));

/// Base of the other entries.
const FILES: Keeper = Keeper {
    name: "apache-file",
    variant: "default",
    package: "Keeper::ApacheSession",
    files: &[APACHE_SESSION],
    settings: &[
        ("session", "Apache::Session::File"),
        ("dir", "{disk}"),
        ("argument.Directory", "{disk}"),
        ("argument.LockDirectory", "{disk}"),
    ],
    modules: &[("Apache::Session", "libapache-session-perl")],
    server: None,
    durability: VOLATILE,
    locking: KeeperLocking::Shared,
    space: SpaceSource::Files,
    stands_for: None,
    depends_on_number: false,
    shares_key: false,
};

/// On tmpfs.
const FILES_SHM: Keeper = Keeper {
    variant: "shm",
    settings: &[
        ("session", "Apache::Session::File"),
        ("dir", "{shm}"),
        ("argument.Directory", "{shm}"),
        ("argument.LockDirectory", "{shm}"),
    ],
    ..FILES
};

/// A table as in the manual, on a persistent connection.
const MYSQL: Keeper = Keeper {
    name: "apache-mysql",
    settings: &[
        ("session", "Apache::Session::MySQL"),
        ("dsn", "dbi:mysql:database=test;mysql_socket={socket}"),
        ("user", "root"),
        (
            "table",
            "CREATE TABLE IF NOT EXISTS sessions (id CHAR(32) NOT NULL PRIMARY KEY, a_session \
             LONGBLOB)",
        ),
    ],
    modules: &[("Apache::Session", "libapache-session-perl"), ("DBD::mysql", "libdbd-mysql-perl")],
    server: Some("mariadbd"),
    durability: ALL,
    locking: KeeperLocking::Whole,
    space: SpaceSource::Unknown,
    ..FILES
};

/// In display order.
pub const KEEPERS: &[Keeper] = &[
    Keeper {
        name: "sessile",
        package: "Keeper::Sessile",
        files: &[APACHE_SESSION, SESSILE],
        settings: &[("session", "Apache::Session::Sessile"), ("dir", "{shm}")],
        modules: &[
            ("Apache::Session", "libapache-session-perl"),
            ("Apache::Session::Sessile", OURS),
        ],
        locking: KeeperLocking::Whole,
        space: SpaceSource::Unknown,
        ..FILES
    },
    FILES,
    Keeper {
        variant: "lock",
        settings: &[
            ("session", "Apache::Session::File"),
            ("dir", "{disk}"),
            ("argument.Directory", "{disk}"),
            ("argument.LockDirectory", "{disk}"),
            ("argument.Transaction", "1"),
        ],
        locking: KeeperLocking::Whole,
        ..FILES
    },
    FILES_SHM,
    Keeper {
        variant: "shm-lock",
        settings: &[
            ("session", "Apache::Session::File"),
            ("dir", "{shm}"),
            ("argument.Directory", "{shm}"),
            ("argument.LockDirectory", "{shm}"),
            ("argument.Transaction", "1"),
        ],
        locking: KeeperLocking::Whole,
        ..FILES
    },
    MYSQL,
    Keeper {
        variant: "nolock",
        settings: &[
            ("session", "Apache::Session::MySQL::NoLock"),
            ("dsn", "dbi:mysql:database=test;mysql_socket={socket}"),
            ("user", "root"),
            (
                "table",
                "CREATE TABLE IF NOT EXISTS sessions (id CHAR(32) NOT NULL PRIMARY KEY, a_session \
                 LONGBLOB)",
            ),
        ],
        locking: KeeperLocking::Nothing,
        ..MYSQL
    },
    Keeper {
        name: "apache-postgres",
        settings: &[
            ("session", "Apache::Session::Postgres"),
            ("dsn", "dbi:Pg:dbname=postgres;host={socket_dir};port=5432"),
            ("user", "postgres"),
            (
                "table",
                "CREATE TABLE IF NOT EXISTS sessions (id CHAR(32) NOT NULL PRIMARY KEY, a_session \
                 TEXT)",
            ),
            ("commit", "1"),
        ],
        modules: &[("Apache::Session", "libapache-session-perl"), ("DBD::Pg", "libdbd-pg-perl")],
        server: Some("postgres"),
        ..MYSQL
    },
    Keeper {
        name: "fast-mmap",
        package: "Keeper::FastMmap",
        files: &[FAST_MMAP],
        settings: &[("share_file", "{shm}/cache"), ("cache_size", "{megabytes}m")],
        modules: &[("Cache::FastMmap", "libcache-fastmmap-perl")],
        locking: KeeperLocking::Nothing,
        space: SpaceSource::Unknown,
        ..FILES
    },
    Keeper {
        name: "apache-shared-memory",
        package: "Keeper::SharedMemory",
        files: &[APACHE_SESSION, SHARED_MEMORY],
        settings: &[],
        modules: &[
            ("Apache::Session", "libapache-session-perl"),
            ("Cache::Cache", "libcache-cache-perl"),
            ("Cache::SharedMemoryCache", "libcache-cache-perl"),
        ],
        locking: KeeperLocking::Nothing,
        space: SpaceSource::Reported,
        stands_for: Some("Apache::Session::SharedMem"),
        depends_on_number: true,
        shares_key: true,
        ..FILES
    },
];

/// The keepers that `--stores` names; without names, all.
pub(crate) fn named(stores: &[String]) -> Result<Vec<&'static Keeper>, UsageError> {
    if stores.is_empty() {
        return Ok(KEEPERS.iter().collect());
    }
    let words: Vec<&str> = stores.iter().map(|word| word.trim()).collect();
    naming::select_entries(KEEPERS, words, "keeper of sessions in Perl", |keeper| {
        (keeper.name, keeper.variant)
    })
}

impl Keeper {
    pub fn title(&self) -> String {
        naming::title(self.name, self.variant)
    }

    pub fn choice(&'static self, durability: Durability) -> Choice {
        let session =
            self.settings.iter().find(|(name, _)| *name == "session").map(|(_, class)| *class);
        let class =
            session.or(self.modules.last().map(|(module, _)| *module)).unwrap_or(self.package);
        Choice {
            store: self.name,
            variant: self.variant.to_owned(),
            shown_url: format!("perl:{class}"),
            target: ContenderSource::Keeper(self),
            over_socket: self.server.is_some(),
            shared_by_processes: true,
            creates: true,
            reconnects: false,
            durability: durability.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(words: &[&str]) -> Result<Vec<String>, UsageError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(named(&words)?.into_iter().map(Keeper::title).collect())
    }

    #[test]
    fn a_name_means_all_its_variants_and_one_with_a_variant_only_that() {
        assert_eq!(titles(&["apache-mysql"]).unwrap(), ["apache-mysql", "apache-mysql#nolock"]);
        assert_eq!(
            titles(&["fast-mmap", "apache-file#shm"]).unwrap(),
            ["fast-mmap", "apache-file#shm"]
        );
        assert!(titles(&["apache-mysql", "apache-mysql#nolock"]).unwrap_err().0.contains("twice"));
        assert!(titles(&["memory"]).unwrap_err().0.contains("apache-file#shm-lock"));
        assert!(!titles(&["redis://:secret@host"]).unwrap_err().0.contains("secret"));
    }

    #[test]
    fn no_two_keepers_have_the_same_title() {
        let mut titles = titles(&[]).unwrap();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), KEEPERS.len());
    }

    /// Names of variants agree with their locking.
    #[test]
    fn what_is_called_lock_locks_and_what_is_called_nolock_does_not() {
        for keeper in KEEPERS {
            let whole = keeper.locking == KeeperLocking::Whole;
            assert!(
                whole || !keeper.variant.ends_with("lock") || keeper.variant == "nolock",
                "{}",
                keeper.title()
            );
            assert!(!whole || keeper.variant != "nolock", "{}", keeper.title());
            let exclusive = keeper.settings.contains(&("argument.Transaction", "1"));
            assert!(!exclusive || whole, "{} locks from the beginning", keeper.title());
        }
    }
}
