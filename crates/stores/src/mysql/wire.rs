//! Packets over one socket to the server, encrypted or not, and the answers that they make up.
//!
//! `mysql_common`, a part of the maintained client, encodes and decodes the packets. The client
//! itself is not used, see `docs/decisions/0024-a-deadline-for-each-operation.md`. Source:
//! MariaDB's documentation, "Client/Server Protocol".
//!
//! Invariants: before the login is over a packet has a bounded length; dropping a wire closes this
//! process's descriptor and sends nothing.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::time::Instant;

use bytes::{Buf, BufMut, BytesMut};
use mysql_common::Value as Column;
use mysql_common::constants::{
    CapabilityFlags, ColumnType, Command, MariadbCapabilities, StatusFlags,
};
use mysql_common::io::{BufMutExt, ParseBuf};
use mysql_common::packets::{
    self, CommonOkPacket, ErrPacket, NullBitmap, OkPacket, OkPacketDeserializer, OkPacketKind,
    OldEofPacket, StmtPacket,
};
use mysql_common::proto::codec::PacketCodec;
use mysql_common::proto::codec::error::PacketCodecError;
use mysql_common::proto::{MyDeserialize, MySerialize};
use mysql_common::value::{BinValue, ServerSide, TextValue, ValueDeserializer};

use super::failure::{Attempt, MysqlFailure};
use super::options::Options;
use super::row::Row;
use crate::connections::options::Timeouts;
use crate::connections::stream::Stream;
use crate::connections::tls::{Channel, Host, Tls};
use crate::sql::value::Value;

/// Read at once; a session of the usual size comes in one piece.
const READ_BYTES: usize = 16 << 10;
/// Before the login is over anybody may announce a length.
const LOGIN_PACKET_BYTES_MAX: usize = 64 << 10;
/// The limit that the server tells is smaller.
const PACKET_BYTES_MAX: usize = 1 << 30;
/// A buffer that one large payload has grown is given back to the system.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// The server's own limit of columns.
const COLUMNS_MAX: u64 = 4_096;

pub struct Wire {
    channel: Channel,
    codec: PacketCodec,
    received: BytesMut,
    out: BytesMut,
    packet: Vec<u8>,
    chunk: Box<[u8; READ_BYTES]>,
    /// What both sides know.
    pub(super) capabilities: CapabilityFlags,
    pub(super) extensions: MariadbCapabilities,
    /// The server's number of the connection, by the handshake.
    pub(super) number: u32,
}

/// The rows that a statement has found, and how many it has changed.
pub type ResultSet = (Vec<Row>, u64);

/// A statement that the server has prepared.
pub struct Prepared {
    id: u32,
    columns: Vec<packets::Column>,
}

impl Wire {
    /// Connects and logs in.
    pub fn open(options: &Options, host: &Host, deadline: Instant) -> Attempt<Wire> {
        let mut wire = Wire::connect(host, &options.timeouts, deadline)?;
        wire.log_in(options, host)?;
        Ok(wire)
    }

    fn connect(host: &Host, timeouts: &Timeouts, deadline: Instant) -> Attempt<Wire> {
        let stream = Stream::connect(&host.address, timeouts, deadline);
        let mut codec = PacketCodec::default();
        codec.max_allowed_packet = LOGIN_PACKET_BYTES_MAX;
        Ok(Wire {
            channel: stream.map_err(MysqlFailure::Connection)?.into(),
            codec,
            received: BytesMut::new(),
            out: BytesMut::new(),
            packet: Vec::new(),
            chunk: Box::new([0; READ_BYTES]),
            capabilities: CapabilityFlags::empty(),
            extensions: MariadbCapabilities::empty(),
            number: 0,
        })
    }

    /// From now on packets may be as long as payloads.
    pub(super) fn allow_payloads(&mut self) {
        self.codec.max_allowed_packet = PACKET_BYTES_MAX;
    }

    pub(super) fn encrypt(&mut self, tls: &Tls) -> Attempt<()> {
        if !self.received.is_empty() {
            return Err(MysqlFailure::Garbled); // in clear, it would pass for the server's
        }
        self.channel.encrypt(tls).map_err(MysqlFailure::Connection)
    }

    pub fn set_deadline(&mut self, deadline: Instant) {
        self.channel.set_deadline(deadline);
    }

    pub(super) fn send(&mut self, packet: &mut impl Buf) -> Attempt<()> {
        self.codec.encode(packet, &mut self.out).map_err(|_| MysqlFailure::Garbled)?;
        let sent = self.channel.write_all(&self.out).and_then(|()| self.channel.flush());
        if self.out.capacity() > KEPT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.out.clear();
        sent.map_err(MysqlFailure::Connection)
    }

    pub(super) fn send_struct(&mut self, packet: &impl MySerialize) -> Attempt<()> {
        let mut bytes = Vec::new();
        packet.serialize(&mut bytes);
        self.send(&mut bytes.as_slice())
    }

