//! Opens a store and obeys the lines on standard input. Replies `ok ...` or `err KIND TEXT`; `=
//! ...` reports progress.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::concurrent::count_cycles;
use crate::sealed;
use crate::testbed::{BegunText, TestStore, minute, ms, open, payload, text_of};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, alarm};
use sessile_core::{Bin, Budget, ErrorKind, Key, Lease, Owner};

const WAIT: Duration = Duration::from_secs(30);
const CHILD_SECONDS_MAX: u32 = 20;

type WorkerReply = Result<String, Box<dyn std::error::Error>>;

struct Commands {
    store: TestStore,
    lease: Option<Lease>,
}

/// Works until its standard input ends.
pub fn run_suite_worker(url: &str) {
    // A worker never outlives the suite, however the suite ends.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let store = match open(url) {
        Ok(store) => store,
        Err(error) => return reply(&described(&error)),
    };
    reply("ok");
    let mut commands = Commands { store, lease: None };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match commands.execute(&line) {
            Ok(text) => reply(format!("ok {text}").trim_end()),
            Err(error) => match error.downcast_ref::<sessile_core::Error>() {
                Some(error) => reply(&described(error)),
                None => reply(&format!("err worker {error}")),
            },
        }
    }
}

fn described(error: &sessile_core::Error) -> String {
    format!("err {} {error:#}", error.kind().code())
}

fn reply(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

impl Commands {
    fn execute(&mut self, line: &str) -> WorkerReply {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["begin", wait_ms, key] => {
                return self.begin(ms(wait_ms.parse()?), &parse_key(key)?);
            }
            ["commit", text] => self.lease()?.commit(&payload(text), minute())?,
            ["peek", key] => {
                return Ok(self.store.text(&parse_key(key)?)?.unwrap_or_else(|| "-".into()));
            }
            ["create", text, key] => self.store.create_text(&parse_key(key)?, text)?,
            ["destroy", key] => self.store.destroy(&parse_key(key)?)?,
            ["increment", count, key] => self.increment(count.parse()?, &parse_key(key)?)?,
            ["cycle", during_ms, key] => {
                let key = parse_key(key)?;
                return Ok(count_cycles(&self.store, &key, ms(during_ms.parse()?))?.to_string());
            }
            ["rewrite", size_max, key] => self.rewrite(size_max.parse()?, &parse_key(key)?)?,
            ["own", first, second, key] => self.own([first, second], &parse_key(key)?)?,
            ["start-program", seconds] => start_program(seconds)?,
            ["fork", key] => self.fork(&parse_key(key)?)?,
            ["fork-in-sweeps", children, key] => {
                fork_in_sweeps(&self.store, children.parse()?, &parse_key(key)?)?;
            }
            _ => return Err("unknown command".into()),
        }
        Ok(String::new())
    }

    fn lease(&mut self) -> Result<Lease, Box<dyn std::error::Error>> {
        self.lease.take().ok_or_else(|| "no lease is held".into())
    }

    fn begin(&mut self, wait_max: Duration, key: &Key) -> WorkerReply {
        let begun = self.store.begin(key, wait_max)?;
        let text = begun.record.map_or_else(|| "-".into(), |record| text_of(&record.payload));
        let fence = begun.lease.fence();
        self.lease = Some(begun.lease);
        Ok(format!("{fence} {text}"))
    }

    fn increment(&mut self, count: u64, key: &Key) -> Result<(), Box<dyn std::error::Error>> {
        for _ in 0..count {
            let begun = self.store.begin(key, WAIT)?;
            let number: u64 = match &begun.record {
                Some(record) => text_of(&record.payload).parse()?,
                None => 0,
            };
            begun.commit_text(&(number + 1).to_string())?;
            reply(&format!("= {}", number + 1));
        }
        Ok(())
    }

    fn rewrite(&mut self, size_max: usize, key: &Key) -> Result<(), Box<dyn std::error::Error>> {
        for round in 0.. {
            let begun = self.store.begin(key, WAIT)?;
            let token = match &begun.record {
                Some(record) => sealed::token_of(&record.payload).ok_or("a torn payload")? + 1,
                None => 1,
            };
            // The size must differ from one payload to the next, or a mix could pass for whole.
            reply(&format!("+ {token}"));
            let size = fastrand::usize(sealed::BYTES_MIN..size_max) + round % 7;
            begun.lease.commit(&sealed::seal(token, size), minute())?;
            reply(&format!("= {token}"));
        }
        Ok(())
    }

    /// Gives a session to one owner, then to the other, then to nobody, again and again.
    fn own(&mut self, owners: [&str; 2], key: &Key) -> Result<(), Box<dyn std::error::Error>> {
        let [first, second] = owners.map(Owner::from_hex);
        reply("= ready");
        for owner in [first, second, None, second, first].into_iter().cycle() {
            let mut lease = self.store.begin(key, WAIT)?.lease;
            lease.set_owner(owner)?;
            lease.commit(&payload("owned"), minute())?;
        }
        Ok(())
    }

    /// The child drops the inherited lease and works on another session; the parent's lease must
    /// still be good afterwards.
    fn fork(&mut self, other: &Key) -> Result<(), Box<dyn std::error::Error>> {
        match fork::fork()? {
            fork::Fork::Child => {
                drop(self.lease.take());
                let worked = self.store.save(other, "from-the-child");
                std::process::exit(i32::from(worked.is_err()));
            }
            fork::Fork::Parent(child) => match fork::waitpid(child)? {
                0 => Ok(()),
                status => Err(format!("the child ended with {status}").into()),
            },
        }
    }
}

/// Forks while another thread sweeps without a pause.
fn fork_in_sweeps(
    store: &TestStore,
    children: u32,
    key: &Key,
) -> Result<(), Box<dyn std::error::Error>> {
    let sweeping = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: nothing else depends on it.
            while sweeping.load(Relaxed) && store.sweep(Budget::default()).is_ok() {
                std::hint::spin_loop();
            }
        });
        let ended = (0..children).try_for_each(|_| fork_once(store, key));
        sweeping.store(false, Relaxed);
        ended
    })
}

/// The child works as its parent does. If it cannot, it must say so.
fn fork_once(store: &TestStore, key: &Key) -> Result<(), Box<dyn std::error::Error>> {
    match fork::fork()? {
        fork::Fork::Child => {
            alarm::set(CHILD_SECONDS_MAX); // kills it if it hangs
            let sweep = || store.sweep(Budget::default()).map(drop);
            let worked = store.save(key, "from-the-child").and_then(|()| sweep());
            let wrong = worked.is_err_and(|error| *error.kind() != ErrorKind::Incompatible);
            std::process::exit(i32::from(wrong));
        }
        fork::Fork::Parent(child) => match waitpid(Pid::from_raw(child), None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Signaled(..) => Err("a child hangs".into()),
            ended => Err(format!("a child ended with {ended:?}").into()),
        },
    }
}

/// Starts a program that outlives this process and inherits what is inheritable.
fn start_program(seconds: &str) -> std::io::Result<()> {
    let quiet = std::process::Stdio::null;
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg(seconds).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().map(drop)
}

fn parse_key(word: &str) -> Result<Key, Box<dyn std::error::Error>> {
    let (bin, id) = word.split_once('/').ok_or("a key is BIN/ID")?;
    Ok(Key::in_bin(Bin::new(bin)?, id)?)
}
