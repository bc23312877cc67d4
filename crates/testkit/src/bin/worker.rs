//! The process behind `sessile_testkit::worker`: opens the store that its argument names and does what the
//! lines on its standard input say. Answers `ok ...` or `err KIND TEXT`; `= ...` reports progress.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sessile_core::{Bin, Clock, Key, Lease, Sessions, Ttl};
use sessile_testkit::{opener, sealed};

const WAIT: Duration = Duration::from_secs(30);

type Answer = Result<String, Box<dyn std::error::Error>>;

struct Work {
    store: Sessions,
    lease: Option<Lease>,
}

fn main() {
    // A worker never outlives the suite, however the suite ends.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let url = std::env::args().nth(1).unwrap_or_default();
    let store = match opener::open(&url, Clock::system()) {
        Ok(store) => store,
        Err(error) => return say(&described(&error)),
    };
    say("ok");
    let mut work = Work { store, lease: None };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match work.obey(&line) {
            Ok(answer) => say(format!("ok {answer}").trim_end()),
            Err(error) => match error.downcast_ref::<sessile_core::Error>() {
                Some(error) => say(&described(error)),
                None => say(&format!("err worker {error}")),
            },
        }
    }
}

fn described(error: &sessile_core::Error) -> String {
    format!("err {} {error:#}", error.kind().code())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

impl Work {
    fn obey(&mut self, line: &str) -> Answer {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["begin", wait_ms, key] => self.begin(Duration::from_millis(wait_ms.parse()?), &parse_key(key)?),
            ["commit", text] => self.commit(text.as_bytes()),
            ["commit-sealed", seed, size] => self.commit(&sealed::seal(seed.parse()?, size.parse()?)),
            ["release"] => Ok(self.lease()?.release().map(|()| String::new())?),
            ["peek", key] => Ok(shown(self.store.peek(&parse_key(key)?)?.map(|record| record.payload))),
            ["create", text, key] => {
                Ok(self.store.create(&parse_key(key)?, text.as_bytes(), minute()?).map(|()| String::new())?)
            }
            ["destroy", key] => Ok(self.store.destroy(&parse_key(key)?).map(|()| String::new())?),
            ["increment", count, key] => self.increment(count.parse()?, &parse_key(key)?),
            ["cycle", ms, key] => self.cycle(Duration::from_millis(ms.parse()?), &parse_key(key)?),
            ["rewrite", size_max, key] => self.rewrite(size_max.parse()?, &parse_key(key)?),
            ["start-program", seconds] => self.start_program(seconds),
            ["fork", key] => self.fork(&parse_key(key)?),
            _ => Err("unknown command".into()),
        }
    }

    fn lease(&mut self) -> Result<Lease, Box<dyn std::error::Error>> {
        self.lease.take().ok_or_else(|| "no lease is held".into())
    }

    fn begin(&mut self, wait_max: Duration, key: &Key) -> Answer {
        let begun = self.store.begin(key, wait_max)?;
        let fence = begun.lease.fence();
        self.lease = Some(begun.lease);
        Ok(format!("{fence} {}", shown(begun.record.map(|record| record.payload))))
    }

    fn commit(&mut self, payload: &[u8]) -> Answer {
        Ok(self.lease()?.commit(payload, minute()?).map(|()| String::new())?)
    }

    /// Adds 1 to a number under lock, again and again; reports each acknowledged value.
    fn increment(&mut self, count: u64, key: &Key) -> Answer {
        for _ in 0..count {
            let begun = self.store.begin(key, WAIT)?;
            let number: u64 = match &begun.record {
                Some(record) => str::from_utf8(&record.payload)?.parse()?,
                None => 0,
            };
            begun.lease.commit((number + 1).to_string().as_bytes(), minute()?)?;
            say(&format!("= {}", number + 1));
        }
        Ok(String::new())
    }

    /// Locks, works for 0.2 ms and commits in a closed loop; reports how often.
    fn cycle(&mut self, during: Duration, key: &Key) -> Answer {
        let start = Instant::now();
        let mut count = 0_u64;
        while start.elapsed() < during {
            let begun = self.store.begin(key, WAIT)?;
            let busy = Instant::now();
            while busy.elapsed() < Duration::from_micros(200) {
                std::hint::spin_loop();
            }
            begun.lease.commit(b"x", minute()?)?;
            count += 1;
        }
        Ok(count.to_string())
    }

    /// Commits sealed payloads of random sizes until it is killed; reports each acknowledged seed.
    fn rewrite(&mut self, size_max: usize, key: &Key) -> Answer {
        for round in 0.. {
            let begun = self.store.begin(key, WAIT)?;
            let old = begun.record.map(|record| sealed::open(&record.payload).ok_or("a torn payload"));
            let seed = old.transpose()?.unwrap_or(0) + 1;
            // The size must differ from one payload to the next, or a mix could pass for whole.
            say(&format!("+ {seed}"));
            begun.lease.commit(&sealed::seal(seed, fastrand::usize(16..size_max) + round % 7), minute()?)?;
            say(&format!("= {seed}"));
        }
        Ok(String::new())
    }

    /// Starts a program that outlives this process and inherits what is inheritable.
    fn start_program(&self, seconds: &str) -> Answer {
        let quiet = std::process::Stdio::null;
        std::process::Command::new("sleep").arg(seconds).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn()?;
        Ok(String::new())
    }

    /// Forks while it holds a lease. The child drops the inherited lease and works on another session; the
    /// parent's lease must still be good afterwards.
    fn fork(&mut self, other: &Key) -> Answer {
        match fork::fork()? {
            fork::Fork::Child => {
                drop(self.lease.take());
                let worked = self.begin(WAIT, other).and_then(|_| self.commit(b"from-the-child"));
                std::process::exit(i32::from(worked.is_err()));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child)?;
                if status == 0 { Ok(String::new()) } else { Err(format!("the child ended with {status}").into()) }
            }
        }
    }
}

fn minute() -> sessile_core::Result<Ttl> {
    Ttl::sliding(Duration::from_secs(60))
}

fn parse_key(word: &str) -> Result<Key, Box<dyn std::error::Error>> {
    let (bin, id) = word.split_once('/').ok_or("a key is BIN/ID")?;
    Ok(Key::in_bin(Bin::new(bin)?, id)?)
}

/// A payload on one line: text as it is, anything else by its size, `-` for none.
fn shown(payload: Option<Vec<u8>>) -> String {
    let Some(payload) = payload else { return "-".into() };
    let text = str::from_utf8(&payload).ok().filter(|text| text.bytes().all(|b| (b' '..0x7f).contains(&b)));
    text.map_or_else(|| format!("#{}", payload.len()), str::to_owned)
}
