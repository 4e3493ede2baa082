use fugue_api::{
    PaneId, SessionName, ToolCall,
    attach::{AttachRequest, ClientId, LayoutChange, SessionLayout, SplitSide, ViewerRole},
    pane_state::AttentionKind,
    tools::PaneSize,
    wire::{CallerIdentity, HookReport, IdempotencyKey, Request},
};
use proptest::{collection::vec, prelude::*};
use serde_json::json;

use crate::{
    CallId, CoreInput, PaneEvent,
    core::tests::{Story, exited, opened},
    layout::tests::check_filled,
    settings::Settings,
};

fn story() -> Story {
    Story::new(Settings::default())
}

fn main() -> SessionName {
    SessionName("main".into())
}

fn viewport(rows: u16, cols: u16) -> PaneSize {
    PaneSize { rows, cols }
}

/// A pane with a command in it, by the call that makes it; its number is the call's.
fn pane(story: &mut Story, number: u64) -> String {
    made(story, number, json!({"command": "make all"}))
}

fn made(story: &mut Story, number: u64, args: serde_json::Value) -> String {
    let request = ToolCall::parse("create_pane", args).unwrap();
    story.ask(number, number as u8, "", request);
    story.fact(number, opened())
}

fn look(story: &mut Story, call: u64, request: AttachRequest) -> String {
    story.ask_for(call, Request::Attach { request })
}

fn attend(
    story: &mut Story,
    call: u64,
    client: u64,
    viewport: PaneSize,
    role: ViewerRole,
) -> String {
    let attend = AttachRequest::JoinSession {
        client: ClientId(client),
        session: main(),
        viewport,
        role,
    };
    look(story, call, attend)
}

fn fit(story: &mut Story, call: u64, client: u64, viewport: PaneSize) -> String {
    let client = ClientId(client);
    look(story, call, AttachRequest::SetSize { client, viewport })
}

fn arrange(story: &mut Story, call: u64, change: LayoutChange) -> String {
    let session = main();
    look(story, call, AttachRequest::ChangeLayout { session, change })
}

/// How the panes lie, as `p1 0,0 24x80`, with the version.
fn lies(story: &mut Story, call: u64, seen: u64) -> (u64, Vec<String>) {
    let session = main();
    let said = look(story, call, AttachRequest::GetLayout { session, seen });
    assert_eq!(said, format!("answer {call}"));
    told(story, call)
}

fn told(story: &Story, call: u64) -> (u64, Vec<String>) {
    let arrangement = &story.told(call)["attach"]["response"]["layout"]["layout"];
    let tile = |tile: &serde_json::Value| {
        let place = &tile["place"];
        let cells = |name: &str| place[name].as_u64().unwrap();
        format!(
            "{} {},{} {}x{}",
            tile["pane"].as_str().unwrap(),
            cells("row"),
            cells("col"),
            cells("rows"),
            cells("cols")
        )
    };
    let tiles = arrangement["tiles"].as_array().unwrap();
    (
        arrangement["version"].as_u64().unwrap(),
        tiles.iter().map(tile).collect(),
    )
}

#[test]
fn the_smallest_of_those_with_their_hands_in_it_rules() {
    let mut story = story();
    pane(&mut story, 1);
    assert_eq!(
        attend(
            &mut story,
            10,
            1,
            viewport(30, 100),
            ViewerRole::Interactive
        ),
        "fit p1 29x100"
    );
    // One that only reads is shown the same and changes nothing.
    assert_eq!(
        attend(&mut story, 11, 2, viewport(5, 20), ViewerRole::ReadOnly),
        ""
    );
    let types = |client: u64| AttachRequest::Type {
        client: ClientId(client),
        pane: PaneId(1),
        bytes: b"x".to_vec(),
    };
    assert_eq!(look(&mut story, 30, types(2)), "refuse 30 InvalidArgument");
    assert_eq!(look(&mut story, 31, types(1)), "ask p1");
    assert_eq!(
        attend(&mut story, 12, 3, viewport(40, 80), ViewerRole::Interactive),
        "fit p1 29x80"
    );
    assert_eq!(
        fit(&mut story, 13, 3, viewport(20, 90)),
        "fit p1 19x90, answer 13"
    );
    assert_eq!(fit(&mut story, 14, 3, viewport(20, 90)), "answer 14");
    assert_eq!(lies(&mut story, 15, 0).1, ["p1 0,0 20x90"]);
    // One leaves, by whatever way.
    assert_eq!(
        story.step(CoreInput::Cancelled { call: CallId(12) }),
        "fit p1 29x100"
    );
    assert_eq!(fit(&mut story, 16, 3, viewport(9, 9)), "refuse 16 NotFound");
    // The last one leaves: nobody's screen is a reason to change anything.
    assert_eq!(story.step(CoreInput::Cancelled { call: CallId(10) }), "");
    assert_eq!(lies(&mut story, 17, 0).1, ["p1 0,0 30x100"]);
    story.fact(1, PaneEvent::Resized(viewport(29, 100)));
    assert_eq!(
        attend(
            &mut story,
            18,
            4,
            viewport(30, 100),
            ViewerRole::Interactive
        ),
        ""
    );
}

