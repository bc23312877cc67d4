//! The Node addon: stores by URL, and the session of a request.
//!
//! It converts arguments, runs each call where its ticket says, and returns errors as values that
//! `lib/errors.js` throws. What a session does is decided in `sessile-handler`.

#![deny(unsafe_code)]
// The attributes of napi write code that uses full paths.
#![allow(unused_qualifications)]

mod calls;
mod error;
mod express_session;
mod logging;
mod request;
mod rules;
mod store;
mod threads;
