//! Labelled situations, and how well an assessor tells them apart.
//!
//! What counts as found is `stop`: a stop too early leaves work undone that somebody believes done, and a stop too
//! late types into a pane that needed nothing. So precision says how often a stop can be believed, and recall how many
//! of the stops were seen.

use fugue_api::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    answer::Decision,
    prompt::{Fence, Prompt, Situation, Verdict},
    settings::WatchSettings,
    transcript::{Role, Transcript},
};

/// The cases of one file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// One situation and what is right in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub expect: Label,
    /// Whether something in it tries to talk the assessor into an answer.
    #[serde(default)]
    pub hostile: bool,
    /// Why the label is right, for the reader who doubts it.
    pub why: String,
    pub plan: String,
    #[serde(default)]
    pub transcript: Vec<Line>,
    #[serde(default)]
    pub wait_output: Option<String>,
    #[serde(default)]
    pub done_when: Option<Check>,
    pub pane_tail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    Stop,
    Continue,
}

impl From<&Decision> for Label {
    fn from(decision: &Decision) -> Self {
        match decision {
            Decision::Stop => Self::Stop,
            Decision::Continue(_) => Self::Continue,
        }
    }
}

/// A transcript entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// How long before the assessment, in seconds.
    pub ago: u64,
    pub role: Role,
    pub text: String,
}

/// What `done_when` said.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub command: String,
    pub ending: String,
    pub output: String,
}

// Any moment will do; it must be later than every `ago`.
const NOW: u64 = 1_800_000_000_000;

impl Case {
    /// The question, as a watcher would have asked it.
    pub fn prompt(&self, settings: &WatchSettings, fence: &Fence) -> Prompt {
        let mut transcript = Transcript::default();
        let oldest = self
            .transcript
            .iter()
            .map(|line| line.ago)
            .max()
            .unwrap_or(0);
        let at = |ago: u64| Timestamp(NOW.saturating_sub(ago.saturating_mul(1000)));
        transcript.push(Role::Plan, &*self.plan, at(oldest), settings.max_transcript);
        for line in &self.transcript {
            transcript.push(
                line.role,
                &*line.text,
                at(line.ago),
                settings.max_transcript,
            );
        }
        let verdict = self.done_when.as_ref().map(|check| Verdict {
            command: &check.command,
            ending: &check.ending,
            output: &check.output,
        });
        Situation {
            plan: &self.plan,
            transcript: &transcript,
            wait_output: self.wait_output.as_deref(),
            pane_tail: &self.pane_tail,
            tail_lines: settings.tail_lines,
            verdict,
            now: Timestamp(NOW),
        }
        .assess(fence)
    }
}

/// How often an assessor was right. An answer that could not be had is neither stop nor continue, and never right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Stop, and rightly so.
    pub stops_found: u32,
    /// Stop where there was more to do.
    pub stops_wrong: u32,
    /// No stop where all was done.
    pub stops_missed: u32,
    /// Continue, and rightly so.
    pub continues_found: u32,
    /// No answer, whatever was right.
    pub failed: u32,
}

impl Score {
    pub fn of(outcomes: impl IntoIterator<Item = (Label, Option<Label>)>) -> Self {
        let mut score = Self::default();
        for (expected, got) in outcomes {
            match (expected, got) {
                (Label::Stop, Some(Label::Stop)) => score.stops_found += 1,
                (Label::Continue, Some(Label::Stop)) => score.stops_wrong += 1,
                (Label::Stop, Some(Label::Continue)) => score.stops_missed += 1,
                (Label::Continue, Some(Label::Continue)) => score.continues_found += 1,
                (Label::Stop, None) => {
                    score.stops_missed += 1;
                    score.failed += 1;
                }
                (Label::Continue, None) => score.failed += 1,
            }
        }
        score
    }

    /// Of the stops that were said, how many were right; none if none was said.
    pub fn precision(&self) -> Option<f64> {
        share(self.stops_found, self.stops_wrong)
    }

    /// Of the stops that were right, how many were said; none if there were none.
    pub fn recall(&self) -> Option<f64> {
        share(self.stops_found, self.stops_missed)
    }
}

fn share(part: u32, rest: u32) -> Option<f64> {
    let all = part + rest;
    (all > 0).then(|| f64::from(part) / f64::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_and_recall_are_about_stops() {
        use Label::{Continue, Stop};
        let score = Score::of([
            (Stop, Some(Stop)),
            (Stop, Some(Stop)),
            (Stop, Some(Stop)),
            (Stop, Some(Continue)),
            (Stop, None),
            (Continue, Some(Stop)),
            (Continue, Some(Continue)),
            (Continue, None),
        ]);
        assert_eq!(score.precision(), Some(0.75));
        assert_eq!(score.recall(), Some(0.6));
        assert_eq!((score.failed, score.continues_found), (2, 1));
        assert_eq!(Score::of([(Continue, Some(Continue))]).precision(), None);
        assert_eq!(Score::of([(Continue, None)]).recall(), None);
    }

    #[test]
    fn a_case_asks_as_a_watcher_would() {
        let case: Case = serde_json::from_value(serde_json::json!({
            "name": "n", "expect": "stop", "why": "w", "plan": "the plan",
            "transcript": [{"ago": 75, "role": "status", "text": "all green"}],
            "wait_output": "ok", "pane_tail": "$ ",
            "done_when": {"command": "true", "ending": "exit code 0", "output": ""},
        }))
        .unwrap();
        let prompt = case
            .prompt(&WatchSettings::default(), &Fence::new([7; 16]))
            .user;
        for part in [
            "| the plan\n",
            "| [-00:01:15 status] all green\n| [-00:01:15 plan] the plan\n",
            "| ok\n",
            "Done-when check `true`: exit code 0:\n",
            "| $\n",
        ] {
            assert!(prompt.contains(part), "{part}\n{prompt}");
        }
    }
}
