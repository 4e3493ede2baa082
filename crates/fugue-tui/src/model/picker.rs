//! The pane picker: all panes of all sessions, filtered by typing.

use fugue_api::{
    PaneId, SessionName, Timestamp,
    overview::{Overview, PaneRow},
    pane_state::{PaneState, SourcedState},
};

use crate::clean;

pub struct PanePicker {
    pub filter: String,
    all: Vec<PickerEntry>,
    pub chosen: usize,
}

#[derive(Clone)]
pub struct PickerEntry {
    pub pane: PaneId,
    pub session: SessionName,
    pub name: String,
    pub state: SourcedState,
    pub created_at: Option<Timestamp>,
}

impl PanePicker {
    pub fn new(overview: &Overview, focus: Option<PaneId>) -> Self {
        let mut picker = Self {
            filter: String::new(),
            all: Vec::new(),
            chosen: 0,
        };
        picker.take(overview);
        let shown = picker.shown();
        let at = shown.iter().position(|entry| Some(entry.pane) == focus);
        picker.chosen = at.unwrap_or(0);
        picker
    }

    /// Updates the list: live panes by session, then ended panes with the latest first.
    pub fn take(&mut self, overview: &Overview) {
        let chosen = self.shown().get(self.chosen).map(|entry| entry.pane);
        let ended =
            |row: &PaneRow| matches!(row.state.state, PaneState::Exited | PaneState::Closed);
        let mut rows: Vec<&PaneRow> = overview.panes.iter().collect();
        rows.sort_by_key(|row| {
            let latest = if ended(row) {
                u64::MAX - row.pane_id.0
            } else {
                0
            };
            (ended(row), latest, row.session.clone(), row.pane_id)
        });
        self.all = rows
            .into_iter()
            .map(|row| PickerEntry {
                pane: row.pane_id,
                session: row.session.clone(),
                name: clean::line(&row.name),
                state: row.state.clone(),
                created_at: row.created_at,
            })
            .collect();
        let shown = self.shown();
        let at = shown.iter().position(|entry| Some(entry.pane) == chosen);
        self.chosen = at.unwrap_or(self.chosen.min(shown.len().saturating_sub(1)));
    }

    /// The entries that contain every word of the filter.
    pub fn shown(&self) -> Vec<&PickerEntry> {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let fits = |entry: &&PickerEntry| {
            let text = format!(
                "{} {} {} {}",
                entry.session,
                entry.name,
                entry.pane,
                crate::draw::pane_badge(&entry.state).word
            );
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.all.iter().filter(fits).collect()
    }

    /// The number of all entries, including those hidden by the filter.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn go(&mut self, by: i64) {
        let last = self.shown().len().saturating_sub(1) as i64;
        self.chosen = (self.chosen as i64 + by).clamp(0, last) as usize;
    }

    pub fn type_text(&mut self, text: &str) {
        // A longer filter matches nothing.
        if self.filter.chars().count() + text.chars().count() <= 200 {
            self.filter.push_str(&clean::line(text));
        }
        self.chosen = 0;
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.chosen = 0;
    }

    pub fn picked(&self) -> Option<PaneId> {
        self.shown().get(self.chosen).map(|entry| entry.pane)
    }
}
