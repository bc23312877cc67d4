//! `lifecycle` with real nginx, php-fpm and ab: sound handlers have figures, and each broken one is
//! found out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sessile_bench::php::{HANDLERS, Handler};
use sessile_bench::worker::Launch;
use sessile_bench::{Options, run_choices};
use sessile_core::Durability;
use sessile_fixtures::Web;
use sessile_results::{Experiment, Report};
use sessile_results::{Row, WebFigures};

const REQUESTS: usize = 120;

/// Sessions in files, by a class whose methods are broken as the constant FAULT says.
const SOURCE: &str = r#"
final class TestHandler implements SessionHandlerInterface
{
    private string $path = '';
    private int $writes = 0;
    private static array $here = [];

    public function open(string $path, string $name): bool
    {
        $this->path = $path;
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        if (FAULT === 'forgetful') {
            return '';
        }
        $data = FAULT === 'vain' ? self::$here[$id] ?? '' : @file_get_contents("$this->path/$id");
        return $data === false ? '' : $data;
    }

    public function write(string $id, string $data): bool
    {
        if (FAULT === 'vain') {
            self::$here[$id] = $data;
            return true;
        }
        if (FAULT === 'tiring' && $this->count($this->path) >= 250) {
            trigger_error("there is no room for $id in $this->path", E_USER_WARNING);
            return false;
        }
        if (FAULT === 'forgetful-of-carts' && str_contains($data, 'cart')) {
            return true;
        }
        // The second one of a request is the session that stays.
        if (FAULT === 'losing' && ++$this->writes === 2 && $this->count($this->path) >= 210) {
            return true;
        }
        return file_put_contents("$this->path/$id", $data) !== false;
    }

    public function destroy(string $id): bool
    {
        if (FAULT !== 'immortal' && FAULT !== 'vain') {
            @unlink("$this->path/$id"); // it may never have been written
        }
        return true;
    }

    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }

    public function count(string $path): int
    {
        return count(glob("$path/*"));
    }
}

define('SESSION_HANDLER', new TestHandler());
session_set_save_handler(SESSION_HANDLER);
"#;

