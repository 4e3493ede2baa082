//! The stored layout of a session.

use fugue_api::{PaneId, SessionName};
use serde::{Deserialize, Serialize};

use crate::layout::SplitLayout;

/// The layout that a person has chosen for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayoutRecord {
    pub session: SessionName,
    /// `None`: tiled evenly.
    pub layout: Option<SplitLayout>,
    pub zoomed: Option<PaneId>,
}