#[test]
fn a_session_that_nobody_looks_at_is_left_alone() {
    let mut story = story();
    pane(&mut story, 1);
    made(
        &mut story,
        2,
        json!({"command": "claude", "session": "other"}),
    );
    assert_eq!(
        attend(
            &mut story,
            10,
            1,
            viewport(30, 100),
            ViewerRole::Interactive
        ),
        "fit p1 29x100"
    );
    // The same client looks elsewhere.
    let elsewhere = AttachRequest::JoinSession {
        client: ClientId(1),
        session: SessionName("other".into()),
        viewport: viewport(10, 50),
        role: ViewerRole::Interactive,
    };
    assert_eq!(
        look(&mut story, 11, elsewhere),
        "fit p2 9x50, answer 10",
        "and the older call is over"
    );
    assert_eq!(
        pane(&mut story, 3),
        "commit 1, answer 3 p3 ready=true",
        "a pane in the first session keeps its size"
    );
}

#[test]
fn a_pane_of_tmux_has_a_place_and_keeps_its_size() {
    let mut story = story();
    let request = ToolCall::parse("create_pane", json!({"command": "top"})).unwrap();
    story.ask(1, 1, "", request);
    let tmux = crate::TmuxPane {
        socket: "/tmp/tmux".into(),
        server: 7,
        id: "%1".into(),
        origin: crate::TmuxOrigin::Found,
    };
    story.fact(
        1,
        PaneEvent::Opened {
            pid: 7,
            cursor: crate::view::start(),
            tmux: Some(tmux),
        },
    );
    assert_eq!(
        attend(
            &mut story,
            10,
            1,
            viewport(30, 100),
            ViewerRole::Interactive
        ),
        ""
    );
    assert_eq!(lies(&mut story, 11, 0).1, ["p1 0,0 30x100"]);
}

#[test]
fn panes_come_and_go_and_whoever_waits_is_told() {
    let mut story = story();
    made(&mut story, 1, json!({}));
    attend(&mut story, 10, 1, viewport(24, 80), ViewerRole::Interactive);
    let (version, _) = lies(&mut story, 11, 0);
    let session = main();
    let wait = AttachRequest::GetLayout {
        session,
        seen: version,
    };
    assert_eq!(look(&mut story, 12, wait), "");
    assert_eq!(
        pane(&mut story, 2),
        "fit p1 11x80, fit p2 11x80, commit 1, answer 2 p2 ready=true, answer 12"
    );
    let (second, tiles) = told(&story, 12);
    assert_eq!(tiles, ["p1 0,0 12x80", "p2 12,0 12x80"]);
    assert!(second > version);
    // A command that has ended stays to be read, a shell does not.
    assert_eq!(story.fact(2, exited(1)), "commit 1");
    assert_eq!(lies(&mut story, 13, version).1.len(), 2);
    let close = json!({"pane_id": "p2"});
    story.ask(3, 3, "", ToolCall::parse("close_pane", close).unwrap());
    assert_eq!(
        story.fact(2, PaneEvent::Swept),
        "closed 3 Some(1), fit p1 23x80, commit 1"
    );
    assert_eq!(
        story.fact(1, exited(0)),
        "commit 1, answer 10",
        "and nothing is left to look at"
    );
    assert_eq!(told(&story, 10).1, Vec::<String>::new());
    // Nor is there for whoever comes now.
    assert_eq!(
        attend(&mut story, 14, 1, viewport(24, 80), ViewerRole::Interactive),
        "answer 14"
    );
}

