//! `sessile copy`: the sessions of one store, or of another program's storage, into a store.
//!
//! Safe to stop at any moment and to repeat: what is there already is looked at and left. Prints no
//! ids.

mod counts;
mod stores;

use std::time::{Duration, Instant};

use sessile_core::{Clock, Error, ErrorKind, Sessions};
use sessile_stores::Context;
use sessile_stores::copy::{Import, Pair, check_old, migrate_url};
use sessile_stores::layouts::{self, Layout, Side};

use self::counts::Counts;
use self::stores::Stores;
use crate::arguments::CopyArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store;
use crate::terminal::{bar, print_as};

/// As the stores have it by default.
const LOCK_TTL: Duration = Duration::from_secs(60);

/// The old sessions, and the way into the new store.
enum Copy {
    Stores(Stores),
    Foreign(Import),
}

pub fn run(arguments: &CopyArguments) -> CommandResult {
    let mut copy = open(arguments)?;
    let mut counts = Counts::default();
    let start = Instant::now();
    let ended = copy.all(arguments, &mut counts);
    let seconds = start.elapsed().as_secs_f64();
    let json = || counts.as_json(arguments, copy.labels(), seconds);
    print_as(arguments.json, json, || counts.as_text(arguments))?;
    eprint!("{}", counts.reasons());
    match ended {
        Ok(()) => counts.judge(arguments),
        Err(error) => {
            let advice = "what was copied stays, and the same command goes on";
            let all = [error.into(), CommandFailure::unavailable(advice)];
            CommandFailure::join(all.map(Err))
        }
    }
}

fn open(arguments: &CopyArguments) -> Result<Copy, CommandFailure> {
    let context = Context { clock: Clock::system() };
    let created = |url: &str| Ok(sessile_stores::open(url, &context)?);
    let foreign = |url: &str, side| -> Result<Sessions, CommandFailure> {
        Ok(layouts::open_to_move(url, side, LOCK_TTL, &context.clock)?)
    };
    let is_dry = arguments.dry_run || arguments.verify;
    // A dry run creates no store.
    let new_store = || -> Result<Sessions, CommandFailure> {
        match is_dry {
            _ if arguments.moves && Layout::of(&arguments.to).is_some() => {
                foreign(&arguments.to, Side::New)
            }
            true => existing_store::open_to_look(&arguments.to),
            false => created(&arguments.to),
        }
    };
    if Layout::of(&arguments.to).is_some() && !arguments.moves {
        let why = "sessions of another program are written only by a move";
        let error = Error::new(ErrorKind::Unsupported, why).advice(match is_dry {
            true => {
                "leave --dry-run and --verify away and add --move; before it, `sessile stat` of \
                 migrate:?from=FROM&to=TO counts what is left to move"
            }
            false => "add --move",
        });
        return Err(error.into());
    }
    let is_foreign = Layout::of(&arguments.from).is_some();
    if is_foreign && !arguments.moves {
        let from = layouts::open_to_copy(&arguments.from, &context.clock)?;
        let import = Import::new(from, new_store()?, context.clock.clone());
        return Ok(Copy::Foreign(import));
    }
    let from = match is_foreign {
        true => foreign(&arguments.from, Side::Old)?,
        false => existing_store::open_to_look(&arguments.from)?,
    };
    // A refused copy makes no new store.
    check_old(&from)?;
    let to = new_store()?;
    let url = migrate_url(&arguments.from, &arguments.to);
    let both = arguments.moves.then(|| created(&url)).transpose()?;
    let pair = Pair { from, to, clock: context.clock.clone() };
    if pair.loses_owners() {
        eprintln!("Owners of sessions are not copied: {} keeps none.", pair.to.label());
    }
    let is_way_back = Layout::of(&arguments.to).is_some();
    Ok(Copy::Stores(Stores::new(pair, both, is_way_back, is_dry)))
}

impl Copy {
    fn labels(&self) -> [&str; 2] {
        match self {
            Copy::Stores(stores) => stores.labels(),
            Copy::Foreign(import) => import.labels(),
        }
    }

    fn all(&mut self, arguments: &CopyArguments, counts: &mut Counts) -> Result<(), Error> {
        let bar = bar(match self {
            Copy::Stores(stores) => Some(stores.count()),
            Copy::Foreign(import) => import.count(),
        });
        loop {
            let page_start = Instant::now();
            let more = match self {
                Copy::Stores(stores) => stores.page(arguments.batch, counts, &bar)?,
                Copy::Foreign(import) => {
                    let (entries, more) = import.page(arguments.batch)?;
                    for entry in &entries {
                        let is_dry = arguments.dry_run || arguments.verify;
                        let outcome =
                            if is_dry { import.compare(entry) } else { import.copy(entry) };
                        counts.count(outcome)?;
                        bar.inc(1);
                    }
                    more
                }
            };
            if !more {
                bar.finish_and_clear();
                break;
            }
            std::thread::sleep(arguments.pause.after(page_start.elapsed()));
        }
        match self {
            Copy::Stores(stores) if arguments.moves => stores.count_refused(counts),
            _ => Ok(()),
        }
    }
}
