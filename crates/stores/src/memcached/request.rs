//! What is asked of a server: several commands, sent in one write.
//!
//! Records and locks are stored with the old commands `add` and `cas`, not with the meta command `ms`: when the server
//! has no room for an item, `ms` drops the one that it was to replace, and `add` and `cas` leave it. Everything else is
//! said with meta commands (protocol.txt of memcached 1.6), whose answers carry the CAS number.
//!
//! Invariant: a batch knows how many answers it will get. Keys come from `names`, so they need no escaping.

use std::borrow::Cow;
use std::fmt::Write;

use super::cas::{Cas, Generation};

/// Commands of one round trip.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    commands: Vec<Command>,
}

struct Command {
    /// Where its bytes begin.
    at: usize,
    /// Of which generation its CAS number is, if it has one.
    of: Option<Generation>,
}

impl Command {
    fn suits(&self, server: Generation) -> bool {
        self.of.is_none_or(|generation| generation == server)
    }
}

/// A native life as the server takes it: seconds, above 30 days a moment, 0 for ever.
pub(super) type Life = i64;

impl Batch {
    /// What goes over the wire to this generation of the server: not the commands with CAS numbers of another one.
    pub(super) fn bytes(&self, server: Generation) -> Cow<'_, [u8]> {
        if self.suiting(server).all(|suits| suits) {
            return Cow::Borrowed(&self.bytes);
        }
        let ends = self.commands.iter().skip(1).map(|next| next.at).chain([self.bytes.len()]);
        let sent = self.commands.iter().zip(ends).filter(|(command, _)| command.suits(server));
        sent.flat_map(|(command, end)| self.bytes.get(command.at..end).unwrap_or_default()).copied().collect()
    }

    /// For each command, whether it goes to this generation of the server, and so whether it has an answer.
    pub(super) fn suiting(&self, server: Generation) -> impl Iterator<Item = bool> {
        self.commands.iter().map(move |command| command.suits(server))
    }

    /// Stores an item where there is none.
    pub(super) fn add(&mut self, key: &str, flags: u8, life: Life, value: &[u8]) {
        self.begin(None);
        self.store(format_args!("add {key} {flags} {life} {}", value.len()), value);
    }

    /// Replaces the very item that has this CAS number.
    pub(super) fn cas(&mut self, key: &str, flags: u8, life: Life, value: &[u8], cas: Cas) {
        self.begin(Some(cas));
        self.store(format_args!("cas {key} {flags} {life} {} {}", value.len(), cas.number), value);
    }

    /// Lengthens an item, which keeps its life.
    pub(super) fn append(&mut self, key: &str, value: &[u8]) {
        self.begin(None);
        self.store(format_args!("append {key} 0 0 {}", value.len()), value);
    }

    /// Reads an item.
    pub(super) fn get(&mut self, key: &str) {
        self.begin(None);
        self.line(format_args!("mg {key} v c t"));
    }

    /// Reads an item without its value.
    pub(super) fn head(&mut self, key: &str) {
        self.begin(None);
        self.line(format_args!("mg {key} c f t"));
    }

    /// Reads an item; if there is none, makes an empty one, so that there is a CAS number in any case.
    pub(super) fn get_or_reserve(&mut self, key: &str, life: Life) {
        self.begin(None);
        self.line(format_args!("mg {key} v c t N{life}"));
    }

    /// Deletes the very item that has this CAS number.
    pub(super) fn delete(&mut self, key: &str, cas: Cas) {
        self.begin(Some(cas));
        self.line(format_args!("md {key} C{}", cas.number));
    }

    /// Deletes whatever item there is.
    pub(super) fn delete_any(&mut self, key: &str) {
        self.begin(None);
        self.line(format_args!("md {key}"));
    }

    /// Gives an item a new CAS number and marks it stale: whoever has read it cannot replace it any more.
    pub(super) fn invalidate(&mut self, key: &str, life: Life) {
        self.begin(None);
        self.line(format_args!("md {key} I T{life}"));
    }

    /// Adds to a counter and reads it; one that is not there starts at `first`.
    pub(super) fn count(&mut self, key: &str, first: u64, by: u64) {
        self.begin(None);
        self.line(format_args!("ma {key} N0 J{first} D{by} v"));
    }

    fn begin(&mut self, cas: Option<Cas>) {
        self.commands.push(Command { at: self.bytes.len(), of: cas.map(|cas| cas.generation) });
    }

    fn store(&mut self, command: std::fmt::Arguments<'_>, value: &[u8]) {
        self.line(command);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, command: std::fmt::Arguments<'_>) {
        let mut line = Text(&mut self.bytes);
        // Writing into memory cannot fail.
        let _ = line.write_fmt(command);
        let _ = line.write_str("\r\n");
    }
}

/// Lets text be formatted into bytes without a string in between.
struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_its_commands_one_after_the_other() {
        let mut batch = Batch::default();
        let of = |pid, number| Cas { number, generation: Generation { pid, started_s: 9 } };
        batch.cas("p:d:session/a", 76, 100, b"cart", of(1, 7));
        batch.delete("p:l:session/a", of(1, 8));
        batch.count("p:fence", 5, 1);
        let wanted = b"cas p:d:session/a 76 100 4 7\r\ncart\r\nmd p:l:session/a C8\r\nma p:fence N0 J5 D1 v\r\n";
        assert_eq!(*batch.bytes(of(1, 0).generation), *wanted);
        // The server was restarted: what goes by its numbers is left out.
        assert_eq!(*batch.bytes(of(2, 0).generation), *b"ma p:fence N0 J5 D1 v\r\n");
        assert_eq!(batch.suiting(of(2, 0).generation).collect::<Vec<_>>(), [false, false, true]);
    }
}