    pub(super) fn command(&mut self, command: Command, rest: &[u8]) -> Attempt<()> {
        self.codec.reset_seq_id();
        self.send(&mut Buf::chain([command as u8].as_slice(), rest))
    }

    /// The next packet, which is not empty. What the server refuses is an error.
    pub(super) fn next(&mut self) -> Attempt<&[u8]> {
        if self.packet.capacity() > KEPT_BYTES_MAX {
            self.packet = Vec::new();
            // Some of the next packet may be there, at most one chunk.
            self.received = BytesMut::from(&*self.received);
        }
        self.packet.clear();
        loop {
            match self.codec.decode(&mut self.received, &mut self.packet) {
                Ok(true) => break,
                Ok(false) => {}
                Err(PacketCodecError::PacketsOutOfSync) => return Err(self.out_of_turn()),
                Err(_) => return Err(MysqlFailure::Garbled),
            }
            let count = self.channel.read(self.chunk.as_mut_slice());
            let count = count.map_err(MysqlFailure::Connection)?;
            if count == 0 {
                let end = std::io::ErrorKind::UnexpectedEof.into();
                return Err(MysqlFailure::Connection(end));
            }
            self.received.extend_from_slice(self.chunk.get(..count).unwrap_or_default());
        }
        match self.packet.first() {
            Some(0xff) => Err(self.refusal()),
            Some(_) => Ok(&self.packet),
            None => Err(MysqlFailure::Garbled),
        }
    }

    fn refusal(&self) -> MysqlFailure {
        match parse(&self.packet, self.capabilities) {
            Ok(ErrPacket::Error(refusal)) => MysqlFailure::said(&refusal),
            // The progress of a statement was not asked for.
            Ok(ErrPacket::Progress(_)) | Err(_) => MysqlFailure::Garbled,
        }
    }

    /// A packet that is not the next of the answer. MySQL says why it closes a connection that was
    /// idle or is killed, before it reads another request.
    fn out_of_turn(&self) -> MysqlFailure {
        match self.refusal() {
            end if end.ends_session() => end,
            _ => MysqlFailure::Garbled,
        }
    }

    /// Runs one or several statements in one round trip.
    pub fn query(&mut self, text: &str) -> Attempt<Vec<ResultSet>> {
        self.command(Command::COM_QUERY, text.as_bytes())?;
        let mut results = Vec::with_capacity(4);
        loop {
            let (result, status) = self.result(None)?;
            results.push(result);
            if !status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS) {
                return Ok(results);
            }
        }
    }

    pub fn prepare(&mut self, text: &str) -> Attempt<Prepared> {
        self.command(Command::COM_STMT_PREPARE, text.as_bytes())?;
        let statement: StmtPacket = parse(self.next()?, ())?;
        let (values, columns) = (statement.num_params(), statement.num_columns());
        let mut prepared = Prepared { id: statement.statement_id(), columns: Vec::new() };
        // An end follows where there are any.
        if values > 0 {
            self.skip(u64::from(values) + 1)?;
        }
        if columns > 0 {
            prepared.columns = self.columns(columns.into())?;
            self.skip(1)?;
        }
        Ok(prepared)
    }

    pub fn execute(
        &mut self,
        statement: &mut Prepared,
        values: &[Value<'_>],
    ) -> Attempt<ResultSet> {
        self.command(Command::COM_STMT_EXECUTE, &encode(statement.id, values))?;
        Ok(self.result(Some(statement))?.0)
    }

    /// The server does not answer.
    pub fn close(&mut self, statement: &Prepared) -> Attempt<()> {
        self.command(Command::COM_STMT_CLOSE, &statement.id.to_le_bytes())
    }

    /// The answer to one statement. Rows of a prepared one are encoded by the types of their
    /// columns, others are text.
    fn result(&mut self, mut prepared: Option<&mut Prepared>) -> Attempt<(ResultSet, StatusFlags)> {
        let (capabilities, extensions) = (self.capabilities, self.extensions);
        let packet = self.next()?;
        if packet.first() == Some(&0x00) {
            let done = ok::<CommonOkPacket>(packet, capabilities)?;
            return Ok(((Vec::new(), done.affected_rows()), done.status_flags()));
        }
        let mut rest = ParseBuf(packet);
        let count = rest.checked_eat_lenenc_int().filter(|count| *count <= COLUMNS_MAX);
        let count = count.ok_or(MysqlFailure::Garbled)?;
        // MariaDB leaves out the columns that it has told before.
        let left_out = extensions.contains(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA)
            && rest.0.first() == Some(&0);
        match &mut prepared {
            _ if left_out => {}
            Some(prepared) => prepared.columns = self.columns(count)?,
            None => self.skip(count)?,
        }
        self.skip(1)?; // their end
        let mut rows = Vec::new();
        loop {
            let packet = self.next()?;
            if packet.first() == Some(&0xfe) && packet.len() < 8 {
                let end = ok::<OldEofPacket>(packet, capabilities)?;
                return Ok(((rows, 0), end.status_flags()));
            }
            rows.push(match &prepared {
                Some(prepared) => binary_row(packet, &prepared.columns),
                None => text_row(packet, count),
            }?);
        }
    }

    fn columns(&mut self, count: u64) -> Attempt<Vec<packets::Column>> {
        (0..count).map(|_| parse(self.next()?, ())).collect()
    }

    fn skip(&mut self, packets: u64) -> Attempt<()> {
        (0..packets).try_for_each(|_| self.next().map(drop))
    }
}

