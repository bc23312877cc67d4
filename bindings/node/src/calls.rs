//! Calls into a store: at once, or in a thread whose answer comes to the event loop.
//!
//! Each call has a ticket: 0 runs it at once and returns its answer, a positive one runs it in a
//! thread, and a negative one in a thread for waits, where alone it waits for locks. A late answer
//! goes to the callback of the [`Channel`] with its ticket. An environment of Node that has ended
//! gets no answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use napi::Status;
use napi::bindgen_prelude::{Either4, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use sessile_core::Result;
use sessile_handler::Rules;

use crate::error::Failure;
use crate::express_session::Listing;
use crate::threads::{CALLS, WAITS};

/// What Node gets: null, a failure, or a value.
pub(crate) type Answer = Option<Either4<Failure, String, f64, Listing>>;

type Late = FnArgs<(i32, Answer)>;
type Callback = ThreadsafeFunction<(i32, Answer), (), Late, Status, false, true>;

/// Where late answers of one environment of Node go.
#[napi]
#[derive(Clone)]
pub struct Channel {
    callback: Arc<Callback>,
    queued_ms: Arc<AtomicU64>,
}

/// How a call waits for a lock: not at all, or as long as its rules say without the time that it
/// has stood in line.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub waits: bool,
    queued: Duration,
}

impl Wait {
    /// A lock that is not free is a `lock-timeout` for a call that does not wait, and
    /// `lib/native.js` makes it once more.
    pub(crate) fn within(self, rules: Rules) -> Rules {
        let longest = if self.waits { rules.lock_wait } else { Duration::ZERO };
        Rules { lock_wait: longest.saturating_sub(self.queued), ..rules }
    }
}

#[napi]
impl Channel {
    /// `settle` gets the ticket of a call and its answer.
    #[napi(constructor)]
    pub fn new(settle: Function<'_, Late, ()>) -> napi::Result<Channel> {
        let builder = settle.build_threadsafe_function::<(i32, Answer)>();
        // Weak: the channel keeps no process alive. `lib/native.js` does while calls are under way.
        let weak = builder.weak::<true>();
        let callback = Arc::new(weak.build_callback(|late| Ok(FnArgs::from(late.value)))?);
        Ok(Channel { callback, queued_ms: Arc::default() })
    }

    /// The next call has stood in line for its thread so long, which is a part of its wait.
    #[napi]
    pub fn has_queued(&self, ms: u32) {
        // Relaxed: the next call comes from this thread.
        self.queued_ms.store(ms.into(), Relaxed);
    }

    /// Runs a call where its ticket says.
    pub(crate) fn perform(
        &self,
        ticket: i32,
        call: impl FnOnce(Wait) -> Result<Answer> + Send + 'static,
    ) -> Answer {
        let queued = Duration::from_millis(self.queued_ms.swap(0, Relaxed));
        let wait = Wait { waits: ticket < 0, queued };
        // A defect is an error for the request that meets it, and no end of the process or of a
        // thread.
        let answer = move || match catch_unwind(AssertUnwindSafe(|| call(wait))) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Some(Either4::A(Failure::from(&error.after(queued)))),
            Err(_) => {
                let told = "a defect of sessile: standard error says where";
                Some(Either4::A(Failure::new("panic", told.to_owned())))
            }
        };
        if ticket == 0 {
            return answer();
        }
        let callback = Arc::clone(&self.callback);
        let threads = if ticket > 0 { &CALLS } else { &WAITS };
        threads.run(Box::new(move || {
            // An environment that has ended takes no answer.
            callback.call((ticket, answer()), ThreadsafeFunctionCallMode::NonBlocking);
        }));
        None
    }
}

/// A text as an answer.
pub(crate) fn text(text: impl Into<String>) -> Answer {
    Some(Either4::B(text.into()))
}
