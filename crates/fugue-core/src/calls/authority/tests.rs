use fugue_api::{PaneId, QuestionId, wire::Request, worktree::WorktreeRequest};
use serde_json::{Value, json};

use super::*;
use crate::{
    CoreInput, WorkerLaunch,
    core::tests::{Story, opened},
    settings::Settings,
};

fn person() -> CallerIdentity {
    CallerIdentity::Person {
        project: "a".into(),
    }
}

fn lead(id: &str) -> CallerIdentity {
    CallerIdentity::Session { id: id.into() }
}

fn worker(lead: &str, agent: &str) -> CallerIdentity {
    CallerIdentity::Worker {
        session: lead.into(),
        agent: agent.into(),
        pane: None,
    }
}

fn request(tool: &str, args: Value) -> Request {
    let call = ToolCall::parse(tool, args).expect("a good request");
    Request::Tool { call }
}

/// Calls of a table, each in a story of its own.
struct Team {
    story: Story,
    calls: u64,
}

impl Team {
    /// Panes: p1 of a person, p2 of lead `a`, p3 and p4 of its workers `one-claude` and `two-claude`, p5 opened by
    /// `one-claude`, p6 of its worker `sub-claude`, p7 of lead `b`.
    fn new() -> Self {
        let story = Story::new(Settings::default());
        let mut team = Self { story, calls: 0 };
        let pane = || request("create_pane", json!({"command": "serve"}));
        let spawn = |name: &str| {
            let args = json!({"name": name, "prompt": "go", "agent": "claude"});
            request("spawn_worker", args)
        };
        team.open(person(), pane());
        team.open(lead("a"), pane());
        team.open(lead("a"), spawn("one"));
        team.open(lead("a"), spawn("two"));
        team.open(worker("a", "one-claude"), pane());
        team.open(worker("a", "one-claude"), spawn("sub"));
        team.open(lead("b"), pane());
        assert_eq!(team.story.disk().panes.len(), 7);
        team
    }

    fn open(&mut self, who: CallerIdentity, ask: Request) {
        let next = self.story.disk().panes.len() as u64 + 1;
        let said = self.asks(who, ask);
        assert!(!said.contains("refuse"), "{said}");
        let ready = || WorkerLaunch {
            argv: vec!["claude".into()],
            env: Default::default(),
            cwd: "/".into(),
            branch: None,
            hooks: true,
            repo: None,
            note: None,
        };
        for number in 1..=3 {
            let outcome = Ok(ready());
            let worker = number;
            self.story
                .step(CoreInput::WorkerPrepared { worker, outcome });
        }
        self.story.fact(next, opened());
    }

    fn asks(&mut self, who: CallerIdentity, ask: Request) -> String {
        self.calls += 1;
        self.story.speaks(who);
        match ask {
            Request::Tool { call } => self.story.ask(self.calls, self.calls as u8, "", call),
            ask => self.story.ask_for(self.calls, ask),
        }
    }

    /// Whether the call passes the table. A call that does not changes nothing.
    #[track_caller]
    fn allows(&mut self, who: CallerIdentity, ask: Request) -> bool {
        let before = format!("{:?}", self.story.core);
        let said = self.asks(who, ask);
        if said != format!("refuse {} Denied", self.calls) {
            return true;
        }
        let told = self.story.told(self.calls).clone();
        assert!(told["hint"].is_string(), "{told}");
        assert_eq!(format!("{:?}", self.story.core), before, "{told}");
        false
    }
}

type Make = fn(&str) -> Request;

