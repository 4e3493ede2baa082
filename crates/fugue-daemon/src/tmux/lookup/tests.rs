use super::*;
use crate::tmux::testing::PrivateTmux;

#[test]
fn a_pane_is_found_by_every_kind_of_target_and_never_another_one_instead() {
    let tmux = PrivateTmux::start();
    tmux.ask(&["new-window", "-d", "-t", "main:", "-n", "two words", "cat"]);
    tmux.ask(&["split-window", "-d", "-t", "main:two words", "cat"]);
    for (target, id) in [
        ("%0", "%0"),
        ("main", "%0"),
        ("main:cats", "%0"),
        ("cats", "%0"),
        ("main:1", "%1"),
        ("main:two words", "%1"),
        ("main:1.1", "%2"),
        ("@1", "%1"),
    ] {
        let found = find(target, &tmux.caller).unwrap();
        assert_eq!(found.pane.id, id, "{target}");
        assert_eq!(found.pane.origin, TmuxOrigin::Found);
        assert_eq!(
            (found.session.as_str(), found.command.as_str()),
            ("main", "cat")
        );
        assert!(found.pid > 0 && found.pane.server > 0 && found.size.cols > 0);
    }
    for absent in ["%9", "main:7", "main:0.4", "nobody:0", "nobody", "$9", "@9"] {
        let error = find(absent, &tmux.caller).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{absent}");
        assert!(error.message.contains(absent), "{}", error.message);
        let hint = error.hint.unwrap();
        assert!(hint.contains("%2 (`main:1.1`: cat)"), "{hint}");
    }
}

#[test]
fn an_overview_has_each_living_pane_once_and_starts_no_server() {
    let tmux = PrivateTmux::absent();
    assert_eq!(list(&tmux.caller), []);
    assert_eq!(
        find("%0", &tmux.caller).unwrap_err().kind,
        ErrorKind::NotFound
    );
    assert!(!tmux.socket().exists());

    let tmux = PrivateTmux::start();
    tmux.ask(&["new-session", "-d", "-s", "other", "cat"]);
    tmux.ask(&["link-window", "-s", "main:cats", "-t", "other:5"]);
    let ids: Vec<String> = list(&tmux.caller)
        .into_iter()
        .map(|found| found.pane.id)
        .collect();
    assert_eq!(ids, ["%0", "%1"]);
}

#[test]
fn a_new_pane_goes_beside_its_caller_only_where_that_one_sits_in_tmux() {
    let mut tmux = PrivateTmux::start();
    let apart = find_placement(&tmux.caller, PlacementRequest::Beside, "a.b:c").unwrap();
    let window = TmuxOrigin::Window {
        session: "a_b_c".into(),
    };
    assert_eq!(apart.origin, window);
    tmux.set("TMUX_PANE", "%0");
    let beside = find_placement(&tmux.caller, PlacementRequest::Beside, "x").unwrap();
    let split = TmuxOrigin::Split {
        beside: "%0".into(),
        session: beside.session().unwrap_or_default().to_owned(),
    };
    assert_eq!(
        (beside.origin, beside.server, beside.id.as_str()),
        (split, 0, "")
    );
    tmux.set("TMUX_PANE", "%77");
    let stale = find_placement(&tmux.caller, PlacementRequest::Beside, "x").unwrap();
    assert!(matches!(stale.origin, TmuxOrigin::Window { .. }));
}

#[test]
fn a_server_that_hangs_is_given_up_on() {
    let tmux = PrivateTmux::start();
    let pid: i32 = tmux
        .ask(&["display-message", "-p", "#{pid}"])
        .parse()
        .unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let error = find("%0", &tmux.caller).unwrap_err();
    let nothing = list(&tmux.caller);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(error.message.contains("does not answer"), "{error:?}");
    assert_eq!(nothing, []);
}

#[test]
fn no_tmux_is_said_and_an_old_one_too() {
    let mut tmux = PrivateTmux::start();
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("tmux");
    std::fs::write(&old, "#!/bin/sh\necho tmux 2.9a\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&old, mode).unwrap();
    tmux.set("PATH", dir.path().to_str().unwrap());
    let error = find_placement(&tmux.caller, PlacementRequest::Apart, "x").unwrap_err();
    assert!(error.message.contains("tmux 2.9a"), "{}", error.message);
    assert!(error.hint.unwrap().contains("3.3"));
}
