//! `sessile copy`: the sessions of one store into another.
//!
//! Safe to stop at any moment and to repeat: what is there already is looked at and left. Prints no
//! ids.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessile_core::{Absence, Clock, Cursor, Error, ErrorKind, Filter, Key, Sessions};
use sessile_stores::Context;
use sessile_stores::copy::{Compared, Pair, migrate_url};

use crate::arguments::CopyArguments;
use crate::command_result::{CommandFailure, CommandResult};
use crate::existing_store::{self, failure};
use crate::terminal::{bar, print};
use crate::units;

/// How long a move waits for a session that is in use.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Sessions by what became of each.
#[derive(Debug, Default)]
struct Counts {
    found: BTreeMap<Compared, u64>,
    moved: u64,
    /// By the code of the error.
    refused: BTreeMap<&'static str, u64>,
}

struct Copy {
    pair: Pair,
    /// The two stores as one that moves sessions.
    both: Option<Sessions>,
    is_dry: bool,
}

pub fn run(arguments: &CopyArguments) -> CommandResult {
    let copy = open(arguments)?;
    copy.pair.check().map_err(|error| failure(&error))?;
    if copy.pair.loses_owners() {
        let to = copy.pair.to.label();
        eprintln!("Owners of sessions are not copied: {to} keeps none.");
    }
    let mut counts = Counts::default();
    let start = Instant::now();
    let ended = copy.all(arguments, &mut counts);
    let seconds = start.elapsed().as_secs_f64();
    if arguments.json {
        print(&format!("{:#}\n", counts.as_json(arguments, &copy.pair, seconds)))?;
    } else {
        print(&counts.as_text(arguments))?;
    }
    match ended {
        Ok(()) => counts.judge(arguments),
        Err(error) => {
            let advice = "what was copied stays, and the same command goes on";
            let all = [failure(&error), CommandFailure::unavailable(advice)];
            CommandFailure::join(all.map(Err))
        }
    }
}

fn open(arguments: &CopyArguments) -> Result<Copy, CommandFailure> {
    let from = existing_store::open_to_look(&arguments.from)?;
    let is_dry = arguments.dry_run || arguments.verify;
    let context = Context { clock: Clock::system() };
    let created = |url: &str| sessile_stores::open(url, &context).map_err(|error| failure(&error));
    // A dry run creates no store.
    let to = match is_dry {
        true => existing_store::open_to_look(&arguments.to)?,
        false => created(&arguments.to)?,
    };
    let url = migrate_url(&arguments.from, &arguments.to);
    let both = arguments.moves.then(|| created(&url)).transpose()?;
    Ok(Copy { pair: Pair { from, to, clock: context.clock }, both, is_dry })
}

impl Copy {
    fn all(&self, arguments: &CopyArguments, counts: &mut Counts) -> Result<(), Error> {
        let bar = bar(self.pair.from.stat().map_or(0, |stat| stat.sessions));
        let filter = Filter { entries_max: arguments.batch, ..Filter::default() };
        let mut cursor: Option<Cursor> = None;
        loop {
            let page_start = Instant::now();
            let page = self.pair.from.list(cursor.as_ref(), &filter)?;
            for entry in &page.entries {
                match self.one(&entry.key, counts) {
                    Ok(()) => {}
                    Err(error) if is_of_one_session(&error) => {
                        *counts.refused.entry(error.kind().code()).or_default() += 1;
                    }
                    Err(error) => return Err(error),
                }
                bar.inc(1);
            }
            cursor = page.next;
            if cursor.is_none() {
                bar.finish_and_clear();
                return Ok(());
            }
            std::thread::sleep(arguments.pause.after(page_start.elapsed()));
        }
    }

