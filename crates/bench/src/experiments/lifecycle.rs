//! The whole life of a session in one request to a real web server: begin, store, commit, regenerate the id, destroy, and
//! another one that stays. As published for the session handlers of Drupal, for every handler of PHP that is installed.
//!
//! In each round every combination of handler and number of parallel requests gets one sample, in an order drawn anew from
//! the seed. Sessions pile up, as they did there. Each contender has a site of its own (nginx, php-fpm, its server), which
//! runs for the whole time and is idle while others are measured. A sample in which one request failed or one session is
//! missing has no figure: it is a row that failed.

mod overflow;
mod redis_counters;
mod site;
mod visitors;

use std::path::Path;

use sessile_core::Durability;

use crate::experiments::load::{self, Load};
use crate::experiments::{Bench, go_on, place};
use crate::interruption::interrupted;
use crate::options::UsageError;
use crate::php::{self, Installation, named};
use crate::report::{CpuUs, RoundSample, Row, WebFigures};
use crate::run::RunError;
use crate::selection::{Choice, Selection, Target, lacks};
pub(crate) use visitors::waves as waves_of_visitors;

use site::{ANSWER, PAYLOAD_BYTES, Purpose, Site};

/// The word in the result.
const OP: &str = "page";
/// Requests before the first sample: each process of PHP has opened its store and has the page compiled.
const WARM_UP_REQUESTS: usize = 200;
const WARM_UP_PARALLEL: usize = 8;
const PROCESSES_MIN: usize = 8;
/// What a session takes in a memory of fixed size, generously.
const SESSION_BYTES_MAX: u64 = 8 << 10;

/// One contender and its site.
struct Member {
    choice: Choice,
    site: Site,
}

/// One combination, and what its samples gave.
struct Cell {
    member: usize,
    parallel: usize,
    figures: Figures,
    /// As they were after the last whole round.
    whole: Figures,
    lost: u64,
    failed: Option<String>,
}

#[derive(Clone, Default)]
struct Figures {
    loads: Vec<Load>,
    web_cpu_us: f64,
    server_cpu_us: f64,
    /// Sessions that were there after the last sample, where that can be counted.
    kept: Option<u64>,
}

/// What this machine can measure of what the user named.
pub(crate) fn select(stores: &[String], durability: Durability) -> Result<Selection, UsageError> {
    let handlers = named(stores)?;
    let php = Installation::look().map_err(UsageError)?;
    load::find().ok_or_else(|| UsageError(no_load_generator()))?;
    let mut selection = Selection::default();
    for handler in handlers {
        let obstacle = lacks(handler.durability, durability).or_else(|| php.obstacle(handler));
        selection.add(handler.choice(durability), obstacle);
    }
    selection.or_nothing()
}

/// Whether there is somebody to make requests.
pub(crate) fn makes_requests() -> bool {
    load::find().is_some()
}

pub(super) fn no_load_generator() -> String {
    "ab is not installed, which makes the requests (Debian package apache2-utils; `sessile bench setup --install` installs it)"
        .to_owned()
}

