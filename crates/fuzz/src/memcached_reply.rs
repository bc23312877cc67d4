//! What a server that speaks no memcached, or half of it, makes of a client.

/// Bytes as answers of a memcached server.
pub fn memcached_reply(data: &[u8]) {
    sessile_stores::fuzzing::memcached_replies(data);
}