fn broken(name: &'static str) -> &'static Handler {
    let source = format!("<?php\nconst FAULT = '{name}';\n{SOURCE}");
    Box::leak(Box::new(Handler {
        name,
        variant: "default",
        save_handler: "user",
        save_path: "{shm}",
        extensions: &[],
        package: "php-fpm",
        server: None,
        durability: &[Durability::None],
        at_start: &[],
        settings: &[],
        source: Some(source.leak()),
    }))
}

/// The report, or `None` where the programs are not installed.
fn report(handlers: &[&'static Handler], workers: &[usize]) -> Option<Report> {
    let ab = std::env::split_paths(&std::env::var_os("PATH")?).any(|dir| dir.join("ab").is_file());
    if !ab || !Web::missing().is_empty() {
        println!("skipped: lifecycle (ab, nginx or php-fpm is not installed)");
        assert!(std::env::var_os("CI").is_none(), "CI has all that the tests need");
        return None;
    }
    let (workers, sessions) = (Some(workers.to_vec()), Some(vec![REQUESTS]));
    let options =
        Options { workers, sessions, rounds: Some(2), seed: 3, quick: true, ..Options::default() };
    let launch = Launch { program: "unused".into(), arguments: Vec::new() };
    let choices = handlers.iter().map(|handler| handler.choice(Durability::None)).collect();
    Some(run_choices(Experiment::Lifecycle, &options, &launch, choices).unwrap())
}

#[test]
fn a_sound_handler_has_figures_in_table_and_json() {
    let shm = HANDLERS.iter().find(|handler| handler.title() == "php-files#shm").unwrap();
    let Some(report) = report(&[shm, broken("sound")], &[2, 4]) else { return };
    // Visitors come to one of them.
    assert_eq!(
        report.results.iter().map(|row| row.question.op.as_str()).collect::<Vec<&str>>(),
        ["page", "page", "page", "page", "visitors"]
    );
    for row in report.results.iter().filter(|row| row.question.op == "page") {
        assert!(!row.is_bad(), "{row:#?}");
        assert_eq!(
            (row.figures.rounds, row.figures.operations, row.question.payload_bytes),
            (2, 2 * REQUESTS as u64, 4_505)
        );
        let (rate, latency, web) =
            (row.figures.ops_per_second, row.figures.latency_us, row.web.unwrap());
        assert!(rate.low > 0.0 && rate.low <= rate.median && rate.median <= rate.high, "{row:#?}");
        assert!(
            latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max,
            "{row:#?}"
        );
        assert!(web.cpu_us_per_op > 0.0 && row.figures.cpu_us_per_op.client > 0.0, "{row:#?}");
    }
    // One request to warm up, 200 more, and of each sample its requests and one that is looked at.
    let most = report.results[0]
        .web
        .unwrap()
        .sessions_kept
        .max(report.results[1].web.unwrap().sessions_kept);
    assert_eq!(most, Some(201 + 4 * (REQUESTS as u64 + 1)));
    let text = report.to_string();
    assert!(
        text.contains("C=2") && text.contains("C=4") && text.contains("php-files#shm"),
        "{text}"
    );
    for program in ["php", "ab", "nginx"] {
        let version =
            report.environment.versions.get(program).map(String::as_str).unwrap_or_default();
        assert!(
            version.starts_with(|letter: char| letter.is_ascii_digit()) && version.contains('.'),
            "{program}: {version}"
        );
    }
    let json = report.to_json().unwrap();
    assert!(!json.contains("/dev/shm"), "the result names a directory: {json}");
    let read: Report = serde_json::from_str(&json).unwrap();
    // JSON is read fast, and so a fraction may differ in its last bit.
    let figures =
        |report: &Report| WebFigures { cpu_us_per_op: 0.0, ..report.results[0].web.unwrap() };
    assert_eq!(figures(&read), figures(&report));
}

/// Requests that failed were counted as sessions that had been made, and so as lost when none was.
#[test]
fn a_full_memory_that_refuses_has_lost_nothing() {
    let apcu = Box::leak(Box::new(Handler { name: "apcu", ..broken("tiring").clone() }));
    let Some(report) = report(&[apcu], &[2]) else { return };
    let row = report.results.iter().find(|row| row.question.op == "overflow").unwrap();
    let overflow = row.web.unwrap().overflow.unwrap();
    assert!(overflow.failed_requests > 0 && overflow.lost == 0, "{overflow:?}");
    assert!(overflow.made <= overflow.held && (200..400).contains(&overflow.held), "{overflow:?}");
}

/// Nobody else can tell that a record was left out on purpose: so a handler that has no such rule
/// must keep each of them.
#[test]
fn a_visitor_whose_session_is_lost_fails_the_row() {
    let named = |fault| -> &'static Handler {
        Box::leak(Box::new(Handler { name: "php-files", variant: "shm", ..broken(fault).clone() }))
    };
    let Some(sound) = report(&[named("sound")], &[2]) else { return };
    let row = sound.results.iter().find(|row| row.question.op == "visitors").unwrap();
    let left = row.visitors().unwrap();
    let all = 2 * REQUESTS as u64;
    assert!(
        !row.is_bad() && row.figures.operations == all && row.figures.ops_per_second.low > 0.0,
        "{row:#?}"
    );
    assert_eq!(
        (left.visitors, left.storing, left.records, left.cookies),
        (all, all / 10, Some(all), all)
    );
    assert!(
        left.lazy_start.is_none()
            && left.server.is_none()
            && sound.to_string().contains("no such rule"),
        "{sound}"
    );
    // What a visitor costs was 0 in the row, and how many sessions there are was unknown.
    let web = row.web.unwrap();
    assert!(
        web.cpu_us_per_op > 0.0
            && row.figures.cpu_us_per_op.client > 0.0
            && row.figures.latency_us.p999 > 0.0,
        "{row:#?}"
    );
    assert!(web.sessions_kept.unwrap() >= all, "{row:#?}");

    let lossy = report(&[named("forgetful-of-carts")], &[2]).unwrap();
    let row = lossy.results.iter().find(|row| row.question.op == "visitors").unwrap();
    let why = row.outcome.failed.clone().unwrap_or_default();
    assert!(why.contains("should have left 120 records, 108 are there"), "{why}");
    assert!(
        row.figures.rounds == 0 && row.web.is_none(),
        "what was not measured is no nought: {row:#?}"
    );

    // A site that does not come up had no row about visitors.
    let absent = report(&[named("forgetful")], &[2]).unwrap();
    let row = absent.results.iter().find(|row| row.question.op == "visitors").unwrap();
    assert!(
        row.outcome.failed.as_deref().unwrap_or_default().contains("wrong check value")
            && row.web.is_none(),
        "{row:#?}"
    );
    let text = absent.to_string();
    let line = text
        .split_once("Visitors without a cookie")
        .unwrap()
        .1
        .lines()
        .find(|line| line.contains("php-files#shm"))
        .unwrap();
    assert!(line.contains("failed"), "{text}");
}

/// `make test` runs it when it has built the module.
#[test]
#[ignore = "needs our module for PHP: SESSILE_PHP_MODULE"]
fn lazy_start_saves_the_record_and_the_cookie_of_each_visitor_who_stores_nothing() {
    let ours: Vec<&'static Handler> = HANDLERS
        .iter()
        .filter(|it| ["sessile", "sessile#redis"].contains(&it.title().as_str()))
        .collect();
    let Some(report) = report(&ours, &[2]) else { return };
    let (all, storing) = (2 * REQUESTS as u64, 2 * REQUESTS as u64 / 10);
    for handler in ours {
        let left = |op: &str| {
            let row = report
                .results
                .iter()
                .find(|row| row.question.op == op && row.subject.title() == handler.title())
                .unwrap();
            assert!(!row.is_bad(), "{row:#?}");
            *row.visitors().unwrap()
        };
        let (lazy, eager) = (left("visitors"), left("visitors-eager"));
        assert_eq!(
            (lazy.records, lazy.cookies, lazy.lazy_start),
            (Some(storing), storing, Some(true))
        );
        assert_eq!((eager.records, eager.cookies, eager.lazy_start), (Some(all), all, Some(false)));
        // The server says so by itself: each record that is not written is a change less. Bytes it
        // gets as many, because the lock is given up all the same.
        let (Some(lazy), Some(eager)) = (lazy.server, eager.server) else {
            assert!(handler.server.is_none(), "the server of {} has told nothing", handler.title());
            continue;
        };
        assert_eq!(eager.changes - lazy.changes, all - storing, "{lazy:?} {eager:?}");
    }
}

#[test]
fn a_wrong_answer_an_error_and_a_lost_session_fail_their_rows_and_no_other() {
    let names = ["forgetful", "vain", "immortal", "tiring", "losing", "sound"];
    let handlers: Vec<&'static Handler> = names.iter().map(|name| broken(name)).collect();
    let Some(report) = report(&handlers, &[4]) else { return };
    let why = |name: &str| {
        let row = report.results.iter().find(|row| row.subject.store == name).unwrap();
        (row, row.outcome.failed.clone().unwrap_or_default())
    };
    assert!(
        why("forgetful")
            .1
            .contains("wrong check value: failed: the session has what was committed")
    );
    assert!(
        why("vain").1.contains("201 sessions were to be kept, 0 are there"),
        "{}",
        why("vain").1
    );
    assert!(
        why("immortal").1.contains("201 sessions were to be kept, 402 are there"),
        "{}",
        why("immortal").1
    );
    let (row, tired): (&Row, String) = why("tiring");
    assert!(
        tired.contains("answered") && row.outcome.errors > 50 && row.web.unwrap().not_2xx > 50,
        "{row:#?}"
    );
    assert!(!tired.contains("/dev/shm"), "{tired}");
    let (row, lost) = why("losing");
    assert!(lost.contains("sessions were to be kept") && row.outcome.lost > 0, "{row:#?}");
    assert!(!why("sound").0.is_bad(), "{:#?}", why("sound").0);
    assert!(report.to_string().contains("failed"), "{report}");
    assert_eq!(report.bad_rows().count(), 5);
}
