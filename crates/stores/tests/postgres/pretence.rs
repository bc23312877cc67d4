//! What a proxy puts in the place of the server's words: other numbers of its processes, as a pool
//! of transactions would give, and refusals.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use sessile_fixtures::{Proxy, Tamper};

use crate::setup::Private;

/// The numbers by which the server's processes introduce themselves.
#[derive(Clone, Copy)]
pub enum Numbers {
    True,
    /// The same for all connections.
    Same,
    /// Another for each, none of them true.
    Wrong,
}

#[derive(Clone, Default)]
pub struct Pretence(Arc<Shared>);

#[derive(Default)]
struct Shared {
    answers: AtomicU64,
    say_too_late: AtomicBool,
    numbers: AtomicU8,
    connections: AtomicU64,
    /// Connections before this one are answered with this code.
    refused: Mutex<(u64, [u8; 5])>,
}

impl Pretence {
    /// A proxy before the server that pretends, and the URL that leads there.
    pub fn before(private: &Private) -> (Pretence, Proxy, String) {
        let pretence = Pretence::default();
        let proxy = Proxy::tampering(private.server.socket(), pretence.clone()).unwrap();
        let url = proxy.url(&private.url());
        (pretence, proxy, url)
    }

    /// How often the server said meanwhile that it waits for the next request: each time it ends a
    /// transaction, and wakes whoever waits for it.
    pub fn answers<T>(&self, something: impl FnOnce() -> T) -> (u64, T) {
        let before = self.0.answers.load(SeqCst);
        let done = something();
        (self.0.answers.load(SeqCst) - before, done)
    }

    /// Instead of its next answer the server says that `lock_timeout` is over, as it does when the
    /// lock is granted at that very moment: it has the lock then, and keeps it.
    pub fn say_too_late(&self) {
        self.0.say_too_late.store(true, SeqCst);
    }

    /// From now on all answers on the connections that there are say this code, as if nothing was
    /// known there.
    pub fn refuse_on_all_connections(&self, code: [u8; 5]) {
        *self.0.refused.lock().unwrap() = (self.0.connections.load(SeqCst), code);
    }

    pub fn number(&self, numbers: Numbers) {
        self.0.numbers.store(numbers as u8, SeqCst);
    }
}

impl Tamper for Pretence {
    fn change(&self, connection: u64, answer: &mut Vec<u8>) {
        let Pretence(shared) = self;
        shared.connections.fetch_max(connection + 1, SeqCst);
        let ready = answer.windows(6).filter(|bytes| bytes == b"Z\0\0\0\x05I").count();
        shared.answers.fetch_add(ready as u64, SeqCst);
        let (before, code) = *shared.refused.lock().unwrap();
        if shared.say_too_late.swap(false, SeqCst) {
            *answer = refusal(*b"55P03");
        } else if connection < before {
            *answer = refusal(code);
        } else {
            renumber(answer, shared.numbers.load(SeqCst), connection);
        }
    }
}

/// An error and the end of its transaction.
fn refusal(code: [u8; 5]) -> Vec<u8> {
    let fields = [b"SERROR\0C", &code[..], b"\0Mrefused by the proxy\0\0"].concat();
    let length = (4 + fields.len() as u32).to_be_bytes();
    [&b"E"[..], &length, &fields, b"Z\0\0\0\x05I"].concat()
}

/// The greeting is the only answer with a row of three columns whose first is a number in digits.
fn renumber(bytes: &mut [u8], numbers: u8, connection: u64) {
    if numbers == Numbers::True as u8 {
        return;
    }
    let row = |at: usize, bytes: &[u8]| {
        bytes[at] == b'D' && bytes[at + 5..at + 7] == [0, 3] && bytes[at + 7..at + 10] == [0; 3]
    };
    let Some(at) = (0..bytes.len().saturating_sub(20)).find(|at| row(*at, bytes)) else { return };
    let digits = usize::from(bytes[at + 10]);
    let number = if numbers == Numbers::Same as u8 { 1 } else { connection + 1 };
    bytes[at + 11..at + 11 + digits].copy_from_slice(format!("{number:0digits$}").as_bytes());
}
