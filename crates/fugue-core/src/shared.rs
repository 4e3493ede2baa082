//! State that several features read and change.

use crate::{calls::starts::StartHistory, inbox::Inboxes, panes::Panes, settings::Settings};

/// The state that runs, workers, watchers and viewers have in common. The state of a single feature is not part of it and is
/// only changed by that feature.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub settings: Settings,
    pub panes: Panes,
    pub inboxes: Inboxes,
    pub starts: StartHistory,
}