#[test]
fn what_a_person_arranged_is_kept_when_panes_come_and_go() {
    let mut story = story();
    pane(&mut story, 1);
    attend(&mut story, 10, 1, viewport(24, 81), ViewerRole::Interactive);
    assert_eq!(
        arrange(
            &mut story,
            11,
            LayoutChange::Split {
                made_by: IdempotencyKey([2; 16]),
                of: PaneId(1),
                side: SplitSide::Right
            }
        ),
        "commit 1, answer 11"
    );
    pane(&mut story, 2);
    assert_eq!(lies(&mut story, 12, 0).1, ["p1 0,0 24x40", "p2 0,41 24x40"]);
    arrange(
        &mut story,
        13,
        LayoutChange::MoveEdge {
            pane: PaneId(2),
            side: SplitSide::Left,
            by: 20,
        },
    );
    // A new one gets half of the largest.
    pane(&mut story, 3);
    assert_eq!(
        lies(&mut story, 14, 0).1,
        ["p1 0,0 24x20", "p2 0,21 12x60", "p3 12,21 12x60"]
    );
    arrange(
        &mut story,
        15,
        LayoutChange::Swap {
            one: PaneId(1),
            other: PaneId(3),
        },
    );
    let arranged = ["p3 0,0 24x20", "p2 0,21 12x60", "p1 12,21 12x60"];
    assert_eq!(lies(&mut story, 16, 0).1, arranged);
    // A daemon's death changes nothing of that.
    let (version, _) = lies(&mut story, 17, 0);
    story.restart();
    attend(&mut story, 20, 1, viewport(24, 81), ViewerRole::Interactive);
    assert_eq!(lies(&mut story, 21, version).1, arranged);
    story.fact(2, exited(0));
    let close = json!({"pane_id": "p2"});
    story.ask(22, 22, "", ToolCall::parse("close_pane", close).unwrap());
    story.fact(2, PaneEvent::Swept);
    assert_eq!(lies(&mut story, 23, 0).1, ["p3 0,0 24x20", "p1 0,21 24x60"]);
    arrange(&mut story, 24, LayoutChange::Tiled);
    assert_eq!(lies(&mut story, 25, 0).1, ["p1 0,0 24x40", "p3 0,41 24x40"]);
    assert!(story.disk().layouts.is_empty());
}

#[test]
fn one_pane_may_have_all_the_room() {
    let mut story = story();
    pane(&mut story, 1);
    pane(&mut story, 2);
    attend(&mut story, 10, 1, viewport(24, 80), ViewerRole::Interactive);
    let zoom = |pane: Option<u64>| LayoutChange::Zoom {
        pane: pane.map(PaneId),
    };
    assert_eq!(
        arrange(&mut story, 11, zoom(Some(2))),
        "fit p2 23x80, commit 1, answer 11"
    );
    assert_eq!(lies(&mut story, 12, 0).1, ["p2 0,0 24x80"]);
    // One that comes meanwhile waits for its place.
    assert_eq!(pane(&mut story, 3), "commit 1, answer 3 p3 ready=true");
    story.restart();
    attend(&mut story, 20, 1, viewport(24, 80), ViewerRole::Interactive);
    assert_eq!(lies(&mut story, 21, 0).1, ["p2 0,0 24x80"]);
    assert_eq!(arrange(&mut story, 22, zoom(Some(9))), "refuse 22 NotFound");
    arrange(&mut story, 23, zoom(None));
    assert_eq!(lies(&mut story, 24, 0).1.len(), 3);
    arrange(&mut story, 25, zoom(Some(2)));
    story.fact(2, exited(0));
    assert_eq!(
        lies(&mut story, 26, 0).1,
        ["p2 0,0 24x80"],
        "a command's last words too"
    );
}

