//! `perl` with a real Perl: sound keepers have figures, and each broken one is found out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use sessile_bench::perl::{KEEPERS, Keeper, KeeperLocking, SpaceSource};
use sessile_bench::worker::Launch;
use sessile_bench::{Options, run_choices};
use sessile_core::Durability;
use sessile_results::Row;
use sessile_results::{Experiment, Report};

const SESSIONS: usize = 60;
/// The key under which Cache::SharedMemoryCache has its memory: `ipcc`, as a number.
const KEY_OF_ALL: &str = "1667461225";

/// Sessions in a hash of the process, broken as the constant FAULT says.
const SOURCE: &str = r"
package Keeper::Test;
use strict;
use warnings;

sub new { return bless { all => {}, made => 0, opened => 0, id => undef }, shift }

sub begin {
    my ($self, $id) = @_;
    if (!defined $id) {
        $self->{id} = sprintf '%08x%024x', $$, ++$self->{made};
        return FAULT eq 'haunted' && $self->{made} > 55 ? { 3 => 'someone else' } : {};
    }
    $self->{id} = $id;
    exit 7 if FAULT eq 'mortal' && ++$self->{opened} > 120;
    die qq(no session $id\n) if FAULT eq 'dying' && ++$self->{opened} > 120;
    my %session = %{ $self->{all}{$id} };
    @session{4, 5} = @session{5, 4} if FAULT eq 'wrong';
    return FAULT eq 'forgetful' ? {} : \%session;
}

sub end {
    my ($self, $session) = @_;
    warn qq(cannot save $self->{id} here\n) if FAULT eq 'warning' && $self->{made} > 55;
    my $second = exists $self->{all}{ $self->{id} };
    # What is lost is a change of a session that exists.
    my $loses = FAULT eq 'losing' && $second && $self->{id} =~ /3$/;
    $self->{all}{ $self->{id} } = $session if !$loses;
    return $self->{id};
}

sub clear { my ($self) = @_; $self->{all} = {}; $self->{made} = 0 }

1;
";

fn broken(name: &'static str) -> &'static Keeper {
    Box::leak(Box::new(broken_as(name)))
}

fn broken_as(name: &'static str) -> Keeper {
    let source = format!("use constant FAULT => '{name}';\n{SOURCE}")
        .replace("FAULT eq", "main::FAULT() eq");
    let source = source.replace("use constant FAULT", "package main; use constant FAULT");
    Keeper {
        name,
        variant: "default",
        package: "Keeper::Test",
        files: Box::leak(Box::new([("test.pl", &*source.leak())])),
        settings: &[("dir", "{shm}")],
        modules: &[],
        server: None,
        durability: &[Durability::None],
        locking: KeeperLocking::Nothing,
        space: SpaceSource::Unknown,
        stands_for: None,
        depends_on_number: name == "sound",
        shares_key: false,
    }
}

/// Whether a program can do that; where it cannot, the test says so, and fails in CI.
fn can(what: &str, program: &str, arguments: &[&str]) -> bool {
    let can =
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: {what}");
        assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
    }
    can
}

fn report(keepers: &[&'static Keeper], sessions: &[usize]) -> Report {
    let (sessions, payload_bytes) = (Some(sessions.to_vec()), Some(1_000));
    let options = Options {
        sessions,
        payload_bytes,
        rounds: Some(2),
        seed: 3,
        quick: true,
        ..Options::default()
    };
    let launch = Launch { program: "unused".into(), arguments: Vec::new() };
    let choices = keepers.iter().map(|keeper| keeper.choice(Durability::None)).collect();
    run_choices(Experiment::Perl, &options, &launch, choices).unwrap()
}

fn keeper(title: &str) -> &'static Keeper {
    KEEPERS.iter().find(|keeper| keeper.title() == title).unwrap()
}

/// `make test` runs it after it has built the modules, with PERL5LIB.
#[test]
#[ignore = "needs the modules of bindings/perl"]
fn our_own_keeper_is_sound_and_loses_nothing_with_two_at_once() {
    let report = report(&[keeper("sessile")], &[SESSIONS]);
    assert_eq!(report.results.len(), 2);
    for row in &report.results {
        assert!(!row.is_bad(), "{row:#?}");
    }
    let race = report.results[1].keeper.as_ref().unwrap().race.clone().unwrap();
    assert_eq!((race.changes, race.changes_lost, race.sessions_lost), (500, 0, 0), "{race:?}");
}

