//! Doors for the fuzz targets, to what is private otherwise.

use crate::memcached::reply;

/// Reads answers until the bytes end or are none. A value is never larger than what was sent.
pub fn memcached_replies(mut bytes: &[u8]) {
    let _ = reply::read_stats(&mut { bytes });
    loop {
        let before = bytes.len();
        match reply::read(&mut bytes) {
            Ok(reply::Reply::Done(item)) => {
                assert!(item.value.len() <= before, "a value of more bytes than were sent");
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
