//! State that several features read and change.

use crate::{calls::starts::StartHistory, inbox::Inboxes, panes::Panes, settings::Settings};

/// What runs, workers, watchers and viewers have in common. A feature's own state is no part of it: that is only changed
/// by the feature itself.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub settings: Settings,
    pub panes: Panes,
    pub inboxes: Inboxes,
    pub starts: StartHistory,
}
