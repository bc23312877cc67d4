//! The users who may own and write what a store in plain files opens.
//!
//! Invariant: the store works on nothing that another local user could have put there or could
//! rewrite. With it he would log in as anybody, or see who is there. He may have come first where
//! everybody may make files: in /tmp, or in Debian's directory of PHP's sessions.

use nix::unistd::geteuid;
use sessile_core::{Error, ErrorKind, Result};

#[derive(Clone, Copy)]
pub struct Trusted {
    /// Root trusts it, too.
    pub owner_of_directory: u32,
}

/// This process's user, and root.
pub const NOBODY_ELSE: Trusted = Trusted { owner_of_directory: 0 };

impl Trusted {
    pub fn is_owner(self, owner: u32) -> bool {
        let own = geteuid().as_raw();
        owner == own || owner == 0 || own == 0 && owner == self.owner_of_directory
    }

    /// `Denied` for what has another owner, or is not for its owner alone to write.
    pub fn check(self, what: &str, owner: u32, mode: u32) -> Result<()> {
        if !self.is_owner(owner) {
            let own = geteuid();
            let why = format!("{what} belongs to user id {owner}, this process runs as {own}");
            return Err(Error::new(ErrorKind::Denied, why)
                .advice("run as its owner; if that is none of yours, use another directory"));
        }
        if mode & 0o022 != 0 {
            let why = format!("{what} may be written by other users (mode {:o})", mode & 0o7777);
            return Err(Error::new(ErrorKind::Denied, why)
                .advice("look who has written there, then take that right away (chmod go-w)"));
        }
        Ok(())
    }
}
