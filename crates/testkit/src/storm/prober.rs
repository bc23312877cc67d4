//! Asks for the locks of dead holders, at once, so that it is seen when they are free.
//!
//! A client of the store like any other, on a thread of the checker's process.

use std::sync::mpsc::Receiver;

use super::client::ReportingClient;
use super::event::SeenPayload;

pub const PROBER: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRequest {
    Lock(u64),
    /// The holder of this session died while it moved to the second id: is the record under either?
    Moved(u64, u64),
    Read(u64),
}

pub fn serve(mut client: ReportingClient, requests: Receiver<ProbeRequest>) {
    for request in requests {
        let (id, new) = match request {
            ProbeRequest::Lock(id) => (id, None),
            ProbeRequest::Moved(id, new) => (id, Some(new)),
            ProbeRequest::Read(id) => {
                client.peek(id);
                continue;
            }
        };
        let Some(held) = client.begin(id) else { continue };
        // Under the lock of the old id, so that the record cannot arrive there meanwhile.
        if let Some(new) = new
            && held.id == id
            && held.seen.payload == SeenPayload::Missing
        {
            client.peek(new);
        }
        client.release(held, false);
    }
}