#[test]
fn changes_that_make_no_sense_change_nothing() {
    let mut story = story();
    pane(&mut story, 1);
    let push = LayoutChange::MoveEdge {
        pane: PaneId(1),
        side: SplitSide::Left,
        by: 3,
    };
    assert_eq!(arrange(&mut story, 8, push), "refuse 8 InvalidArgument");
    let swap = LayoutChange::Swap {
        one: PaneId(1),
        other: PaneId(7),
    };
    assert_eq!(arrange(&mut story, 9, swap), "refuse 9 NotFound");
    assert!(story.disk().layouts.is_empty());
    assert_eq!(pane(&mut story, 2), "commit 1, answer 2 p2 ready=true");
    assert!(story.disk().layouts.is_empty());
}

#[test]
fn news_is_when_a_row_has_changed() {
    let mut story = story();
    let news = |story: &mut Story, call: u64, seen: u64| {
        look(story, call, AttachRequest::WatchOverview { seen })
    };
    assert_eq!(news(&mut story, 1, 99), "answer 1");
    let version = |story: &Story, call: u64| {
        story.told(call)["attach"]["response"]["overview"]["version"]
            .as_u64()
            .unwrap()
    };
    let first = version(&story, 1);
    assert_eq!(news(&mut story, 2, first), "");
    let request = ToolCall::parse("create_pane", json!({"command": "make"})).unwrap();
    assert_eq!(story.ask(3, 3, "", request), "commit 2, open p1, answer 2");
    let seen = version(&story, 2);
    assert_eq!(news(&mut story, 4, seen), "");
    assert_eq!(
        story.fact(1, opened()),
        "commit 1, answer 3 p1 ready=true, answer 4"
    );
    let seen = version(&story, 4);
    assert_eq!(news(&mut story, 5, seen), "");
    // A size is in no row.
    assert_eq!(
        story.fact(1, PaneEvent::Resized(viewport(9, 9))),
        "commit 1"
    );
    assert_eq!(story.fact(1, exited(0)), "commit 1, answer 5");
    let seen = version(&story, 5);
    assert_eq!(news(&mut story, 6, seen), "");
    assert_eq!(story.step(CoreInput::Cancelled { call: CallId(6) }), "");
    // A later daemon's versions are later ones.
    let seen = version(&story, 5);
    story.restart();
    assert_eq!(news(&mut story, 7, seen), "answer 7");
    assert!(version(&story, 7) > seen);
}

#[test]
fn those_who_look_see_at_once_that_an_agent_asks() {
    let mut story = story();
    let spawn = json!({"name": "w", "prompt": "work", "agent": "a", "layout": "tiled"});
    story.speaks(CallerIdentity::Session { id: "lead".into() });
    story.ask(1, 1, "", ToolCall::parse("spawn_worker", spawn).unwrap());
    let prepared = crate::WorkerLaunch {
        argv: vec!["a".into()],
        env: std::collections::BTreeMap::new(),
        cwd: "/".into(),
        branch: None,
        hooks: true,
        repo: None,
        note: None,
    };
    story.step(CoreInput::WorkerPrepared {
        worker: 1,
        outcome: Ok(prepared),
    });
    story.fact(1, opened());
    attend(&mut story, 10, 1, viewport(24, 80), ViewerRole::Interactive);
    story.speaks(CallerIdentity::Worker {
        session: "lead".into(),
        agent: "w-a".into(),
        pane: Some(PaneId(1)),
    });
    let needs = HookReport::NeedsInput {
        prompt: "rm x?".into(),
        kind: AttentionKind::Permission,
    };
    let said = story.ask_for(11, Request::Hook { report: needs });
    assert!(said.starts_with("p1 says \"rm x?\""), "{said}");
    let report = HookReport::InputNoLongerNeeded;
    let said = story.ask_for(12, Request::Hook { report });
    assert!(said.starts_with("p1 says nothing"), "{said}");
}

