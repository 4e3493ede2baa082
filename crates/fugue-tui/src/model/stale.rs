//! What of the picture is not as it was drawn.

use fugue_api::PaneId;

use super::{Link, Mode, Model};
use crate::input::Heard;

#[derive(Debug, Default, PartialEq)]
pub enum Stale {
    #[default]
    Nothing,
    /// These rows of what panes show, and where a person types.
    Inside(Vec<(PaneId, u16)>),
    All,
}

impl Stale {
    pub fn inside(pane: PaneId, rows: Vec<u16>) -> Self {
        Self::Inside(rows.into_iter().map(|row| (pane, row)).collect())
    }

    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (Self::Inside(mut rows), Self::Inside(more)) => {
                rows.extend(more);
                rows.sort_unstable();
                rows.dedup();
                Self::Inside(rows)
            }
        }
    }
}

impl Model {
    /// What has changed since this was asked last.
    pub fn take_stale(&mut self) -> Stale {
        std::mem::take(&mut self.stale)
    }

    /// Whether what is typed goes to the pane, and nothing else is the matter.
    pub(super) fn is_typing(&self, heard: &Heard) -> bool {
        let typed = match heard {
            Heard::Key(_)
            | Heard::Unknown(_)
            | Heard::PasteBegins
            | Heard::Pasted(_)
            | Heard::PasteEnds => true,
            Heard::Mouse(_) | Heard::Focus(_) | Heard::SpeaksKitty | Heard::Told => false,
        };
        typed && self.again_until.is_none() && self.is_at_rest()
    }

    /// Nothing but the panes is in sight.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.mode, Mode::Pane)
            && self.message.is_none()
            && self.link == Link::Up
            && !self.is_scrolling()
    }
}