/// A call of each kind about a pane, and the right that it needs.
fn pane_calls() -> Vec<(PaneRight, Make)> {
    let resize: Make = |pane| Request::Resize {
        pane: pane.into(),
        rows: 10,
        cols: 10,
    };
    let follow: Make = |pane| Request::Follow {
        pane: pane.into(),
        from: 0,
    };
    let keys: Make = |pane| Request::Attach {
        request: AttachRequest::Type {
            client: fugue_api::attach::ClientId(1),
            pane: pane.parse().expect("a pane"),
            bytes: b"x".to_vec(),
        },
    };
    let line: Make = |pane| Request::Attach {
        request: AttachRequest::ConnectPane {
            pane: pane.parse().expect("a pane"),
            role: ViewerRole::Interactive,
        },
    };
    vec![
        (PaneRight::Read, |pane| {
            request("get_status", json!({"pane_id": pane}))
        }),
        (PaneRight::Read, |pane| {
            request("read_pane", json!({"pane_id": pane}))
        }),
        (PaneRight::Read, |pane| {
            request("fugue_expect", json!({"pane_id": pane, "pattern": "x"}))
        }),
        (PaneRight::Read, follow),
        (PaneRight::Type, |pane| {
            request("send_input", json!({"pane_id": pane, "input": "x"}))
        }),
        (PaneRight::Type, |pane| {
            let commands = json!([{"command": "true"}]);
            request(
                "fugue_run_pipeline",
                json!({"pane_id": pane, "commands": commands}),
            )
        }),
        (PaneRight::Type, keys),
        (PaneRight::Type, line),
        (PaneRight::Watch, |pane| {
            request(
                "watch_me",
                json!({"tmux_window": pane, "strategy_plan": "go on"}),
            )
        }),
        (PaneRight::Watch, |pane| {
            request(
                "look_ma",
                json!({"tmux_window": pane, "status_report": "well"}),
            )
        }),
        (PaneRight::Watch, |pane| {
            request("pause", json!({"tmux_window": pane}))
        }),
        (PaneRight::Watch, |pane| {
            request("clear", json!({"tmux_window": pane}))
        }),
        (PaneRight::Manage, |pane| {
            request("close_pane", json!({"pane_id": pane}))
        }),
        (PaneRight::Manage, |pane| {
            let args = json!({"pane_id": pane, "pattern": "x", "action": "close_pane"});
            request("fugue_expect", args)
        }),
        (PaneRight::Manage, resize),
        // The name of a pane is as good as its id.
        (PaneRight::Manage, |pane| {
            request("close_pane", json!({"pane_id": pane, "grace_ms": 1}))
        }),
    ]
}

#[test]
fn panes_are_for_those_the_table_names() {
    let calls = pane_calls();
    // Who, the panes that are its own, and whether those of people may be typed into and watched.
    let callers: [(CallerIdentity, &[u64], bool); 7] = [
        (person(), &[1, 2, 3, 4, 5, 6, 7], true),
        (lead("a"), &[2, 3, 4, 5, 6], true),
        (lead("b"), &[7], true),
        (worker("a", "one-claude"), &[3, 5, 6], false),
        (worker("a", "two-claude"), &[4], false),
        (worker("a/one-claude.1", "sub-claude"), &[6], false),
        (worker("a", "nobody"), &[], false),
    ];
    for (who, own, peoples) in &callers {
        for (right, make) in &calls {
            for pane in 1..=7 {
                let wanted = match right {
                    PaneRight::Read => true,
                    PaneRight::Type | PaneRight::Watch => {
                        own.contains(&pane) || (*peoples && pane == 1)
                    }
                    PaneRight::Manage => own.contains(&pane),
                };
                let ask = make(&PaneId(pane).to_string());
                let case = format!("{who:?} {ask:?}");
                assert_eq!(Team::new().allows(who.clone(), ask), wanted, "{case}");
            }
        }
    }
}

#[test]
fn everybody_opens_panes_and_only_people_force_stop_or_collect_garbage() {
    let people_only: [fn() -> Request; 5] = [
        || {
            request(
                "send_input",
                json!({"pane_id": "p5", "input": "x", "force": true}),
            )
        },
        || Request::CollectGarbage {
            dry_run: false,
            all_ended: true,
        },
        || Request::DaemonStop { panes: true },
        || Request::Worktrees {
            request: WorktreeRequest::Remove {
                name: "w".into(),
                force: false,
            },
        },
        || Request::ReloadSettings,
    ];
    let everybody: [fn() -> Request; 8] = [
        || request("create_pane", json!({"command": "true"})),
        || {
            request(
                "fugue_run_parallel",
                json!({"commands": [{"command": "true"}]}),
            )
        },
        || request("get_status", json!({})),
        || request("wait_for_event", json!({"timeout_secs": 0})),
        || Request::Overview,
        || Request::Worktrees {
            request: WorktreeRequest::List,
        },
        || Request::CollectGarbage {
            dry_run: true,
            all_ended: true,
        },
        || Request::Inbox {
            after: fugue_api::EventId(0),
            most: 10,
        },
    ];
    for who in [
        person(),
        lead("a"),
        worker("a", "one-claude"),
        worker("a", "nobody"),
    ] {
        for make in people_only {
            let allowed = Team::new().allows(who.clone(), make());
            assert_eq!(allowed, who == person(), "{who:?} {:?}", make());
        }
        for make in everybody {
            assert!(
                Team::new().allows(who.clone(), make()),
                "{who:?} {:?}",
                make()
            );
        }
    }
    let team = Team::new();
    assert!(team.story.core.authorize_stop(None, person()).is_ok());
    assert!(
        team.story
            .core
            .authorize_stop(Some(PaneId(3)), person())
            .is_err()
    );
}