#[test]
fn a_sound_keeper_has_figures_in_table_and_json() {
    if !can("perl with Apache::Session", "perl", &["-MApache::Session", "-e", "1"]) {
        return;
    }
    let report = report(
        &[keeper("apache-file#shm"), keeper("apache-file#shm-lock"), broken("sound")],
        &[10, SESSIONS],
    );
    let shapes: Vec<(String, &str, usize)> =
        report.results.iter().map(|row| (row.title(), row.op.as_str(), row.sessions)).collect();
    assert_eq!(shapes.len(), 8, "two, two, and two at two sizes: {shapes:?}");
    for row in &report.results {
        assert!(!row.is_bad(), "{row:#?}");
        assert_eq!(
            (row.rounds, row.operations, row.payload_bytes),
            (2, 2 * row.sessions as u64, 1_000)
        );
        let (rate, latency) = (row.ops_per_second, row.latency_us);
        assert!(rate.low > 0.0 && rate.low <= rate.median && rate.median <= rate.high, "{row:#?}");
        assert!(
            latency.min > 0.0 && latency.min <= latency.p50 && latency.p50 <= latency.p99,
            "{row:#?}"
        );
        assert!(
            latency.p99 <= latency.p999
                && latency.p999 <= latency.max
                && row.cpu_us_per_op.client > 0.0
        );
        assert_eq!(row.bytes_per_session >= 4_096, row.store == "apache-file", "{row:#?}");
    }
    let locking = |title: &str| {
        let row = report.results.iter().find(|row| row.title() == title).unwrap();
        row.keeper.as_ref().unwrap().locking.clone()
    };
    assert_eq!([locking("apache-file#shm"), locking("apache-file#shm-lock")], ["shared", "whole"]);
    // Two processes have held one session for a millisecond each time: who locks it loses nothing,
    // who does not loses much.
    let race = |title: &str| {
        let row = report.results.iter().rfind(|row| row.title() == title).unwrap();
        row.keeper.as_ref().unwrap().race.clone().unwrap()
    };
    let (locked, shared) = (race("apache-file#shm-lock"), race("apache-file#shm"));
    assert!(
        locked.broke.is_none() && locked.changes == 500 && locked.sessions == 500,
        "{locked:?}"
    );
    assert_eq!((locked.changes_lost, locked.sessions_lost), (0, 0));
    assert!(shared.changes_lost > 10 && shared.sessions_lost == 0, "{shared:?}");
    let alone = race("sound");
    assert_eq!(
        (alone.changes_lost, alone.sessions_lost),
        (250, 250),
        "its sessions stay in one process"
    );
    let text = report.to_string();
    assert!(
        text.contains("apache-file#shm-lock") && text.contains("reopen") && text.contains("whole"),
        "{text}"
    );
    assert!(report.environment.versions.contains_key("perl"));
    assert!(report.environment.versions.contains_key("Apache::Session"));
    let json = report.to_json().unwrap();
    assert!(!json.contains("/dev/shm"), "the result names a directory: {json}");
    let read: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(read.results[0].keeper, report.results[0].keeper);
}

