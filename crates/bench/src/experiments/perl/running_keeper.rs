//! A running keeper: its Perl process, server and directories.
//!
//! Invariant: dropping a [`RunningKeeper`] leaves no process and no file. Its texts contain no path
//! and no session id.

use std::time::Duration;

use crate::footprint::{Footprint, FootprintSource};
use crate::options::Settings;
use crate::perl::{Keeper, PerlInstallation, Runner, SpaceSource};
use crate::private_places::PrivatePlaces;

/// Space in payloads where it is fixed beforehand: it includes overhead and uneven partitions.
const ROOM: usize = 8;

pub(super) struct RunningKeeper {
    // Dropped in this order: Perl, server and directories.
    pub runner: Runner,
    places: PrivatePlaces,
    footprint: Option<Footprint>,
}

impl RunningKeeper {
    pub(super) fn open(
        keeper: &Keeper,
        perl: &PerlInstallation,
        settings: &Settings,
    ) -> Result<RunningKeeper, String> {
        let values: Vec<&str> = keeper.settings.iter().map(|(_, value)| *value).collect();
        let places = PrivatePlaces::open(&values, keeper.server, settings.durability, &[])?;
        let scripts = places.scratch().join("scripts");
        std::fs::create_dir(&scripts).map_err(|error| format!("no fresh directory: {error}"))?;
        let most = settings.sizes.last().copied().unwrap_or(settings.sessions);
        let megabytes = (((most * settings.payload_bytes * ROOM) >> 20) + ROOM).to_string();
        let fill = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), places.fill(value).replace("{megabytes}", &megabytes))
        };
        let filled: Vec<(String, String)> = keeper.settings.iter().map(fill).collect();
        let runner = Runner::start(perl.command(keeper), &scripts, keeper, &filled)
            .map_err(|why| places.redact(&why))?;
        let home = places.homes().next().filter(|_| keeper.space == SpaceSource::Files);
        let of_home = |home: &std::path::Path| {
            Footprint::of_empty(FootprintSource::Directory(home.to_owned()), runner.pid())
        };
        let footprint = home.map(of_home);
        Ok(RunningKeeper { runner, places, footprint })
    }

    pub(super) fn server_cpu(&self) -> Duration {
        self.places.server_cpu()
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.footprint.as_ref().map(Footprint::bytes)
    }

    /// Removes paths and session ids.
    pub(super) fn redact(&self, text: &str) -> String {
        self.places.redact(text)
    }
}