#[test]
fn a_run_is_cancelled_by_its_starter_by_those_above_and_by_people() {
    let (a, b, one) = (lead("a"), lead("b"), worker("a", "one-claude"));
    let two = worker("a", "two-claude");
    let sub = worker("a/one-claude.1", "sub-claude");
    // Each kind of run, in panes of its own and in a pane that everybody may read.
    let starts: [Make; 3] = [
        |run| {
            let args = json!({"pane_id": "p2", "pattern": "x", "run_id": run});
            request("fugue_expect", args)
        },
        |run| {
            let args = json!({"commands": [{"command": "true"}], "run_id": run});
            request("fugue_run_parallel", args)
        },
        |run| {
            let args = json!({"commands": [{"command": "true"}], "run_id": run});
            request("fugue_run_pipeline", args)
        },
    ];
    for (starter, who, allowed) in [
        (&a, &a, true),
        (&a, &person(), true),
        (&a, &b, false),
        (&a, &one, false),
        (&one, &one, true),
        (&one, &a, true),
        (&one, &two, false),
        (&sub, &one, true),
        (&sub, &a, true),
        (&sub, &b, false),
        (&person(), &a, false),
        (&person(), &one, false),
        (&person(), &person(), true),
    ] {
        for start in starts {
            let mut team = Team::new();
            let said = team.asks(starter.clone(), start("r"));
            assert!(!said.contains("refuse"), "{said}");
            let cancel = request("cancel_run", json!({"run_id": "r"}));
            let case = format!("{who:?} {:?}", start("r"));
            assert_eq!(team.allows(who.clone(), cancel), allowed, "{case}");
        }
    }
}

#[test]
fn workers_write_to_their_lead_their_siblings_and_their_own_workers() {
    let typed = |to: &str| {
        request(
            "send_message",
            json!({"to": to, "body": "x", "deliver": "type"}),
        )
    };
    let sent = |to: &str| request("send_message", json!({"to": to, "body": "x"}));
    let asked = |to: &str| request("ask_question", json!({"to": to, "body": "x"}));
    let (a, b, one) = (lead("a"), lead("b"), worker("a", "one-claude"));
    let two = worker("a", "two-claude");
    let sub = worker("a/one-claude.1", "sub-claude");
    // Who, to whom, whether it may write, whether what it writes may be typed.
    for (who, to, writes, types) in [
        (person(), "one-claude", true, true),
        (a.clone(), "one-claude", true, true),
        (a, "a/one-claude.1/sub-claude.1", true, true),
        (b, "a/one-claude.1", true, false),
        (one.clone(), "a", true, true),
        (one.clone(), "two-claude", true, false),
        (one.clone(), "sub-claude", true, true),
        (one, "b", false, false),
        (two, "a/one-claude.1/sub-claude.1", false, false),
        (sub.clone(), "a/one-claude.1", true, false),
        (sub, "a", false, false),
    ] {
        // Lead `b` has an inbox.
        let mut team = Team::new();
        team.asks(
            person(),
            request("wait_for_event", json!({"timeout_secs": 0})),
        );
        let report = json!({"session_id": "b", "worker_id": "x", "status": "success"});
        team.asks(person(), request("notify_completion", report));
        let case = format!("{who:?} to {to}");
        assert_eq!(team.allows(who.clone(), sent(to)), writes, "{case}");
        assert_eq!(team.allows(who.clone(), asked(to)), writes, "{case}");
        // A lead has no pane of its own, which the plan says.
        assert_eq!(team.allows(who, typed(to)), types, "typed: {case}");
    }
}

