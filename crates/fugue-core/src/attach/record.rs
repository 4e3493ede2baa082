//! What the store knows of a session's layout.

use fugue_api::{PaneId, SessionName};
use serde::{Deserialize, Serialize};

use crate::layout::SplitLayout;

/// How a person wants a session's panes to lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayoutRecord {
    pub session: SessionName,
    /// `None`: evenly.
    pub layout: Option<SplitLayout>,
    pub zoomed: Option<PaneId>,
}
