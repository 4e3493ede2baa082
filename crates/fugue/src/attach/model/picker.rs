//! The list of all panes of all sessions, made shorter by typing.

use fugue_api::{
    PaneId, SessionName, Timestamp,
    overview::{Overview, PaneRow},
    pane_state::{PaneState, SourcedState},
};

use crate::attach::clean;

pub struct Picker {
    pub filter: String,
    all: Vec<Entry>,
    pub chosen: usize,
}

#[derive(Clone)]
pub struct Entry {
    pub pane: PaneId,
    pub session: SessionName,
    pub name: String,
    pub state: SourcedState,
    pub created_at: Timestamp,
}

impl Picker {
    pub fn new(facts: &Overview, focus: Option<PaneId>) -> Self {
        let mut picker = Self {
            filter: String::new(),
            all: Vec::new(),
            chosen: 0,
        };
        picker.take(facts);
        let shown = picker.shown();
        let at = shown.iter().position(|entry| Some(entry.pane) == focus);
        picker.chosen = at.unwrap_or(0);
        picker
    }

    /// Those that live come first, session by session; then those that have ended, the latest first.
    pub fn take(&mut self, facts: &Overview) {
        let chosen = self.shown().get(self.chosen).map(|entry| entry.pane);
        let ended =
            |row: &PaneRow| matches!(row.state.state, PaneState::Exited | PaneState::Closed);
        let mut rows: Vec<&PaneRow> = facts.panes.iter().collect();
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
            .map(|row| Entry {
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

    /// Those that have every word of the filter in them.
    pub fn shown(&self) -> Vec<&Entry> {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let fits = |entry: &&Entry| {
            let text = format!(
                "{} {} {} {}",
                entry.session,
                entry.name,
                entry.pane,
                crate::attach::draw::badge(&entry.state).word
            );
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.all.iter().filter(fits).collect()
    }

    /// With everything that the filter hides.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn go(&mut self, by: i64) {
        let last = self.shown().len().saturating_sub(1) as i64;
        self.chosen = (self.chosen as i64 + by).clamp(0, last) as usize;
    }

    pub fn type_text(&mut self, text: &str) {
        // Longer ones find nothing.
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
