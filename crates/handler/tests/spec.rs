//! The cases of `spec/requests.toml`, on every store.

use std::time::Duration;

use sessile_core::{Clock, Error, Sessions};
use sessile_fixtures::{Instance, ServerOptions, StartError};
use sessile_handler::{
    Access, Concurrency, Format, OnConflict, OnLockTimeout, Request, Rules, Save,
};
use sessile_spec::{
    RequestDriver, SpecConcurrency, SpecConflict, SpecRules, SpecSave, Started, request_cases,
};

struct Driver {
    request: Request,
    sessions: Sessions,
}

fn rules(spec: SpecRules) -> Rules {
    Rules {
        lock_wait: Duration::ZERO,
        on_lock_timeout: match spec.read_on_lock_timeout {
            true => OnLockTimeout::ReadUnlocked,
            false => OnLockTimeout::Fail,
        },
        idle: Duration::from_secs(spec.idle),
        first_lifetime: Some(spec.first_lifetime).filter(|s| *s > 0).map(Duration::from_secs),
        absolute_lifetime: Some(spec.lifetime).filter(|s| *s > 0).map(Duration::from_secs),
        grace: Duration::from_secs(spec.grace),
        lazy_start: spec.lazy_start,
        touch_unlocked: spec.touch_unlocked,
        best_effort: spec.best_effort,
        concurrency: match spec.concurrency {
            SpecConcurrency::Exclusive => Concurrency::Exclusive,
            SpecConcurrency::Merge => Concurrency::Merge {
                format: Some(Format::Php),
                on_conflict: match spec.merge_conflict {
                    SpecConflict::Last => OnConflict::LastWins,
                    SpecConflict::Fail => OnConflict::Fail,
                },
            },
        },
    }
}

fn code(error: Error) -> String {
    error.kind().code().to_owned()
}

impl RequestDriver for Driver {
    fn make_id(&mut self, id: &str) {
        assert!(!self.request.is_taken(&self.sessions, id, true));
    }

    fn start(&mut self, id: &str, unlocked: bool, strict: bool) -> Result<Option<Started>, String> {
        let Driver { request, sessions } = self;
        let access = if unlocked { Access::Unlocked } else { Access::Locked };
        if strict && !request.validate(sessions, id, access) {
            return Ok(None);
        }
        let opened = request.open(sessions, id, access).map_err(code)?;
        let text = String::from_utf8_lossy(opened.payload).into_owned();
        let warns = opened.warning.map(code);
        request.loaded();
        Ok(Some(Started { text, warns }))
    }

    fn save(&mut self, id: &str, save: SpecSave<'_>) -> Result<String, String> {
        let SpecSave { text, changed, headers_open } = save;
        let save =
            Save { payload: Some(text.as_bytes()), changed, empty: text.is_empty(), headers_open };
        let saved = self.request.save(&self.sessions, id, save).map_err(code)?;
        Ok(saved.name().to_owned())
    }

    fn regenerate(&mut self, old: &str, new: &str, keeps: bool) -> Result<(), String> {
        let Driver { request, sessions } = self;
        request.leave_id(sessions, old, keeps).map_err(code)?;
        request.open(sessions, new, Access::Locked).map_err(code)?;
        request.loaded();
        Ok(())
    }

    fn destroy(&mut self, id: &str) -> Result<(), String> {
        self.request.destroy(&self.sessions, id).map_err(code)
    }

    fn close(&mut self) -> String {
        self.request.close(&self.sessions, true).name().to_owned()
    }
}

#[test]
#[allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
fn every_case_holds_on_every_store() {
    let (mut run, mut failed) = (0, Vec::new());
    for entry in sessile_stores::registry::STORES {
        for fixture in entry.fixtures {
            let instance = match Instance::start(entry, fixture, &ServerOptions::default()) {
                Ok(instance) => instance,
                Err(StartError::Missing { server, .. }) if std::env::var_os("CI").is_none() => {
                    println!("SKIPPED {}: no {server}", entry.name);
                    continue;
                }
                Err(why) => panic!("{}: {why}", entry.name),
            };
            for (number, case) in request_cases().unwrap().into_iter().enumerate() {
                let clock = Clock::manual(Clock::system().now());
                let sessions = instance.open(clock.clone()).expect("the fixture opens");
                // Requests take turns there.
                if sessions.capabilities().foreign_writers && case.name.starts_with("merge:") {
                    continue;
                }
                let request = || Driver {
                    request: Request::new(clock.clone(), || 1, rules(case.rules)),
                    sessions: sessions.clone(),
                };
                run += 1;
                if let Err(why) = case.run(&clock, |id| format!("{id}-{number}"), request) {
                    failed.push(format!("{}#{}: {why}", entry.name, fixture.variant));
                }
            }
        }
    }
    println!("{run} cases run");
    assert!(run > 0 && failed.is_empty(), "{}", failed.join("\n"));
}
