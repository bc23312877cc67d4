//! The subject of a row: a contender, as rows name it.

use serde::{Deserialize, Serialize};

use crate::{naming, reference};

/// Stands for the host of a URL. Only servers over TCP have one.
pub const SHOWN_HOST: &str = "://<host>";

/// A contender as a row names it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Subject {
    /// Registry name or reference row.
    pub store: String,
    /// URL without places, hosts and secrets.
    pub url: String,
    /// Distinguishes contenders of one name.
    pub variant: String,
    /// `embedded` or `socket`; compare figures only within one.
    pub kind: String,
}

impl Subject {
    pub fn title(&self) -> String {
        naming::title(&self.store, &self.variant)
    }

    /// The title in tables and charts, which tells TCP from the shorter way over a unix socket.
    pub fn shown_title(&self) -> String {
        let over_tcp = self.kind == "socket" && self.url.contains(SHOWN_HOST);
        if over_tcp { format!("{} (tcp)", self.title()) } else { self.title() }
    }

    /// The title with a star if it is no store but a yardstick.
    pub fn marked_title(&self) -> String {
        let title = self.shown_title();
        if self.is_reference() { format!("{title} *") } else { title }
    }

    pub fn is_reference(&self) -> bool {
        reference::by_name(&self.store).is_some()
    }
}
