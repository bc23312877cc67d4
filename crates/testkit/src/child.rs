//! A child process that never outlives its handle.

use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::check::Failure;

/// A running process. Killed with SIGKILL and waited for when dropped.
pub(crate) struct ChildProcess(Child);

impl ChildProcess {
    pub fn spawn(command: &mut Command) -> Result<ChildProcess, Failure> {
        Ok(ChildProcess(command.spawn()?))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn inner(&mut self) -> &mut Child {
        &mut self.0
    }

    pub fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid()).map_err(|error| Failure(error.to_string()))?;
        kill(Pid::from_raw(pid), signal)
            .map_err(|error| Failure(format!("cannot send {signal}: {error}")))
    }

    pub fn kill(&mut self) -> Result<(), Failure> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    pub fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
