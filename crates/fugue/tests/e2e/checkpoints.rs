//! Damaged checkpoints: the next daemon reads the log from an earlier point, and shows what the programs printed.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use fugue_api::PaneId;
use fugue_testkit::TestEnv;

/// Draws a heading once, and then some megabytes of a counter below it, so that the heading is in every checkpoint and only
/// at the beginning of the log. `HEADING` is replaced.
const DRAW: &str = r#"awk -v heading="HEADING" 'BEGIN {
    printf "\033[2J\033[H%s", heading
    for (i = 1; i <= 200000; i++) printf "\033[5;1Hcount %07d\033[K", i
    print ""
}'"#;

fn checkpoints(test_env: &TestEnv, pane: PaneId) -> Vec<PathBuf> {
    let dir = test_env.state().join(format!("panes/{pane}"));
    let names = fs::read_dir(dir).expect("its directory").flatten();
    let paths = names.map(|entry| entry.path());
    let mut found: Vec<_> = paths
        .filter(|path| path.to_string_lossy().contains("/check.0"))
        .collect();
    found.sort();
    found
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into()
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A letter of the heading becomes another letter.
    FlippedBit,
    Truncated,
    Empty,
    /// The checkpoint of another pane, at the same offset where there is one.
    Replaced,
}

fn damage(test_env: &TestEnv, pane: PaneId, heading: &str, how: Damage, other: PaneId) {
    let others: BTreeMap<_, _> = checkpoints(test_env, other)
        .into_iter()
        .map(|path| (file_name(&path), path))
        .collect();
    let ours = checkpoints(test_env, pane);
    assert!(ours.len() >= 3, "{ours:?}");
    for path in ours {
        let mut bytes = fs::read(&path).expect("a checkpoint");
        match how {
            Damage::FlippedBit => {
                let mut windows = bytes.windows(heading.len());
                let at = windows.position(|text| text == heading.as_bytes());
                bytes[at.expect("the heading")] ^= 1;
            }
            Damage::Truncated => bytes.truncate(bytes.len() / 2),
            Damage::Empty => bytes.clear(),
            Damage::Replaced => {
                let other = others.get(&file_name(&path)).or(others.values().next());
                bytes = fs::read(other.expect("a checkpoint")).expect("a checkpoint");
            }
        }
        fs::write(&path, bytes).expect("a checkpoint");
    }
}

#[test]
fn a_damaged_checkpoint_shows_in_no_reply() {
    let test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300));
    let other = test_env
        .pane(&DRAW.replace("HEADING", "another heading"))
        .pane_id;
    test_env.exited(other);
    for how in [
        Damage::FlippedBit,
        Damage::Truncated,
        Damage::Empty,
        Damage::Replaced,
    ] {
        let heading = "the heading of this screen";
        let draw = DRAW.replace("HEADING", heading);
        let ended = test_env.pane(&draw).pane_id;
        let live = test_env.pane(&format!("{draw}; exec cat")).pane_id;
        test_env.exited(ended);
        test_env.until_printed(live, |text| text.contains("count 0200000"));
        let read = |pane: PaneId| {
            [&["--screen"][..], &["-n", "100"]].map(|args| {
                let reply = test_env.read(pane, args);
                (reply.text, reply.cursor)
            })
        };
        let before = [ended, live].map(read);
        for reply in before.iter().flatten() {
            assert!(reply.0.contains(heading), "{how:?}: {}", reply.0);
        }
        test_env.kill_daemon();
        for pane in [ended, live] {
            damage(&test_env, pane, heading, how, other);
        }
        test_env.fugue(&["daemon", "start"]).ok();
        assert_eq!([ended, live].map(read), before, "{how:?}");
        test_env.type_line(live, "typed");
        test_env.until_printed(live, |text| text.matches("typed").count() == 2);
        test_env.close(live);
    }
}
