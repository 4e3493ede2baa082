//! Damage: the part of the screen that must be drawn again.

use fugue_api::PaneId;

use super::{AttachModel, ConnectionState, InputMode};
use crate::input::InputEvent;

#[derive(Debug, Default, PartialEq)]
pub enum ScreenDamage {
    #[default]
    None,
    /// These rows of panes, and the cursor.
    Rows(Vec<(PaneId, u16)>),
    All,
}

impl ScreenDamage {
    pub fn rows(pane: PaneId, rows: Vec<u16>) -> Self {
        Self::Rows(rows.into_iter().map(|row| (pane, row)).collect())
    }

    pub fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, one) | (one, Self::None) => one,
            (Self::Rows(mut rows), Self::Rows(more)) => {
                rows.extend(more);
                rows.sort_unstable();
                rows.dedup();
                Self::Rows(rows)
            }
        }
    }
}

impl AttachModel {
    /// Returns the damage since the last call.
    pub fn take_damage(&mut self) -> ScreenDamage {
        std::mem::take(&mut self.damage)
    }

    /// Whether an event is input for the pane in focus and changes nothing else on the screen.
    pub(super) fn is_plain_input(&self, event: &InputEvent) -> bool {
        let typed = match event {
            InputEvent::Key(_)
            | InputEvent::Unknown(_)
            | InputEvent::PasteStart
            | InputEvent::PasteChunk(_)
            | InputEvent::PasteEnd => true,
            InputEvent::Mouse(_)
            | InputEvent::Focus(_)
            | InputEvent::KittySupported
            | InputEvent::DeviceAttributes => false,
        };
        typed && self.repeat_until.is_none() && self.shows_only_panes()
    }

    /// Whether the screen shows panes without a message, a popup or a scroll view.
    pub(super) fn shows_only_panes(&self) -> bool {
        matches!(self.mode, InputMode::Pane)
            && self.message.is_none()
            && self.connection == ConnectionState::Up
            && !self.is_scrolling()
    }
}