pub(super) fn parse<'p, T: MyDeserialize<'p>>(packet: &'p [u8], context: T::Ctx) -> Attempt<T> {
    ParseBuf(packet).parse(context).map_err(|_| MysqlFailure::Garbled)
}

fn ok<K: OkPacketKind>(packet: &[u8], capabilities: CapabilityFlags) -> Attempt<OkPacket<'_>> {
    let ok: OkPacketDeserializer<'_, K> = parse(packet, capabilities)?;
    Ok(ok.into_inner())
}

fn text_row(packet: &[u8], columns: u64) -> Attempt<Row> {
    let mut rest = ParseBuf(packet);
    let values = (0..columns).map(|_| {
        let value: std::io::Result<ValueDeserializer<TextValue>> = rest.parse(());
        value.map(|value| value.0).map_err(|_| MysqlFailure::Garbled)
    });
    values.collect::<Attempt<_>>().map(Row)
}

fn binary_row(packet: &[u8], columns: &[packets::Column]) -> Attempt<Row> {
    let mut rest = ParseBuf(packet);
    let garbled = |_| MysqlFailure::Garbled;
    let _header = rest.checked_eat_u8();
    let nulls: NullBitmap<ServerSide, Cow<'_, [u8]>> =
        rest.parse(columns.len()).map_err(garbled)?;
    let values = columns.iter().enumerate().map(|(at, column)| {
        if nulls.is_null(at) {
            return Ok(Column::NULL);
        }
        let value: std::io::Result<ValueDeserializer<BinValue>> =
            rest.parse((column.column_type(), column.flags()));
        value.map(|value| value.0).map_err(garbled)
    });
    values.collect::<Attempt<_>>().map(Row)
}

/// What follows the command that executes a statement: no cursor, once, the types and the values.
fn encode(id: u32, values: &[Value<'_>]) -> Vec<u8> {
    let bytes = values.iter().map(|value| match value {
        Value::Word(word) => word.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Owner(digits) => digits.len(),
        Value::Number(_) | Value::Null => 0,
    });
    let mut out = Vec::with_capacity(bytes.sum::<usize>() + 16 + 16 * values.len());
    out.put_u32_le(id);
    out.put_slice(&[0, 1, 0, 0, 0]);
    if values.is_empty() {
        return out;
    }
    let is_null = |value: &Value<'_>| u8::from(matches!(value, Value::Null));
    for eight in values.chunks(8) {
        out.put_u8(eight.iter().rev().fold(0, |bits, value| bits << 1 | is_null(value)));
    }
    out.put_u8(1); // the types follow
    for value in values {
        out.put_u16_le(match value {
            Value::Number(_) => ColumnType::MYSQL_TYPE_LONGLONG as u16,
            Value::Null => ColumnType::MYSQL_TYPE_NULL as u16,
            Value::Word(_) | Value::Bytes(_) | Value::Owner(_) => {
                ColumnType::MYSQL_TYPE_VAR_STRING as u16
            }
        });
    }
    for value in values {
        match value {
            Value::Number(number) => out.put_i64_le(*number),
            Value::Null => {}
            Value::Word(word) => out.put_lenenc_str(word.as_bytes()),
            Value::Bytes(bytes) => out.put_lenenc_str(bytes),
            Value::Owner(digits) => out.put_lenenc_str(digits),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::*;
    use crate::store_url::StoreUrl;

    /// Each idle connection kept as much as its largest session had.
    #[test]
    fn a_large_packet_leaves_no_large_buffer_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("mysql+unix:{}?user=u&database=d", path.display());
        let options = Options::parse(&StoreUrl::parse(&url).unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let connect = |host: &Host, end| Wire::connect(host, &options.timeouts, end);
        let mut wire = options.hosts.connect(deadline, connect).ok().unwrap();
        wire.allow_payloads();
        std::thread::spawn(move || {
            let large = [&[0, 0, 0x20, 0], vec![b'x'; 2 << 20].as_slice()].concat();
            let small = [3, 0, 0, 1, b'e', b'n', b'd'];
            listener.accept().unwrap().0.write_all(&[large.as_slice(), &small].concat()).unwrap();
        });
        assert_eq!(wire.next().ok().map(<[u8]>::len), Some(2 << 20));
        assert_eq!(wire.next().ok(), Some(b"end".as_slice()), "its beginning was there");
        assert!(!wire.received.try_reclaim(KEPT_BYTES_MAX));
        assert!(wire.packet.capacity() < KEPT_BYTES_MAX);
    }
}
