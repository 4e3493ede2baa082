//! How many commits one expect makes.

use fugue_api::PaneId;

use super::*;
use crate::{AfterCommit, CallId, Change, Record, RunWork, StepEffects};

/// Counts the commits with changes: each of them is one transaction on disk.
struct Counter {
    story: Story,
    commits: usize,
}

impl Counter {
    fn new() -> Self {
        Self {
            story: with_pane(),
            commits: 0,
        }
    }

    fn step(&mut self, input: CoreInput) -> StepEffects {
        let effects = self.story.effects(input);
        let commit = effects.commit.as_ref();
        self.commits += usize::from(commit.is_some_and(|commit| !commit.changes.is_empty()));
        effects
    }

    fn call(&mut self, call: u64, request: ToolCall) -> StepEffects {
        let asked = self.story.asked(call, request);
        let call = CallId(call);
        self.step(CoreInput::Call { call, asked })
    }

    fn event(&mut self, event: PaneEvent) -> StepEffects {
        let pane = PaneId(1);
        self.step(CoreInput::Pane { pane, event })
    }

    fn replied(&mut self, delivered: bool) -> StepEffects {
        let run = RunId("seen".into());
        self.step(CoreInput::ReplyComposed { run, delivered })
    }

    fn is_stored_as_fetched(&self) -> bool {
        self.story.disk().runs[0].record.fetched
    }
}

fn matched_at_once() -> PaneEvent {
    let PaneEvent::ExpectMatched {
        run,
        pattern,
        found,
        ..
    } = sighted(MatchedPattern::Pattern)
    else {
        panic!("a match")
    };
    PaneEvent::ExpectMatched {
        run,
        from: Some(view::start()),
        pattern,
        found,
    }
}

#[test]
fn an_expect_that_matches_at_once_makes_two_commits() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({})));
    let effects = counter.event(matched_at_once());
    // The end is stored with the start of the search, and answered from core.
    let commit = effects.commit.expect("the end");
    let puts_run = |change: &Change| matches!(change, Change::Put(Record::Run(_)));
    assert_eq!(
        commit
            .changes
            .iter()
            .filter(|change| puts_run(change))
            .count(),
        1
    );
    assert!(matches!(
        commit.then[..],
        [AfterCommit::ReplyResult {
            call: CallId(1),
            ..
        }]
    ));
    assert_eq!(counter.story.told(1)["status"], "matched");
    counter.replied(true);
    assert_eq!(counter.commits, 2);
    let RunWork::Expect(work) = &counter.story.disk().runs[0].record.work else {
        panic!("an expect")
    };
    assert_eq!(work.from, Some(view::start()));
}

#[test]
fn an_expect_that_waits_makes_three_commits() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({})));
    // A daemon that is killed now leaves the position where the next one continues.
    counter.event(watching());
    counter.event(sighted(MatchedPattern::Pattern));
    counter.replied(true);
    assert_eq!(counter.commits, 3);
}

#[test]
fn that_a_result_was_fetched_is_stored_with_the_next_commit() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({})));
    counter.event(matched_at_once());
    counter.replied(true);
    assert!(!counter.is_stored_as_fetched());
    // The start of something may not be stored, and then takes nothing along.
    counter.call(2, request("create_pane", json!({"command": "make"})));
    assert!(!counter.is_stored_as_fetched());
    let size = fugue_api::tools::PaneSize { rows: 9, cols: 9 };
    counter.event(PaneEvent::Resized(size));
    assert!(counter.is_stored_as_fetched());
    let commits = counter.commits;
    counter.event(PaneEvent::Resized(size));
    assert_eq!(counter.commits, commits + 1);
}

#[test]
fn a_daemon_that_is_killed_before_the_next_commit_leaves_a_run_whose_outputs_are_kept() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({})));
    counter.event(matched_at_once());
    counter.replied(true);
    let needs_outputs = |counter: &Counter| {
        let mut runs = counter.story.core.runs.all.values();
        runs.any(|run| run.needs_outputs())
    };
    assert!(!needs_outputs(&counter));
    counter.story.restart();
    assert!(needs_outputs(&counter));
}

#[test]
fn a_reply_that_was_not_delivered_fetches_nothing() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({})));
    counter.event(matched_at_once());
    counter.replied(false);
    let size = fugue_api::tools::PaneSize { rows: 9, cols: 9 };
    counter.event(PaneEvent::Resized(size));
    assert!(!counter.is_stored_as_fetched());
    assert!(
        counter
            .story
            .core
            .runs
            .all
            .values()
            .all(|run| run.needs_outputs())
    );
}

#[test]
fn a_result_with_output_is_composed_by_the_daemon() {
    let mut counter = Counter::new();
    counter.call(1, expect(json!({"action": "return_output"})));
    let effects = counter.event(matched_at_once());
    let commit = effects.commit.expect("the end");
    assert!(matches!(
        commit.then[..],
        [AfterCommit::ComposeReply { .. }]
    ));
}
