use super::*;
use crate::tmux::testing::PrivateTmux;

fn order<'a>(wanted: &'a TmuxPane, argv: &'a [OsString]) -> PlacementOrder<'a> {
    PlacementOrder {
        wanted,
        name: "a task;",
        size: PaneSize {
            rows: 40,
            cols: 120,
        },
        argv,
    }
}

fn wanted(tmux: &PrivateTmux, origin: TmuxOrigin) -> TmuxPane {
    TmuxPane {
        socket: tmux.socket().to_string_lossy().into_owned(),
        server: 0,
        id: String::new(),
        origin,
    }
}

fn cat() -> Vec<OsString> {
    vec!["cat".into(), "-".into()]
}

/// Each pane's place, by id.
fn places(tmux: &PrivateTmux, target: &str) -> Vec<(String, u32, u32)> {
    let said = tmux.ask(&[
        "list-panes",
        "-t",
        target,
        "-F",
        "#{pane_id} #{pane_width} #{pane_height}",
    ]);
    said.lines()
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            (
                parts[0].into(),
                parts[1].parse().unwrap(),
                parts[2].parse().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_window_is_made_in_a_session_that_may_have_to_be_made_too() {
    let tmux = PrivateTmux::absent();
    let origin = TmuxOrigin::Window {
        session: "work;".into(),
    };
    let wanted = wanted(&tmux, origin);
    let argv = cat();
    let first = make(&tmux.server, &order(&wanted, &argv)).unwrap();
    let second = make(&tmux.server, &order(&wanted, &argv)).unwrap();
    assert_eq!(
        (first.pane.id.as_str(), second.pane.id.as_str()),
        ("%0", "%1")
    );
    assert_eq!(first.pane.server, second.pane.server);
    assert!(
        first
            .variable
            .starts_with(&format!("{},{},", wanted.socket, first.pane.server))
    );
    assert!(first.term.contains("256color"), "{}", first.term);
    let names = tmux.ask(&[
        "list-panes",
        "-a",
        "-F",
        "#{session_name} #{window_name} #{pane_width}x#{pane_height}",
    ]);
    assert_eq!(names, "work; a task; 120x40\nwork; a task; 120x40");

    keep(&tmux.server, &first.pane, "p1 a;").unwrap();
    assert_eq!(
        tmux.ask(&["show-options", "-pv", "-t", "%0", "@fugue"]),
        "p1 a;"
    );
    assert_eq!(
        tmux.ask(&["show-options", "-pv", "-t", "%0", "remain-on-exit"]),
        "on"
    );
    assert_eq!(
        tmux.ask(&["show-options", "-pqv", "-t", "%1", "remain-on-exit"]),
        ""
    );

    // Another server's pane of that number is nobody's to remove.
    let other = TmuxPane {
        server: 1,
        ..first.pane.clone()
    };
    remove(&other);
    assert_eq!(places(&tmux, "%0").len(), 1);
    remove(&first.pane);
    assert_eq!(tmux.ask(&["list-panes", "-a", "-F", "#{pane_id}"]), "%1");
}

#[test]
fn ten_panes_beside_one_have_even_shares_of_its_half_and_all_others_keep_their_places() {
    for (first, second) in [("-h", "-v"), ("-v", "-h")] {
        beside_one_of_three(first, second);
    }
}

fn beside_one_of_three(first: &str, second: &str) {
    let tmux = PrivateTmux::start();
    // A person's window: the caller, and two beside or below it.
    tmux.ask(&["split-window", first, "-d", "-t", "%0", "-l", "25%", "cat"]);
    tmux.ask(&["split-window", second, "-d", "-t", "%1", "cat"]);
    tmux.ask(&["select-pane", "-t", "%2"]);
    let before = places(&tmux, "main:0");
    let own = before[0].clone();
    let wanted = wanted(
        &tmux,
        TmuxOrigin::Split {
            beside: "%0".into(),
            session: "main".into(),
        },
    );
    let argv = cat();
    let mut made = Vec::new();
    for count in 1..=10 {
        made.push(make(&tmux.server, &order(&wanted, &argv)).unwrap().pane);
        let now = places(&tmux, "main:0");
        assert_eq!(now.len(), 3 + count);
        let ours: Vec<_> = now
            .iter()
            .filter(|(id, ..)| made.iter().any(|pane| pane.id == *id))
            .collect();
        let areas: Vec<u32> = ours
            .iter()
            .map(|(_, cols, rows)| (cols + 1) * (rows + 1))
            .collect();
        let (least, most) = (areas.iter().min().unwrap(), areas.iter().max().unwrap());
        assert!(most * 10 <= least * 21, "{count}: {ours:?}");
        for person in &before[1..] {
            assert!(now.contains(person), "{count}: {person:?} in {now:?}");
        }
        let caller = now.iter().find(|(id, ..)| id == "%0").unwrap();
        assert!(caller.1 * 2 + 2 >= own.1, "{caller:?} of {own:?}");
        assert_eq!(caller.2, own.2);
    }
    assert_eq!(
        tmux.ask(&["display-message", "-p", "-t", "main:0", "#{pane_id}"]),
        "%2"
    );
    assert_eq!(
        tmux.ask(&["list-windows", "-t", "main", "-F", "#{window_index}"]),
        "0"
    );
    for pane in &made {
        remove(pane);
    }
    assert_eq!(places(&tmux, "main:0"), before);
}

#[test]
fn a_pane_that_has_no_room_gets_a_window_of_its_own() {
    let tmux = PrivateTmux::start();
    tmux.ask(&["resize-window", "-t", "main:0", "-x", "30", "-y", "6"]);
    let wanted = wanted(
        &tmux,
        TmuxOrigin::Split {
            beside: "%0".into(),
            session: "main".into(),
        },
    );
    let argv = cat();
    make(&tmux.server, &order(&wanted, &argv)).unwrap();
    assert_eq!(places(&tmux, "main:0").len(), 1);
    assert_eq!(
        tmux.ask(&[
            "list-windows",
            "-t",
            "main",
            "-F",
            "#{window_name} #{window_active}"
        ]),
        "cats 1\na task; 0"
    );
}

#[test]
fn a_process_is_made_anew_in_its_own_pane_and_never_in_somebody_elses() {
    let tmux = PrivateTmux::start();
    let origin = TmuxOrigin::Window {
        session: "main".into(),
    };
    let (wanted, argv) = (wanted(&tmux, origin), cat());
    let made = make(&tmux.server, &order(&wanted, &argv)).unwrap().pane;
    let again = make(&tmux.server, &order(&made, &argv)).unwrap().pane;
    assert_eq!(again, made);
    // The person's own `cat`, if the number were all that counts.
    let stale = TmuxPane {
        server: 1,
        id: "%0".into(),
        ..made.clone()
    };
    let pid = || tmux.ask(&["display-message", "-p", "-t", "%0", "#{pane_pid}"]);
    let before = pid();
    let fresh = make(&tmux.server, &order(&stale, &argv)).unwrap().pane;
    assert_ne!(fresh.id, "%0");
    assert!(resize(&stale, order(&made, &argv).size).is_err());
    remove(&stale);
    assert_eq!(pid(), before);
}

#[test]
fn a_name_is_never_taken_for_a_format() {
    let dir = tempfile::tempdir().unwrap();
    let mark = |name: &str| dir.path().join(name).display().to_string();
    let names = [
        format!("#(touch {})", mark("name")),
        format!("}}#(touch {});", mark("closed")),
        "#{pid} #S ##S ###S #,#}#{l:x}".to_owned(),
        "#[fg=red]a##[b]###[c]#".to_owned(),
        "%H#".to_owned(),
        "-x".to_owned(),
    ];
    for name in &names {
        // In a session that is made for it, in one that is there, and where a pane beside another has no room.
        let tmux = PrivateTmux::absent();
        let session = format!("s{}", name.replace([':', '.'], "_"));
        let origin = TmuxOrigin::Window {
            session: session.clone(),
        };
        let window = wanted(&tmux, origin);
        let argv = cat();
        let named = |wanted| PlacementOrder {
            name,
            ..order(wanted, &argv)
        };
        let made = make(&tmux.server, &named(&window)).unwrap();
        make(&tmux.server, &named(&window)).unwrap();
        tmux.ask(&["resize-window", "-t", &made.pane.id, "-x", "10", "-y", "3"]);
        let beside = TmuxOrigin::Split {
            beside: made.pane.id.clone(),
            session: session.clone(),
        };
        make(&tmux.server, &named(&wanted(&tmux, beside))).unwrap();
        let said = tmux.ask(&[
            "list-windows",
            "-a",
            "-F",
            "#{session_name}\t#{window_name}",
        ]);
        let row = format!("{session}\t{name}");
        assert_eq!(said.lines().collect::<Vec<_>>(), [&*row; 3]);
        // A command that tmux starts later than any of theirs has run.
        let last = mark("last");
        tmux.ask(&["run-shell", &format!("touch {last}")]);
        let left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["last"], "{name}");
    }
}
