//! Requests, reconnects and the state of the session.

use super::*;

#[test]
fn one_question_is_open_for_every_pane_in_sight() {
    let mut script = ModelScript::new(24, 80);
    let views = |script: &ModelScript| {
        let mut panes: Vec<u64> = script
            .asked
            .iter()
            .filter_map(|(_, ask)| match ask {
                Request::Attach {
                    request: AttachRequest::GetFrame { pane, seen, .. },
                } => {
                    assert_eq!(*seen, 1);
                    Some(pane.0)
                }
                _ => None,
            })
            .collect();
        panes.sort_unstable();
        panes
    };
    assert_eq!(views(&script), [1, 2]);
    script.press("\x02z");
    assert_eq!(
        script.changes(),
        [LayoutChange::Zoom {
            pane: Some(PaneId(1))
        }]
    );
    script.arrange(Some(PaneId(1)));
    assert_eq!(views(&script), [1]);
}

#[test]
fn the_picker_goes_to_other_sessions_and_to_ended_panes() {
    let mut script = ModelScript::new(24, 80);
    script.press("\x02wfar\r");
    assert_eq!(script.model.session.0, "other");
    let attends = |script: &ModelScript| -> Vec<String> {
        let all = script.asked.iter();
        all.filter_map(|(_, ask)| match ask {
            Request::Attach {
                request: AttachRequest::JoinSession { session, .. },
            } => Some(session.0.clone()),
            _ => None,
        })
        .collect()
    };
    assert_eq!(attends(&script), ["other"]);

    let mut script = ModelScript::new(24, 80);
    script.press("\x02wover\r");
    assert_eq!(script.model.peek, Some(PaneId(3)));
    let over = headed(frame(1, &["the end"]), |head| head.ended = true);
    script.show(3, over);
    assert!(script.picture().contains("the end"));
    script.press("x");
    assert!(
        script.picture().contains("has ended"),
        "{}",
        script.picture()
    );
    script.press("\x02q");
    assert_eq!(script.model.peek, None);
    assert!(script.picture().contains("right"));
}

#[test]
fn open_requests_are_sent_again_after_a_reconnect() {
    let mut script = ModelScript::new(24, 80);
    script.press("a");
    let (ticket, typed) = script.asked.last().cloned().expect("typed");
    script.step(ModelInput::Disconnected(DaemonLoss::Died));
    assert!(script.picture().contains("reconnecting"));
    // What is on the screen stays.
    assert!(script.picture().contains("$"));
    script.press("b");
    assert_eq!(script.typed().1, b"a");
    script.asked.clear();
    script.step(ModelInput::Resized(size(30, 90)));
    assert!(script.asked.is_empty());
    script.step(ModelInput::Reconnected);
    assert!(!script.picture().contains("reconnecting"));
    assert!(script.asked.contains(&(ticket, typed)));
    for (_, ask) in &script.asked {
        match ask {
            Request::Attach {
                request:
                    AttachRequest::GetFrame { seen, .. }
                    | AttachRequest::GetLayout { seen, .. }
                    | AttachRequest::WatchOverview { seen },
            } => {
                assert_eq!(*seen, 0);
            }
            Request::Attach {
                request: AttachRequest::JoinSession { viewport, .. },
            } => assert_eq!(*viewport, size(29, 90)),
            _ => {}
        }
    }
}

#[test]
fn a_key_starts_a_stopped_daemon() {
    let mut script = ModelScript::new(24, 80);
    script.step(ModelInput::Disconnected(DaemonLoss::Stopped));
    assert!(script.picture().contains("any key starts it"));
    assert!(!script.done.contains(&ModelEffect::StartDaemon));
    script.press("a");
    assert!(script.done.contains(&ModelEffect::StartDaemon));
    script.step(ModelInput::Reconnected);
    assert_eq!(script.typed().1, b"a");
}

#[test]
fn the_client_leaves_with_the_last_pane_and_on_detach() {
    let mut script = ModelScript::new(24, 80);
    script.answer(
        |ask| {
            matches!(
                ask,
                Request::Attach {
                    request: AttachRequest::JoinSession { .. }
                }
            )
        },
        Ok(Response::Done),
    );
    assert_eq!(script.done, [ModelEffect::Leave(LeaveReason::Empty)]);
    let mut script = ModelScript::new(24, 80);
    script.press("\x02d");
    assert_eq!(script.done, [ModelEffect::Leave(LeaveReason::Detached)]);
}

#[test]
fn a_draft_that_delays_an_agent_is_shown() {
    let mut script = ModelScript::new(24, 100);
    let held = headed(frame(2, &["$ half a li"]), |head| {
        head.held = Some("an agent waits until you have sent this line".into());
    });
    script.show(1, held);
    let picture = script.picture();
    assert!(picture.contains("‖ held"), "{picture}");
    assert!(picture.contains("an agent waits until you"), "{picture}");
}

#[test]
fn the_overview_is_requested_at_most_once_per_interval() {
    let mut script = ModelScript::new(24, 80);
    let is_news = |look: &AttachRequest| matches!(look, AttachRequest::WatchOverview { .. });
    script.answer_look(is_news, AttachResponse::Overview { version: 2 });
    let requests = |script: &ModelScript| {
        script
            .asked
            .iter()
            .any(|(_, ask)| *ask == Request::Overview)
    };
    assert!(!requests(&script));
    assert!(script.model.next_deadline().is_some());
    script.after(OVERVIEW_INTERVAL);
    assert!(requests(&script));
}
