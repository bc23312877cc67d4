//! The scripts that run on the server: each operation is one of them, and so one round trip.
//!
//! A script is sent by its digest; a server that does not know it yet (new, restarted, flushed) answers
//! NOSCRIPT and then gets the source once. Every key that a script touches is declared.

/// One script: its source and the digest by which the server knows it.
pub(super) struct Script {
    pub(super) source: &'static str,
    pub(super) digest: String,
}

impl Script {
    fn new(source: &'static str) -> Script {
        Script { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }
}

/// All scripts. Their contracts are written at the top of each file.
pub(super) struct Scripts {
    pub(super) begin: Script,
    pub(super) commit: Script,
    pub(super) release: Script,
    pub(super) create: Script,
    pub(super) touch: Script,
    pub(super) touch_held: Script,
    pub(super) destroy: Script,
    pub(super) regenerate: Script,
}

impl Scripts {
    pub(super) fn new() -> Scripts {
        Scripts {
            begin: Script::new(include_str!("begin.lua")),
            commit: Script::new(concat!(include_str!("lease.lua"), include_str!("commit.lua"))),
            release: Script::new(concat!(include_str!("lease.lua"), include_str!("release.lua"))),
            create: Script::new(include_str!("create.lua")),
            touch: Script::new(concat!(include_str!("slide.lua"), include_str!("touch.lua"))),
            touch_held: Script::new(concat!(
                include_str!("lease.lua"),
                include_str!("slide.lua"),
                include_str!("touch_held.lua")
            )),
            destroy: Script::new(concat!(include_str!("lease.lua"), include_str!("destroy.lua"))),
            regenerate: Script::new(concat!(include_str!("lease.lua"), include_str!("regenerate.lua"))),
        }
    }
}
