//! Calls into a store: at once, or in a thread whose answer comes to the event loop.
//!
//! Each call has a ticket: 0 runs it at once and returns its answer, a positive one runs it in a
//! thread, and a negative one in a thread for waits. A late answer goes to the callback of the
//! [`Channel`] with its ticket. An environment of Node that has ended gets no answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::{Either4, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use sessile_core::Result;

use crate::error::Failure;
use crate::express_session::Listing;
use crate::threads::{CALLS, WAITS};

/// What Node gets: null, a failure, or a value.
pub(crate) type Answer = Option<Either4<Failure, String, f64, Listing>>;

type Late = FnArgs<(i32, Answer)>;
pub(crate) type Callback = ThreadsafeFunction<(i32, Answer), (), Late, Status, false, true>;

/// Where late answers of one environment of Node go.
#[napi]
pub struct Channel(pub(crate) Arc<Callback>);

#[napi]
impl Channel {
    /// `settle` gets the ticket of a call and its answer.
    #[napi(constructor)]
    pub fn new(settle: Function<'_, Late, ()>) -> napi::Result<Channel> {
        let builder = settle.build_threadsafe_function::<(i32, Answer)>();
        // Weak: the channel keeps no process alive. `lib/native.js` does while calls are under way.
        let weak = builder.weak::<true>();
        Ok(Channel(Arc::new(weak.build_callback(|late| Ok(FnArgs::from(late.value)))?)))
    }
}

/// Runs a call where its ticket says.
pub(crate) fn perform(
    channel: &Arc<Callback>,
    ticket: i32,
    call: impl FnOnce() -> Result<Answer> + Send + 'static,
) -> Answer {
    // A defect is an error for the request that meets it, and no end of the process or of a thread.
    let answer = || match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Some(Either4::A(Failure::from(&error))),
        Err(_) => Some(Either4::A(Failure::panic())),
    };
    if ticket == 0 {
        return answer();
    }
    let channel = Arc::clone(channel);
    let job = move || {
        // An environment that has ended takes no answer.
        channel.call((ticket, answer()), ThreadsafeFunctionCallMode::NonBlocking);
    };
    let threads = if ticket > 0 { &CALLS } else { &WAITS };
    threads.run(Box::new(job));
    None
}

/// How long a call may wait for a lock. Only in a thread for waits it waits at all: a lock that is
/// not free is a `lock-timeout` elsewhere, and `lib/native.js` makes the call once more there.
pub(crate) fn lock_wait(ticket: i32, longest: Duration, queued: Duration) -> Duration {
    if ticket < 0 { longest.saturating_sub(queued) } else { Duration::ZERO }
}

/// A text as an answer.
pub(crate) fn text(text: impl Into<String>) -> Answer {
    Some(Either4::B(text.into()))
}

/// Sends log lines of this process to a callback of Node, unless another environment gets them.
#[napi]
pub fn log_to(callback: Function<'_, FnArgs<(String,)>, ()>) -> napi::Result<()> {
    crate::logging::install(callback)
}
