//! The history of a watcher, with a limit of entries.

use fugue_api::Timestamp;
use serde::{Deserialize, Serialize};

use crate::view;

/// The limit of a text other than the plan.
const MAX_TEXT: usize = 8_000;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryRole {
    /// The plan, in the words of the watcher's creator.
    Plan,
    /// The agent's own report.
    Status,
    /// The condition or command that is waited for.
    Wait,
    /// The output of the wait.
    WaitOutput,
    /// How long the pane was quiet.
    IdleSpin,
    /// A decision and its reason.
    Decision,
    /// A typed line.
    Injection,
}

impl EntryRole {
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Status => "status",
            Self::Wait => "wait",
            Self::WaitOutput => "wait_output",
            Self::IdleSpin => "idle_spin",
            Self::Decision => "decision",
            Self::Injection => "injection",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    pub at: Timestamp,
    pub role: EntryRole,
    pub text: String,
}

/// Entries, oldest first. The latest plan is never dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Transcript {
    entries: Vec<TranscriptEntry>,
}

impl Transcript {
    /// Adds an entry and drops the oldest beyond `max`. A plan is kept whole; a long text of another role loses its
    /// middle.
    pub fn push(&mut self, role: EntryRole, text: impl Into<String>, at: Timestamp, max: usize) {
        let text = text.into();
        let text = match role {
            EntryRole::Plan => text,
            EntryRole::Status
            | EntryRole::Wait
            | EntryRole::WaitOutput
            | EntryRole::IdleSpin
            | EntryRole::Decision
            | EntryRole::Injection => view::bound(&text.lines().collect::<Vec<_>>(), MAX_TEXT).text,
        };
        self.entries.push(TranscriptEntry { at, role, text });
        self.trim(max);
    }

    pub fn entries(&self) -> &[TranscriptEntry] {
        &self.entries
    }

    /// The latest plan.
    pub fn plan(&self) -> Option<&str> {
        self.entries
            .iter()
            .rfind(|entry| entry.role == EntryRole::Plan)
            .map(|entry| entry.text.as_str())
    }

    fn trim(&mut self, max: usize) {
        let mut too_many = self.entries.len().saturating_sub(max.max(1));
        let plan = self.entries.iter().rposition(|e| e.role == EntryRole::Plan);
        let mut index = 0;
        self.entries.retain(|_| {
            let drop = too_many > 0 && plan != Some(index);
            index += 1;
            too_many -= usize::from(drop);
            !drop
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(transcript: &Transcript) -> Vec<&str> {
        transcript
            .entries()
            .iter()
            .map(|entry| entry.text.as_str())
            .collect()
    }

    fn pushed(max: usize, entries: &[(EntryRole, &str)]) -> Transcript {
        let mut transcript = Transcript::default();
        for (n, (role, text)) in entries.iter().enumerate() {
            transcript.push(*role, *text, Timestamp(n as u64), max);
            assert!(transcript.entries().len() <= max);
        }
        transcript
    }

    #[test]
    fn the_oldest_go_and_the_plan_stays() {
        let kept = pushed(
            3,
            &[
                (EntryRole::Plan, "build it"),
                (EntryRole::Status, "one"),
                (EntryRole::WaitOutput, "two"),
                (EntryRole::Decision, "three"),
                (EntryRole::Injection, "four"),
            ],
        );
        assert_eq!(texts(&kept), ["build it", "three", "four"]);
        assert_eq!(kept.plan(), Some("build it"));
    }

    #[test]
    fn of_two_plans_the_later_holds_and_the_earlier_may_go() {
        let mut entries = vec![
            (EntryRole::Plan, "first"),
            (EntryRole::Status, "one"),
            (EntryRole::Plan, "second"),
        ];
        entries.extend([(EntryRole::Status, "more"); 10]);
        let kept = pushed(4, &entries);
        assert_eq!(texts(&kept), ["second", "more", "more", "more"]);
        assert_eq!(kept.plan(), Some("second"));
    }

    #[test]
    fn with_room_for_one_it_is_the_plan() {
        let kept = pushed(
            1,
            &[
                (EntryRole::Plan, "p"),
                (EntryRole::Status, "s"),
                (EntryRole::Status, "t"),
            ],
        );
        assert_eq!(texts(&kept), ["p"]);
        assert_eq!(
            texts(&pushed(
                1,
                &[(EntryRole::Status, "s"), (EntryRole::Status, "t")]
            )),
            ["t"]
        );
    }

    #[test]
    fn two_hundred_entries_after_a_thousand_reports() {
        let mut entries = vec![(EntryRole::Plan, "the plan")];
        entries.extend([(EntryRole::Status, "report"); 1000]);
        let kept = pushed(200, &entries);
        assert_eq!(kept.entries().len(), 200);
        assert_eq!(kept.entries()[0].role, EntryRole::Plan);
        assert_eq!(kept.entries()[199].at, Timestamp(1000));
    }

    #[test]
    fn a_long_report_loses_its_middle_and_a_plan_nothing() {
        let long = format!("start\n{}\nend", "x".repeat(50_000));
        let kept = pushed(9, &[(EntryRole::Plan, &long), (EntryRole::Status, &long)]);
        assert_eq!(kept.plan(), Some(long.as_str()));
        let report = &kept.entries()[1].text;
        assert!(report.chars().count() <= MAX_TEXT);
        assert!(report.starts_with("start") && report.ends_with("end"));
    }

    #[test]
    fn it_survives_json() {
        let kept = pushed(
            9,
            &[
                (EntryRole::Plan, "p"),
                (EntryRole::IdleSpin, "idle_for=3.00"),
            ],
        );
        let json = serde_json::to_string(&kept).unwrap();
        assert!(json.contains(r#""role":"idle_spin""#), "{json}");
        assert_eq!(serde_json::from_str::<Transcript>(&json).unwrap(), kept);
    }
}
