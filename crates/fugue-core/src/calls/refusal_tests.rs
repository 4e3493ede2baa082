//! A refused call changes nothing: a property over every kind of call, in whatever state core happens to be.

use fugue_api::{
    Error, EventId, OsText, PaneId, RunId, SessionName, ToolCall,
    attach::{AttachRequest, ClientId, LayoutChange, SplitSide, ViewerRole},
    pane_state::{AttentionKind, StateSource},
    tools::PaneSize,
    wire::{CallerEnv, CallerIdentity, HookReport, IdempotencyKey, Request},
    worktree::WorktreeRequest,
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::{
    Assessment, CallId, CallRequest, CommandEnd, CompletionDetails, CoreInput, Effect, ExpectMatch,
    IdleState, LaunchEnv, MatchedPattern, ObservedAgent, PaneActivity, PaneEvent, QuietPane,
    StepEvent, TmuxLookup, TmuxOrigin, TmuxPane, TmuxPaneInfo, TypingOutcome, WorkerLaunch,
    assess::WatchSettings,
    core::tests::{Story, exited, exited_unasked, opened},
    pane_machine::{AgentDialog, AgentNotice, AgentSight},
    settings::Settings,
};

/// Random bytes, each of which chooses from a list.
type Choices = [u8; 8];

fn pick<T: Clone>(choices: &Choices, at: usize, from: &[T]) -> T {
    from[choices[at] as usize % from.len()].clone()
}

const PANES: &[&str] = &["p1", "p2", "p3", "p4", "p9", "build", "editor", "", "%5"];
const PATTERNS: &[&str] = &["ok", "(", "", "a|b"];
const WORKERS: &[&str] = &["w-claude", "v-claude", "lead", "nobody", ""];

/// The arguments of a tool, good and bad ones alike.
fn arguments(tool: &str, c: &Choices) -> Value {
    let pane = pick(c, 1, PANES);
    let run = pick(c, 2, &[Value::Null, json!("r1"), json!("r2"), json!("")]);
    match tool {
        "create_pane" => json!({
            "command": pick(c, 3, &[Value::Null, json!("make")]),
            "name": pick(c, 4, &[Value::Null, json!("build"), json!("p7")]),
            "rows": pick(c, 5, &[40, 0, 5000]),
            "ready": pick(c, 6, &[Value::Null, json!("ok"), json!("(")]),
            "run_id": run,
        }),
        "send_input" => {
            json!({"pane_id": pane, "input": pick(c, 3, &[Value::Null, json!("ls")])})
        }
        "read_pane" => json!({
            "pane_id": pane,
            "grep": pick(c, 3, &[Value::Null, json!("("), json!("ok")]),
            "since": pick(c, 4, &[Value::Null, json!("garbage")]),
        }),
        "get_status" => json!({"pane_id": pick(c, 3, &[Value::Null, json!(pane)])}),
        "close_pane" => json!({"pane_id": pane}),
        "fugue_expect" => json!({
            "pane_id": pane,
            "pattern": pick(c, 3, PATTERNS),
            "fail_pattern": pick(c, 4, &[Value::Null, json!("["), json!("no")]),
            "since": pick(c, 5, &[Value::Null, json!("garbage")]),
            "action": pick(c, 6, &["notify", "close_pane", "return_output"]),
            "report": pick(c, 7, &["call", "event"]),
            "run_id": run,
        }),
        "fugue_run_parallel" => {
            let commands = ["true", "false"].map(|command| json!({"command": command}));
            let count = pick(c, 3, &[2, 1, 0]);
            json!({
                "commands": commands[..count],
                "fail_fast": c[4].is_multiple_of(2),
                "timeout_ms": pick(c, 5, &[1000, 0]),
                "run_id": run,
            })
        }
        "fugue_run_pipeline" => json!({
            "commands": pick(c, 3, &[json!([{"command": "cd /"}, {"command": "ls"}]), json!([])]),
            "pane_id": pick(c, 4, &[Value::Null, json!(pane)]),
            "cleanup": c[5].is_multiple_of(2),
            "run_id": run,
        }),
        "fugue_wait" => json!({
            "run_id": pick(c, 2, &["r", "r1", "r2", "none", ""]),
            "timeout_ms": pick(c, 3, &[Value::Null, json!(0), json!(10)]),
        }),
        "cancel_run" => json!({"run_id": pick(c, 2, &["r", "r1", "r2", "none", ""])}),
        _ => team_arguments(tool, c),
    }
}

/// As [`arguments`], for the tools of teams and watchers.
fn team_arguments(tool: &str, c: &Choices) -> Value {
    let own = pick(c, 1, &[Value::Null, json!("p1"), json!("p2"), json!("p9")]);
    match tool {
        "spawn_worker" => json!({
            "name": pick(c, 3, &["w", "v", "", "a b"]),
            "prompt": pick(c, 4, &["go", ""]),
            "agent": pick(c, 5, &[json!("claude"), Value::Null]),
            "deadline_secs": pick(c, 6, &[Value::Null, json!(5.0), json!(-1.0)]),
        }),
        "wait_for_event" => json!({
            "types": pick(c, 3, &[json!(["*"]), json!(["message"]), json!([])]),
            "timeout_secs": pick(c, 4, &[5.0, 0.0, -1.0]),
            "after_event_id": pick(c, 5, &[Value::Null, json!("e1")]),
        }),
        "notify_completion" => json!({
            "worker_id": pick(c, 3, &[Value::Null, json!("w-claude"), json!("nobody")]),
            "session_id": pick(c, 4, &[Value::Null, json!("lead")]),
            "status": pick(c, 5, &["success", "error"]),
            "changes": pick(c, 6, &[Value::Null, json!(["a"])]),
        }),
        "send_message" => json!({
            "to": pick(c, 3, &[Value::Null, json!(pick(c, 4, WORKERS))]),
            "body": pick(c, 5, &["hello", ""]),
            "deliver": pick(c, 6, &["inbox", "type"]),
        }),
        "ask_question" => json!({
            "to": pick(c, 3, &[Value::Null, json!(pick(c, 4, WORKERS))]),
            "body": pick(c, 5, &["which", ""]),
            "timeout_secs": pick(c, 6, &[5.0, 0.0]),
        }),
        "answer_question" => json!({
            "question_id": pick(c, 3, &["q1", "q2", "q9"]),
            "answer": pick(c, 4, &["yes", "no", ""]),
        }),
        "watch_me" => json!({
            "tmux_window": own,
            "strategy_plan": pick(c, 3, &["write it", ""]),
            "done_when": pick(c, 4, &[Value::Null, json!("true")]),
        }),
        "look_ma" => json!({
            "tmux_window": own,
            "status_report": pick(c, 3, &["half way", ""]),
            "bash_wait": pick(c, 4, &[Value::Null, json!("true")]),
        }),
        "pause" | "clear" => json!({"tmux_window": own}),
        other => panic!("the tool `{other}` has no arguments here; add them"),
    }
}

fn look(c: &Choices) -> AttachRequest {
    let client = ClientId(u64::from(c[1] % 3));
    let pane = PaneId(pick(c, 2, &[1, 2, 3, 9]));
    let session = SessionName(pick(c, 3, &["main", "runs", "none"]).to_owned());
    let viewport = PaneSize { rows: 24, cols: 80 };
    let role = pick(c, 4, &[ViewerRole::Interactive, ViewerRole::ReadOnly]);
    let seen = u64::from(c[5] % 4);
    let side = pick(c, 6, &[SplitSide::Left, SplitSide::Below]);
    let change = match c[5] % 6 {
        0 => LayoutChange::Split {
            made_by: IdempotencyKey([c[6] % 4; 16]),
            of: pane,
            side,
        },
        1 => LayoutChange::MoveEdge { pane, side, by: 3 },
        2 => LayoutChange::Swap {
            one: pane,
            other: PaneId(2),
        },
        3 => LayoutChange::Zoom { pane: Some(pane) },
        4 => LayoutChange::Zoom { pane: None },
        _ => LayoutChange::Tiled,
    };
    match c[7] % 10 {
        0 => AttachRequest::JoinSession {
            client,
            session,
            viewport,
            role,
        },
        1 => AttachRequest::SetSize { client, viewport },
        2 => AttachRequest::GetLayout { session, seen },
        3 | 4 => AttachRequest::ChangeLayout { session, change },
        5 => AttachRequest::GetFrame { client, pane, seen },
        6 => AttachRequest::StreamFrames {
            client,
            seen,
            most: 3,
        },
        7 => AttachRequest::ConnectPane { pane, role },
        8 => AttachRequest::ReadLines {
            pane,
            from: 0,
            most: 10,
        },
        _ if c[6].is_multiple_of(2) => AttachRequest::WatchOverview { seen },
        _ => AttachRequest::Type {
            client,
            pane,
            bytes: b"ls".to_vec(),
        },
    }
}

/// How many kinds of calls are not tool calls.
const OTHER_KINDS: usize = 14;

/// One call of each kind that only fugue's own programs make.
fn other(kind: usize, c: &Choices) -> Request {
    let ask = match kind {
        0 => Request::Overview,
        1 => Request::TmuxPanes,
        2 => Request::Follow {
            pane: pick(c, 1, PANES).to_owned(),
            from: 0,
        },
        3 => Request::RunProgress {
            run: RunId(pick(c, 2, &["r", "r1", "none"]).to_owned()),
            seen: u64::from(c[3] % 3),
        },
        4 => Request::AckEvent {
            event: EventId(u64::from(c[2] % 5)),
        },
        5 => Request::Inbox {
            after: EventId(0),
            most: 2,
        },
        6 => Request::Hook {
            report: match c[2] % 7 {
                0 => HookReport::PromptGiven,
                1 => HookReport::TurnEnded {
                    message: "done".into(),
                },
                2 => HookReport::TurnFailed {
                    message: "no".into(),
                },
                3 => HookReport::NeedsInput {
                    prompt: "may I".into(),
                    kind: AttentionKind::Permission,
                },
                4 => HookReport::TurnPaused {
                    message: "a limit".into(),
                    resume_at: None,
                },
                5 => HookReport::BackgroundWork,
                _ => HookReport::InputNoLongerNeeded,
            },
        },
        7 => Request::Resize {
            pane: pick(c, 1, PANES).to_owned(),
            rows: pick(c, 2, &[24, 0]),
            cols: pick(c, 3, &[80, 5000]),
        },
        8 => Request::Attach { request: look(c) },
        9 => Request::CollectGarbage {
            dry_run: pick(c, 1, &[true, false]),
            all_ended: pick(c, 2, &[true, false]),
        },
        10 => pick(
            c,
            1,
            &[
                Request::DaemonStatus,
                Request::Settings,
                Request::ReloadSettings,
            ],
        ),
        11 => Request::Questions {
            known: pick(c, 1, &[None, Some(Vec::new())]),
        },
        12 => Request::Worktrees {
            request: WorktreeRequest::Remove {
                name: "w-1".into(),
                force: pick(c, 1, &[true, false]),
            },
        },
        _ => Request::DaemonStop { panes: false },
    };
    // A new kind of call belongs into the list above.
    match &ask {
        Request::Tool { .. }
        | Request::Overview
        | Request::TmuxPanes
        | Request::Follow { .. }
        | Request::RunProgress { .. }
        | Request::AckEvent { .. }
        | Request::Inbox { .. }
        | Request::Questions { .. }
        | Request::Hook { .. }
        | Request::Resize { .. }
        | Request::Attach { .. }
        | Request::CollectGarbage { .. }
        | Request::Worktrees { .. }
        | Request::DaemonStatus
        | Request::Settings
        | Request::ReloadSettings
        | Request::DaemonStop { .. } => ask,
    }
}

fn caller(c: &Choices) -> Arc<CallerEnv> {
    let pane = pick(c, 7, &[None, None, Some("p1"), Some("p9")]);
    let named = |pane: &str| {
        (
            OsText::Text("FUGUE_PANE_ID".into()),
            OsText::Text(pane.into()),
        )
    };
    Arc::new(CallerEnv {
        cwd: OsText::Text("/".into()),
        env: pane.map(named).into_iter().collect(),
        umask: 0o22,
        setting_names: fugue_api::wire::SettingNames::Prefixed,
    })
}

fn found(c: &Choices) -> TmuxPaneInfo {
    TmuxPaneInfo {
        pane: TmuxPane {
            socket: "/tmp/tmux-0/default".into(),
            server: 77,
            id: pick(c, 5, &["%5", "%6"]).to_owned(),
            origin: TmuxOrigin::Found,
        },
        session: "work".into(),
        window: "editor".into(),
        pid: 4242,
        command: "vim".into(),
        cwd: "/home".into(),
        size: PaneSize { rows: 24, cols: 80 },
    }
}

fn asked(kind: usize, c: &Choices, d: &Choices) -> Option<CallRequest> {
    let tools = ToolCall::NAMES.len();
    let ask = match ToolCall::NAMES.get(kind % (tools + OTHER_KINDS)) {
        Some(tool) => Request::Tool {
            call: ToolCall::parse(tool, without_nulls(arguments(tool, c))).ok()?,
        },
        None => other(kind % (tools + OTHER_KINDS) - tools, c),
    };
    let launch_env = LaunchEnv {
        cwd: "/".into(),
        shell: "/bin/bash".into(),
        secret: pick(d, 0, &["", "secret"]).to_owned(),
        tmux: None,
    };
    let count = match &ask {
        Request::Tool {
            call: ToolCall::RunParallel(args),
        } => args.commands.len(),
        _ => 1,
    };
    let wrong = || Error::invalid("cwd: no such directory");
    let who = match d[1] % 4 {
        0 => CallerIdentity::Person {
            project: "project".into(),
        },
        1 => CallerIdentity::Session { id: "lead".into() },
        _ => CallerIdentity::Worker {
            session: "lead".into(),
            agent: pick(d, 2, &["w-claude", "v-claude"]).to_owned(),
            pane: Some(PaneId(u64::from(d[3] % 4))),
        },
    };
    let tmux = match d[4] % 6 {
        0 if ask.pane().is_some() => TmuxLookup::One(Box::new(Ok(found(d)))),
        1 if ask.pane().is_some() => TmuxLookup::One(Box::new(Err(wrong()))),
        2 => TmuxLookup::All(vec![found(d)]),
        _ => TmuxLookup::None,
    };
    Some(CallRequest {
        key: IdempotencyKey([d[6] % 8; 16]),
        who,
        within: None,
        caller: caller(d),
        request: ask,
        launch_envs: match d[6] % 5 {
            0 => Err(wrong()),
            _ => Ok(vec![launch_env; count]),
        },
        watch: (!d[5].is_multiple_of(7)).then(|| Box::new(WatchSettings::default())),
        tmux,
    })
}

/// A field that is left out, where the list of choices has a null.
fn without_nulls(mut args: Value) -> Value {
    if let Value::Object(fields) = &mut args {
        fields.retain(|_, value| !value.is_null());
    }
    args
}

fn fact(c: &Choices) -> PaneEvent {
    let cursor = crate::view::start();
    let run = RunId(pick(c, 2, &["r1", "r2"]).to_owned());
    let news = |step| StepEvent {
        plan: u64::from(c[3] % 4),
        step,
        at: crate::view::start(),
        when: None,
    };
    let (watcher, step) = (1, u64::from(c[4] % 6));
    let step_at = usize::from(c[5] % 3);
    match c[1] % 17 {
        0..=2 => opened(),
        3 => exited(i32::from(c[3] % 2)),
        4 => exited_unasked(0),
        5 => PaneEvent::Swept,
        6 => PaneEvent::OpenFailed(Error::invalid("no terminal")),
        7 => PaneEvent::NeverStarted(Error::invalid("the daemon died")),
        8 => PaneEvent::Prompted { cursor },
        9 => PaneEvent::ExpectStarted { run, from: cursor },
        10 => PaneEvent::ExpectMatched {
            run,
            from: pick(c, 2, &[None, Some(cursor.clone())]),
            pattern: pick(c, 3, &[MatchedPattern::Pattern, MatchedPattern::Fail]),
            found: ExpectMatch {
                text: "ok".into(),
                line: "ok".into(),
                end: cursor,
                via: fugue_api::tools::MatchVia::Stream,
            },
        },
        11 => PaneEvent::StepBegan(news(step_at)),
        12 => PaneEvent::StepEnded(news(step_at), i32::from(c[6] % 2)),
        13 => PaneEvent::AgentObserved(ObservedAgent {
            name: Some("claude".into()),
            sight: pick(
                c,
                3,
                &[
                    AgentSight::Unrecognized,
                    AgentSight::Working,
                    AgentSight::Asks {
                        dialog: AgentDialog::unknown("may I?"),
                        by: StateSource::Screen,
                    },
                    AgentSight::Idle {
                        unsent: false,
                        notice: AgentNotice::default(),
                    },
                ],
            ),
        }),
        14 => PaneEvent::IdleReport(pick(c, 3, &[IdleState::Now, IdleState::NotYet(None)])),
        15 => PaneEvent::MessageTyped {
            event: EventId(u64::from(c[3] % 5)),
            how: pick(
                c,
                4,
                &[
                    TypingOutcome::Submitted,
                    TypingOutcome::Waits(None),
                    TypingOutcome::Refused,
                ],
            ),
        },
        _ => PaneEvent::Quiet {
            watcher,
            step,
            seen: QuietPane {
                tail: String::new(),
                idle_ms: 1,
                place: PaneActivity::default(),
            },
        },
    }
}

/// Something that happens besides calls.
fn happens(c: &Choices) -> CoreInput {
    let worker = u64::from(c[1] % 3);
    match c[0] % 12 {
        0 => CoreInput::TimerExpired,
        1 => CoreInput::Cancelled {
            call: CallId(u64::from(c[1])),
        },
        2 | 3 => CoreInput::WorkerPrepared {
            worker,
            outcome: match c[2] % 4 {
                0 => Err(Error::invalid("no repository")),
                _ => Ok(WorkerLaunch {
                    argv: vec!["claude".into()],
                    env: Default::default(),
                    cwd: "/".into(),
                    branch: None,
                    hooks: c[3].is_multiple_of(2),
                    repo: None,
                    note: None,
                }),
            },
        },
        4 => CoreInput::ChangesCollected {
            worker,
            found: CompletionDetails::default(),
        },
        5 => CoreInput::WatcherCommandEnded {
            watcher: 1,
            step: u64::from(c[2] % 6),
            ran: CommandEnd {
                code: Some(0),
                ending: "exited with 0".into(),
                output: String::new(),
            },
        },
        6 => CoreInput::Assessed {
            watcher: 1,
            step: u64::from(c[2] % 6),
            judged: Assessment::Decision(Err("no model".into())),
        },
        _ => CoreInput::Pane {
            pane: PaneId(u64::from(c[2] % 5) + 1),
            event: fact(&[c[0], c[3], c[4], c[5], c[6], c[7], c[1], c[2]]),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn a_refused_call_changes_nothing(
        steps in vec((any::<bool>(), any::<u8>(), any::<Choices>(), any::<Choices>()), 1..60),
    ) {
        let mut story = Story::new(Settings::default());
        for (number, (happens_by_itself, kind, c, d)) in steps.into_iter().enumerate() {
            story.after(u64::from(c[0]));
            if happens_by_itself {
                story.effects(happens(&c));
                continue;
            }
            let Some(asked) = asked(usize::from(kind), &c, &d) else {
                continue;
            };
            let said = format!("{asked:?}");
            // The time of the step is the only difference that a refused call may leave.
            story.core.cx.out.begin(story.now);
            let before = format!("{:?}", story.core);
            let call = CallId(number as u64);
            let effects = story.effects(CoreInput::Call { call, asked });
            let refused = matches!(
                (&effects.effects[..], &effects.commit),
                ([Effect::Reply { call: to, answer: Err(_) }], None) if *to == call
            );
            if refused {
                prop_assert_eq!(&before, &format!("{:?}", story.core), "{} was refused: {:?}", said, effects);
            }
        }
    }
}
