//! Requests to a server: several commands, sent in one write.
//!
//! Records and locks are stored with `add` and `cas`: if the server has no room for the item, they
//! leave the one to replace, which the meta command `ms` drops. All other commands are meta
//! commands (protocol.txt of memcached 1.6), whose answers carry the CAS number.
//!
//! Invariant: a request knows how many answers it will get. Keys come from the store's own names,
//! so they need no escaping.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::Write;

use super::reply::{Cas, Generation};

#[derive(Default)]
pub struct Commands {
    bytes: Vec<u8>,
    /// Where each command begins, and of which generation its CAS number is, if it has one.
    list: Vec<(usize, Option<Generation>)>,
}

/// When the server drops an item: seconds from now, above 30 days a moment, 0 for never.
pub type Exptime = i64;

impl Commands {
    /// The bytes for this generation of the server: not the commands with CAS numbers of another.
    pub fn bytes(&self, server: Generation) -> Cow<'_, [u8]> {
        if self.are_sent(server).all(|sent| sent) {
            return Cow::Borrowed(&self.bytes);
        }
        let ends = self.list.iter().skip(1).map(|(at, _)| *at).chain([self.bytes.len()]);
        let parts = self.list.iter().zip(ends).zip(self.are_sent(server));
        let sent = parts.filter(|(_, sent)| *sent).map(|(((at, _), end), _)| *at..end);
        sent.flat_map(|range| self.bytes.get(range).unwrap_or_default()).copied().collect()
    }

    /// For each command, whether it is sent to this generation of the server, and so answered.
    pub fn are_sent(&self, server: Generation) -> impl Iterator<Item = bool> {
        self.list.iter().map(move |(_, of)| of.is_none_or(|generation| generation == server))
    }

    /// Replaces the very item that has this CAS number; without one, stores an item where there is
    /// none.
    pub fn put(
        self,
        key: &str,
        flags: u8,
        exptime: Exptime,
        value: &[u8],
        over: Option<Cas>,
    ) -> Commands {
        let rest = format_args!("{key} {flags} {exptime} {}", value.len());
        let line = match over {
            Some(cas) => self.line(format_args!("cas {rest} {}", cas.number), over),
            None => self.line(format_args!("add {rest}"), None),
        };
        line.value(value)
    }

    /// Lengthens an item, which keeps its exptime.
    pub fn append(self, key: &str, value: &[u8]) -> Commands {
        self.line(format_args!("append {key} 0 0 {}", value.len()), None).value(value)
    }

    pub fn get(self, key: &str) -> Commands {
        self.line(format_args!("mg {key} v c t"), None)
    }

    pub fn head(self, key: &str) -> Commands {
        self.line(format_args!("mg {key} c f t"), None)
    }

    /// Reads an item, or makes an empty one, so that there always is a CAS number.
    pub fn get_or_reserve(self, key: &str, exptime: Exptime) -> Commands {
        self.line(format_args!("mg {key} v c t N{exptime}"), None)
    }

    /// Deletes the very item that has this CAS number, and nothing by the default number.
    pub fn delete(self, key: &str, cas: Cas) -> Commands {
        self.line(format_args!("md {key} C{}", cas.number), Some(cas))
    }

    pub fn delete_any(self, key: &str) -> Commands {
        self.line(format_args!("md {key}"), None)
    }

    /// Gives an item a new CAS number and marks it stale: a lease that has read it can no longer
    /// replace it.
    pub fn invalidate(self, key: &str, exptime: Exptime) -> Commands {
        self.line(format_args!("md {key} I T{exptime}"), None)
    }

    /// Adds to a counter and reads it; one that is not there starts at `first`.
    pub fn count(self, key: &str, first: u64, by: u64) -> Commands {
        self.line(format_args!("ma {key} N0 J{first} D{by} v"), None)
    }

    fn line(mut self, line: Arguments<'_>, cas: Option<Cas>) -> Commands {
        self.list.push((self.bytes.len(), cas.map(|cas| cas.generation)));
        let _ = write!(self.bytes, "{line}\r\n"); // into memory: it cannot fail
        self
    }

    fn value(mut self, value: &[u8]) -> Commands {
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_commands_one_after_the_other() {
        let of = |pid, number| Cas { number, generation: Generation { pid, started_s: 9 } };
        let commands = Commands::default()
            .put("p:d:session/a", 76, 100, b"cart", Some(of(1, 7)))
            .delete("p:l:session/a", of(1, 8))
            .count("p:fence", 5, 1);
        let wanted = b"cas p:d:session/a 76 100 4 7\r\ncart\r\nmd p:l:session/a C8\r\nma p:fence \
                       N0 J5 D1 v\r\n";
        assert_eq!(*commands.bytes(of(1, 0).generation), *wanted);
        // The server was restarted: what goes by its numbers is left out.
        assert_eq!(*commands.bytes(of(2, 0).generation), *b"ma p:fence N0 J5 D1 v\r\n");
        let sent: Vec<bool> = commands.are_sent(of(2, 0).generation).collect();
        assert_eq!(sent, [false, false, true]);
    }
}