#[derive(Clone, Debug)]
enum Deed {
    Make,
    End(u64),
    Close(u64),
    Attend(u64, u16, u16, bool),
    Leave(u64),
    Fit(u64, u16, u16),
    Beside(u64),
    Push(u64, i16),
    Swap(u64, u64),
    Zoom(Option<u64>),
    Tiled,
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    let pane = || 1u64..6;
    let client = || 1u64..4;
    prop_oneof![
        4 => Just(Deed::Make),
        2 => pane().prop_map(Deed::End),
        2 => pane().prop_map(Deed::Close),
        4 => (client(), 0u16..50, 0u16..150, any::<bool>())
            .prop_map(|(client, rows, cols, hands)| Deed::Attend(client, rows, cols, hands)),
        2 => client().prop_map(Deed::Leave),
        2 => (client(), 0u16..50, 0u16..150).prop_map(|(client, rows, cols)| Deed::Fit(client, rows, cols)),
        2 => pane().prop_map(Deed::Beside),
        2 => (pane(), -20i16..20).prop_map(|(pane, by)| Deed::Push(pane, by)),
        1 => (pane(), pane()).prop_map(|(one, other)| Deed::Swap(one, other)),
        1 => proptest::option::of(pane()).prop_map(Deed::Zoom),
        1 => Just(Deed::Tiled),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #[test]
    fn whatever_people_and_panes_do_the_room_is_filled_and_told(deeds in vec(deed(), 1..40)) {
        let mut story = story();
        let mut call = 1000;
        let mut made = 0;
        let mut attending = std::collections::HashMap::new();
        // What was told last of it, and the question that waits for what comes next.
        let mut waits: Option<(u64, u64, Vec<String>)> = None;
        for deed in deeds {
            call += 10;
            match deed {
                Deed::Make => {
                    made += 1;
                    pane(&mut story, made);
                }
                Deed::End(pane) if pane <= made => _ = story.fact(pane, exited(0)),
                Deed::Close(pane) if pane <= made => {
                    let close = json!({"pane_id": format!("p{pane}")});
                    story.ask(call, 200, "", ToolCall::parse("close_pane", close).unwrap());
                    story.fact(pane, exited(0));
                    story.fact(pane, PaneEvent::Swept);
                }
                Deed::Attend(client, rows, cols, hands) => {
                    let role = if hands { ViewerRole::Interactive } else { ViewerRole::ReadOnly };
                    attend(&mut story, call, client, viewport(rows, cols), role);
                    attending.insert(client, call);
                }
                Deed::Leave(client) => {
                    if let Some(gone) = attending.remove(&client) {
                        story.step(CoreInput::Cancelled { call: CallId(gone) });
                    }
                }
                Deed::Fit(client, rows, cols) => _ = fit(&mut story, call, client, viewport(rows, cols)),
                Deed::Beside(of) => {
                    let made_by = IdempotencyKey([made as u8 + 1; 16]);
                    let (of, side) = (PaneId(of), SplitSide::Left);
                    arrange(&mut story, call, LayoutChange::Split { made_by, of, side });
                }
                Deed::Push(pane, by) => {
                    let (pane, side) = (PaneId(pane), SplitSide::Right);
                    arrange(&mut story, call, LayoutChange::MoveEdge { pane, side, by });
                }
                Deed::Swap(one, other) => {
                    let (one, other) = (PaneId(one), PaneId(other));
                    arrange(&mut story, call, LayoutChange::Swap { one, other });
                }
                Deed::Zoom(pane) => {
                    let pane = pane.map(PaneId);
                    arrange(&mut story, call, LayoutChange::Zoom { pane });
                }
                Deed::Tiled => _ = arrange(&mut story, call, LayoutChange::Tiled),
                Deed::Restart => {
                    story.restart();
                    attending.clear();
                    waits = None;
                }
                Deed::End(_) | Deed::Close(_) => {}
            }
            let (version, tiles) = lies(&mut story, call + 1, 0);
            if let Some((question, seen, before)) = waits.take() {
                // Whoever waited was told if and only if something is otherwise.
                let told = story.was_told(question);
                prop_assert_eq!(told, version != seen);
                prop_assert!(told || tiles == before);
            }
            let arrangement = &story.told(call + 1)["attach"]["response"]["layout"]["layout"];
            let arrangement: SessionLayout = serde_json::from_value(arrangement.clone()).unwrap();
            if !arrangement.tiles.is_empty() {
                check_filled(&arrangement.tiles, arrangement.viewport);
            }
            let session = main();
            let wait = AttachRequest::GetLayout { session, seen: version };
            look(&mut story, call + 2, wait);
            waits = Some((call + 2, version, tiles));
        }
    }
}