#[test]
fn a_question_is_answered_by_its_addressee_by_those_above_and_by_people() {
    let (a, one) = (lead("a"), worker("a", "one-claude"));
    let two = worker("a", "two-claude");
    let sub = worker("a/one-claude.1", "sub-claude");
    for (asker, to, who, allowed) in [
        (&one, None, &a, true),
        (&one, None, &person(), true),
        (&one, None, &one, false),
        (&one, None, &two, false),
        (&one, None, &lead("b"), false),
        (&one, Some("two-claude"), &two, true),
        (&one, Some("two-claude"), &a, true),
        (&one, Some("two-claude"), &one, false),
        (&sub, None, &one, true),
        (&sub, None, &a, true),
        (&sub, None, &two, false),
        (&a, Some("one-claude"), &one, true),
        (&a, Some("one-claude"), &a, false),
        (&a, Some("one-claude"), &sub, false),
    ] {
        let mut team = Team::new();
        let mut question = json!({"body": "may I?", "timeout_secs": 0});
        if let Some(to) = to {
            question["to"] = json!(to);
        }
        team.asks(asker.clone(), request("ask_question", question));
        let answer = || {
            request(
                "answer_question",
                json!({"question_id": "q1", "answer": "yes"}),
            )
        };
        let case = format!("{asker:?} to {to:?}, answered by {who:?}");
        assert_eq!(team.allows(who.clone(), answer()), allowed, "{case}");
        let record = team
            .story
            .core
            .team
            .question(QuestionId(1))
            .expect("it is kept");
        let from = match who {
            CallerIdentity::Person { .. } => "person",
            CallerIdentity::Session { id } => id,
            CallerIdentity::Worker { agent, .. } => agent,
        };
        assert_eq!(
            record.answered_by.as_deref(),
            allowed.then_some(from),
            "{case}"
        );
    }
}

#[test]
fn a_completion_is_reported_by_that_worker_and_by_people() {
    let of =
        |lead: &str, id: &str| json!({"session_id": lead, "worker_id": id, "status": "success"});
    let own = json!({"status": "success"});
    let one = worker("a", "one-claude");
    let nobody = worker("a", "nobody");
    for (who, args, allowed) in [
        (person(), of("a", "one-claude"), true),
        (person(), of("a", "stranger"), true),
        (one.clone(), own.clone(), true),
        (one.clone(), of("a", "one-claude"), true),
        (one.clone(), of("a", "two-claude"), false),
        (one.clone(), of("a", "stranger"), false),
        (one.clone(), of("b", "one-claude"), false),
        (one, of("a/one-claude.1", "sub-claude"), false),
        (nobody.clone(), own, true),
        (nobody, of("a", "one-claude"), false),
        (lead("a"), of("a", "one-claude"), false),
        (lead("b"), of("a", "one-claude"), false),
        (lead("b"), of("a", "stranger"), true),
    ] {
        let case = format!("{who:?} {args}");
        let ask = request("notify_completion", args);
        assert_eq!(Team::new().allows(who, ask), allowed, "{case}");
    }
}

#[test]
fn nobody_takes_an_event_out_of_the_inbox_of_another() {
    for (who, allowed) in [
        (person(), true),
        (lead("a"), true),
        (lead("b"), false),
        (worker("a", "one-claude"), false),
    ] {
        let mut team = Team::new();
        team.asks(
            worker("a", "two-claude"),
            request("send_message", json!({"body": "hello"})),
        );
        let event = fugue_api::EventId(1);
        let case = format!("{who:?}");
        let before = format!("{:?}", team.story.core);
        let said = team.asks(who, Request::AckEvent { event });
        assert_eq!(!said.contains("Denied"), allowed, "{case}: {said}");
        if !allowed {
            assert_eq!(format!("{:?}", team.story.core), before, "{case}");
        }
    }
}

