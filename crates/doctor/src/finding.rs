//! One finding, as text and as JSON.

use serde_json::{Value, json};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It will cost sessions or time under some condition.
    Warning,
    /// It costs sessions or their secrecy now, or the site does not get what it asks for.
    Critical,
}

impl Severity {
    /// The word for people and scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name for scripts.
    pub code: &'static str,
    /// The fact, as one sentence.
    pub what: String,
    /// Why that matters.
    pub why: String,
    /// What to do.
    pub fix: String,
}

impl Finding {
    /// A finding of severity warning.
    pub(crate) fn warning(
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding {
            severity: Severity::Warning,
            code,
            what: what.into(),
            why: why.into(),
            fix: fix.into(),
        }
    }

    /// A finding of severity critical.
    pub(crate) fn critical(
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { severity: Severity::Critical, ..Finding::warning(code, what, why, fix) }
    }

    /// Three lines: what is so, why it matters, the fix. The first is enough for monitoring.
    pub fn as_text(&self) -> String {
        let Finding { severity, code, .. } = self;
        let [what, why, fix] =
            [&self.what, &self.why, &self.fix].map(|text| text.replace(['\n', '\r'], " "));
        format!("{} {code}: {what}\n    why: {why}\n    fix: {fix}", severity.name())
    }

    /// An object for scripts.
    pub fn as_json(&self) -> Value {
        json!({
            "severity": self.severity.name(),
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
        })
    }
}