    fn one(&self, key: &Key, counts: &mut Counts) -> Result<(), Error> {
        if let Some(both) = &self.both {
            // The move is a part of it.
            let begun = both.begin(key, WAIT_MAX)?;
            counts.moved += u64::from(begun.record.is_some());
            let is_there =
                begun.record.is_some() || begun.moved || begun.absence == Absence::Regenerated;
            if is_there {
                self.remove_leftover(both, key)?;
            }
            return begun.lease.release();
        }
        let found = if self.is_dry { self.pair.compare(key) } else { self.pair.copy(key) }?;
        *counts.found.entry(found).or_default() += 1;
        Ok(())
    }

    /// What an interrupted move has left. Under the lock of the old store, too: another move may be
    /// under way.
    fn remove_leftover(&self, both: &Sessions, key: &Key) -> Result<(), Error> {
        let from = &self.pair.from;
        // Without the lock first: a begin may leave a file that PHP takes for a session.
        let found = from.find(key)?;
        if found.record.is_none() || found.moved_to.is_some() {
            return Ok(());
        }
        let left = from.begin_at_once(key)?;
        if left.record.is_none() || left.moved {
            return Ok(());
        }
        match both.sync() {
            Err(error) if *error.kind() != ErrorKind::Unsupported => Err(error),
            _ => from.destroy(key),
        }
    }
}

/// The other sessions can still be copied.
fn is_of_one_session(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::LockTimeout { .. }
            | ErrorKind::TooLarge { .. }
            | ErrorKind::InvalidId
            | ErrorKind::Corrupt
            | ErrorKind::Stale
            | ErrorKind::Destroyed
            | ErrorKind::Gone
    )
}

impl Counts {
    fn of(&self, found: Compared) -> u64 {
        self.found.get(&found).copied().unwrap_or(0)
    }

    fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    fn as_text(&self, arguments: &CopyArguments) -> String {
        let sessions = |number| units::with_noun(number, "session", "sessions");
        let [missing, older, same, newer, ended] =
            [Compared::Missing, Compared::Older, Compared::Same, Compared::Newer, Compared::Ended]
                .map(|found| self.of(found));
        let mut lines = if arguments.moves {
            vec![(self.moved, "moved")]
        } else if arguments.verify {
            vec![(same, "equal"), (missing, "missing"), (older, "older in the new store")]
        } else if arguments.dry_run {
            vec![(missing, "to copy"), (older, "to replace"), (same, "there already")]
        } else {
            vec![(missing, "copied"), (older, "replaced"), (same, "there already")]
        };
        lines.extend([(newer, "newer in the new store"), (ended, "ended in one of the stores")]);
        lines.retain(|(number, what)| *number > 0 || *what == "copied" || *what == "moved");
        let mut text: String =
            lines.iter().map(|(number, what)| format!("{} {what}\n", sessions(*number))).collect();
        for (code, number) in &self.refused {
            text.push_str(&format!("{} not copied: {code}\n", sessions(*number)));
        }
        text
    }

    fn as_json(&self, arguments: &CopyArguments, pair: &Pair, seconds: f64) -> Value {
        json!({
            "schema": 1,
            "from": pair.from.label(),
            "to": pair.to.label(),
            "changed": !arguments.dry_run && !arguments.verify,
            "missing": self.of(Compared::Missing),
            "older": self.of(Compared::Older),
            "same": self.of(Compared::Same),
            "newer": self.of(Compared::Newer),
            "ended": self.of(Compared::Ended),
            "moved": self.moved,
            "refused": self.refused,
            "seconds": seconds,
        })
    }

    fn judge(&self, arguments: &CopyArguments) -> CommandResult {
        let behind = self.of(Compared::Missing) + self.of(Compared::Older);
        if arguments.verify && behind > 0 {
            let sessions = units::with_noun(behind, "session is", "sessions are");
            return Err(CommandFailure::found(format!(
                "{sessions} missing or older in the new store; run the command without --verify"
            )));
        }
        if self.refused() > 0 {
            let sessions = units::with_noun(self.refused(), "session was", "sessions were");
            let again = "; the same command tries those again that were in use";
            return Err(CommandFailure::found(format!("{sessions} not copied{again}")));
        }
        Ok(())
    }
}