#[test]
fn a_wrong_value_a_lost_one_an_error_and_a_warning_fail_their_rows_and_no_other() {
    if !can("perl", "perl", &["-MTime::HiRes", "-e", "1"]) {
        return;
    }
    // It says that it locks, and keeps its sessions in one process.
    let lying: &'static Keeper =
        Box::leak(Box::new(Keeper { locking: KeeperLocking::Whole, ..broken_as("lying") }));
    let names = ["wrong", "forgetful", "losing", "haunted", "dying", "mortal", "warning", "sound"];
    let keepers: Vec<&'static Keeper> = names.iter().map(|name| broken(name)).collect();
    let report = report(&[keepers, vec![lying]].concat(), &[SESSIONS]);
    assert_eq!(report.results.len(), 2 * names.len() + 2);
    let row = |name: &str, op: &str| {
        report.results.iter().find(|row| row.store == name && row.op == op).unwrap()
    };
    let why = |name: &str, op: &str| row(name, op).failed.clone().unwrap_or_default();
    let values: fn(&Row) -> (u64, u64, u64) = |row| (row.misses, row.errors, row.lost);
    // All of the 50 sessions of the turn that warms up.
    assert!(
        why("wrong", "reopen").contains("wrong check value: of 50 sessions 0 were empty and 50"),
        "{report}"
    );
    assert_eq!(values(row("wrong", "reopen")), (0, 50, 0));
    assert!(why("wrong", "make").contains("no sound sessions"), "{report}");
    assert!(why("forgetful", "reopen").contains("50 were empty and 0"), "{report}");
    assert_eq!(values(row("forgetful", "reopen")), (50, 0, 0));
    // The numbers 3, 13 and 23 in hexadecimal.
    assert!(
        why("losing", "reopen")
            .contains("0 were empty and 3 had other values when they were read once more")
    );
    assert_eq!(values(row("losing", "reopen")), (0, 0, 3));
    assert!(
        why("haunted", "make").contains("of 60 sessions 0 were empty and 5"),
        "{}",
        why("haunted", "make")
    );
    assert_eq!(why("dying", "reopen"), "no session <id>");
    assert!(why("mortal", "reopen").contains("exit status: 7"), "{}", why("mortal", "reopen"));
    assert!(why("warning", "make").contains("cannot save <id> here"), "{}", why("warning", "make"));
    assert!(
        why("lying", "reopen").contains("250 of 500 changes and 250 of 500 sessions were lost"),
        "{report}"
    );
    assert_eq!((row("lying", "reopen").lost, row("lying", "make").is_bad()), (500, false));
    assert!(!row("sound", "make").is_bad() && !row("sound", "reopen").is_bad(), "{report}");
    assert!(report.to_string().contains("failed"), "{report}");
}

/// Its shared memory has a key that all programs use: other people's caches must not be touched,
/// and nothing may stay behind.
#[test]
fn the_whole_cache_is_measured_apart_from_those_of_others_and_tells_where_its_time_goes() {
    let module = ["-MCache::SharedMemoryCache", "-MApache::Session", "-e", "1"];
    if !can("perl with Cache::SharedMemoryCache", "perl", &module)
        || !can("shared memory of its own", "unshare", &["--ipc", "true"])
    {
        return;
    }
    // Not all segments: servers of others come and go meanwhile, and PostgreSQL has one.
    let segments = || {
        let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        all.lines().filter(|line| line.split_whitespace().next() == Some(KEY_OF_ALL)).count()
    };
    let before = segments();
    let report = report(&[keeper("apache-shared-memory")], &[5, SESSIONS]);
    assert_eq!(segments(), before, "segments of shared memory remain");
    assert_eq!(report.results.len(), 4);
    let cache = |sessions: usize| {
        let row = report
            .results
            .iter()
            .find(|row| row.op == "reopen" && row.sessions == sessions)
            .unwrap();
        assert!(!row.is_bad() && row.bytes_per_session > 1_000, "{row:#?}");
        row.keeper.as_ref().unwrap().whole_cache.clone().unwrap()
    };
    let (few, many) = (cache(5), cache(SESSIONS));
    // Both hold all sessions, and turn all of them into a hash and back for each.
    assert!(many.bytes > 10 * few.bytes, "{few:?} {many:?}");
    assert_eq!((many.thaws_per_session, many.freezes_per_session), (4.0, 1.0));
    assert!(
        many.serialising > 0.0 && many.copying > 0.0 && many.serialising + many.copying < 1.0,
        "{many:?}"
    );
    let text = report.to_string();
    assert!(text.contains("stands in for Apache::Session::SharedMem"), "{text}");
}

#[test]
fn every_source_in_perl_compiles() {
    if !can("perl", "perl", &["-MTime::HiRes", "-e", "1"]) {
        return;
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/contenders/perl");
    let places = [dir.to_owned(), format!("{dir}/keepers")];
    let files = places
        .iter()
        .flat_map(|place| std::fs::read_dir(place).unwrap())
        .map(|entry| entry.unwrap().path());
    let files: Vec<std::path::PathBuf> = files.filter(|path| path.is_file()).collect();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let output = Command::new("perl").arg("-wc").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success()
                && said.trim().ends_with("syntax OK")
                && said.lines().count() == 1,
            "{said}"
        );
    }
}