pub(super) fn run(bench: &mut Bench) -> Result<(), RunError> {
    let php = Installation::look().map_err(RunError::Broken)?;
    let ab = load::find().ok_or_else(|| RunError::Broken(no_load_generator()))?;
    bench.programs.extend(php::versions(&php, &bench.choices));
    bench.programs.extend(load::version(&ab).map(|version| ("ab".to_owned(), version)));
    bench.settings.payload_bytes = PAYLOAD_BYTES;
    let (mut members, mut cells, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    let choices = bench.choices.clone();
    bench.progress.expect_more(choices.len());
    for choice in choices {
        go_on()?;
        bench.progress.say(&format!("{}: start a web server", choice.title()));
        match Member::start(bench, &php, &ab, &choice) {
            Ok(member) => {
                let new = |parallel: &usize| Cell::new(members.len(), *parallel);
                cells.extend(bench.settings.workers.iter().map(new));
                members.push(member);
            }
            Err(why) => {
                for parallel in bench.settings.workers.clone() {
                    let row = bench.row(&choice, OP, parallel, bench.settings.sessions);
                    bench.rows.push(Row { failed: Some(why.clone()), ..row });
                }
                absent.push((choice, why));
            }
        }
        bench.progress.step();
    }
    let rounds = measure(bench, &ab, &members, &mut cells);
    if rounds == 0 {
        return Err(RunError::Interrupted);
    }
    for cell in cells {
        if let Some(member) = members.get(cell.member) {
            let row = cell.into_row(bench, member);
            bench.rows.push(row);
        }
    }
    bench.rows.sort_by_key(|row| place(&bench.choices, row));
    // Each sample was verified on the spot.
    bench.keep_rows();
    go_on()?;
    visitors::run(bench, &members, &absent)?;
    bench.keep_rows();
    go_on()?;
    drop(members);
    overflow::run(bench, &php, &ab)
}

/// Processes that run pages, on this machine.
pub(super) fn processes() -> usize {
    std::thread::available_parallelism().map_or(PROCESSES_MIN, |count| PROCESSES_MIN.max(2 * count.get()))
}

/// Takes the samples, and says how many rounds are whole.
fn measure(bench: &Bench, ab: &Path, members: &[Member], cells: &mut [Cell]) -> usize {
    let mut random = fastrand::Rng::with_seed(bench.settings.seed);
    bench.progress.expect_more(bench.settings.rounds * cells.len());
    for round in 0..bench.settings.rounds {
        if interrupted() {
            return round;
        }
        let mut order: Vec<usize> = (0..cells.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            bench.progress.step();
            let Some(cell) = cells.get_mut(number).filter(|cell| cell.failed.is_none()) else { continue };
            let Some(member) = members.get(cell.member) else { continue };
            bench.progress.say(&format!("{} with {} parallel requests", member.choice.title(), cell.parallel));
            cell.sample(member, ab, bench.settings.sessions);
            if interrupted() {
                return round;
            }
        }
        cells.iter_mut().for_each(|cell| cell.whole = cell.figures.clone());
    }
    bench.settings.rounds
}

impl Member {
    fn start(bench: &Bench, php: &Installation, ab: &Path, choice: &Choice) -> Result<Member, String> {
        let Target::Handler(handler) = choice.target else {
            return Err("it is not a session handler of PHP".to_owned());
        };
        let settings = &bench.settings;
        let samples = settings.rounds * settings.workers.len();
        let sessions = (settings.sessions + 1) * samples + WARM_UP_REQUESTS + 1;
        let purpose = Purpose {
            durability: settings.durability,
            sessions: sessions as u64,
            memory_megabytes: 64 + sessions as u64 * SESSION_BYTES_MAX / (1 << 20),
            ttl: settings.ttl,
            processes: processes(),
        };
        let site = Site::open(handler, php, &purpose)?;
        let member = Member { choice: choice.clone(), site };
        member.warm_up(ab)?;
        Ok(member)
    }

    fn warm_up(&self, ab: &Path) -> Result<(), String> {
        self.site.check().map_err(|why| self.with_last_words(&why))?;
        let requests = WARM_UP_REQUESTS;
        let load = load::make(ab, &self.site.url(), requests, WARM_UP_PARALLEL, &self.site.scratch())?;
        if let Some(why) = fault(&load, requests) {
            return Err(self.with_last_words(&format!("while it became warm: {why}")));
        }
        let made = requests as u64 + 1;
        match self.site.kept()? {
            Some(kept) if kept != made => Err(format!("{made} sessions were to be kept, {kept} are there")),
            _ => Ok(()),
        }
    }

    fn with_last_words(&self, why: &str) -> String {
        match self.site.last_words() {
            words if words.is_empty() => why.to_owned(),
            words => format!("{why}; the log ends: {words}"),
        }
    }
}

/// What is wrong with these requests.
fn fault(load: &Load, requests: usize) -> Option<String> {
    let Load { complete, failed, not_2xx, body_bytes, .. } = load;
    let requests = requests as u64;
    if *complete != requests || failed + not_2xx > 0 {
        let why = format!(
            "of {requests} requests {complete} were answered, {failed} of them with another length or not to the end, \
             {not_2xx} with an error"
        );
        return Some(why);
    }
    (*body_bytes != ANSWER.len() as u64)
        .then(|| format!("the answers have {body_bytes} bytes, the one that was expected {}", ANSWER.len()))
}

impl Cell {
    fn new(member: usize, parallel: usize) -> Cell {
        let (figures, whole) = (Figures::default(), Figures::default());
        Cell { member, parallel, figures, whole, lost: 0, failed: None }
    }

    fn sample(&mut self, member: &Member, ab: &Path, requests: usize) {
        let sampled = self.try_sample(&member.site, ab, requests);
        // A signal ends `ab` in the middle, which is no fault of the handler; its round does not count.
        if let Err(why) = sampled
            && !interrupted()
        {
            self.failed = Some(member.with_last_words(&why));
        }
    }

    /// The error is what was wrong with it.
    fn try_sample(&mut self, site: &Site, ab: &Path, requests: usize) -> Result<(), String> {
        let before = site.kept()?;
        let (web, server) = (site.web_cpu(), site.server_cpu());
        let load = load::make(ab, &site.url(), requests, self.parallel, &site.scratch())?;
        self.figures.web_cpu_us += site.web_cpu().saturating_sub(web).as_secs_f64() * 1e6;
        self.figures.server_cpu_us += site.server_cpu().saturating_sub(server).as_secs_f64() * 1e6;
        let wrong = fault(&load, requests);
        self.figures.loads.push(load);
        wrong.map_or(Ok(()), Err)?;
        site.check()?;
        self.figures.kept = site.kept()?;
        let (Some(before), Some(after)) = (before, self.figures.kept) else { return Ok(()) };
        let expected = before + requests as u64 + 1;
        self.lost += expected.saturating_sub(after);
        if after == expected { Ok(()) } else { Err(format!("{expected} sessions were to be kept, {after} are there")) }
    }

    fn into_row(self, bench: &Bench, member: &Member) -> Row {
        let row = bench.row(&member.choice, OP, self.parallel, bench.settings.sessions);
        let Figures { loads, web_cpu_us, server_cpu_us, kept } =
            if self.failed.is_some() { self.figures } else { self.whole };
        let sum = |part: fn(&Load) -> u64| loads.iter().map(part).sum::<u64>();
        let samples: Vec<RoundSample> = loads.iter().map(Load::sample).collect();
        let complete = sum(|load| load.complete);
        let each = |us: f64| us / complete.max(1) as f64;
        Row {
            rounds: loads.len(),
            ops_per_second: RoundSample::spread(&samples),
            samples,
            latency_us: load::latency(&loads),
            operations: complete,
            errors: sum(|load| load.failed.max(load.not_2xx)),
            lost: self.lost,
            failed: self.failed,
            cpu_us_per_op: CpuUs {
                client: each(loads.iter().map(|load| load.cpu_us).sum()),
                server: each(server_cpu_us),
            },
            web: Some(WebFigures {
                processes: processes(),
                failed_requests: sum(|load| load.failed),
                not_2xx: sum(|load| load.not_2xx),
                sessions_kept: kept,
                cpu_us_per_op: each(web_cpu_us),
                ..WebFigures::default()
            }),
            ..row
        }
    }
}