#[test]
fn a_process_in_the_pane_of_an_agent_is_that_agent_whatever_it_says() {
    let team = Team::new();
    let core = &team.story.core;
    let one = CallerIdentity::Worker {
        session: "a".into(),
        agent: "one-claude".into(),
        pane: Some(PaneId(3)),
    };
    let below = worker("a/one-claude.1", "sub-claude");
    let strange = |lead: &str, agent: &str| Some(worker(lead, agent));
    for (pane, claimed, who) in [
        // Outside panes and in those of people, everybody is who they say.
        (None, person(), Some(person())),
        (None, lead("a"), Some(lead("a"))),
        (None, worker("a", "nobody"), Some(worker("a", "nobody"))),
        (Some(1), person(), Some(person())),
        (Some(1), lead("b"), Some(lead("b"))),
        // In the pane of a worker.
        (Some(3), person(), Some(one.clone())),
        (Some(3), one.clone(), Some(one.clone())),
        (Some(3), worker("a", "one-claude"), Some(one.clone())),
        (Some(3), below.clone(), Some(below)),
        (Some(3), worker("a", "two-claude"), None),
        (Some(3), worker("a", "nobody"), None),
        (Some(3), lead("a"), None),
        (Some(3), lead("b"), None),
        (Some(3), lead("new"), strange("a/one-claude.1", "new")),
        (Some(3), worker("new", "x"), strange("a/one-claude.1", "x")),
        // In a pane that a worker or a lead opened.
        (Some(5), person(), Some(one)),
        (Some(5), lead("b"), None),
        (Some(2), person(), Some(lead("a"))),
        (Some(2), worker("a", "nobody"), Some(worker("a", "nobody"))),
        (Some(2), lead("b"), None),
        (Some(2), lead("new"), strange("a", "new")),
    ] {
        let case = format!("{claimed:?} in {pane:?}");
        let found = core.team.identify(pane.map(PaneId), claimed, &core.cx);
        match who {
            Some(who) => assert_eq!(found.expect("it is accepted"), who, "{case}"),
            None => {
                let error = found.expect_err("it is refused");
                assert_eq!(error.kind, fugue_api::ErrorKind::Denied, "{case}");
            }
        }
    }
}

#[test]
fn a_call_from_a_workers_pane_is_the_workers_although_it_says_nothing_of_it() {
    let mut team = Team::new();
    team.story.within = Some(PaneId(3));
    assert!(!team.allows(person(), request("close_pane", json!({"pane_id": "p2"}))));
    assert!(!team.allows(lead("a"), request("close_pane", json!({"pane_id": "p3"}))));
    assert!(team.allows(person(), request("close_pane", json!({"pane_id": "p5"}))));
}

#[test]
fn the_nearest_pane_above_a_process_is_its_own() {
    let team = Team::new();
    let core = &team.story.core;
    // All panes of the story have the child 7, and the first is found.
    for (ancestors, pane) in [
        (vec![], None),
        (vec![(100, None), (50, None)], None),
        (
            vec![(100, None), (50, Some(PaneId(3))), (40, None)],
            Some(3),
        ),
        (vec![(100, Some(PaneId(6))), (50, Some(PaneId(3)))], Some(6)),
        (vec![(100, None), (7, None), (50, Some(PaneId(3)))], Some(1)),
    ] {
        assert_eq!(core.pane_of(&ancestors), pane.map(PaneId), "{ancestors:?}");
    }
}

#[test]
fn what_older_versions_stored_counts_as_opened_by_a_person() {
    let mut team = Team::new();
    team.story.change_disk(|disk| {
        for record in &mut disk.panes {
            record.opened_by = None;
        }
        for question in &mut disk.questions {
            question.addressee = None;
        }
    });
    team.story.restart();
    let close = |pane: &str| request("close_pane", json!({"pane_id": pane}));
    assert!(!team.allows(lead("a"), close("p2")));
    assert!(!team.allows(lead("b"), close("p3")));
    let typed = request("send_input", json!({"pane_id": "p2", "input": "x"}));
    assert!(team.allows(lead("b"), typed));
    assert!(
        team.allows(lead("a"), close("p3")),
        "whose worker it is stays known"
    );
    assert!(team.allows(person(), close("p2")));
}
