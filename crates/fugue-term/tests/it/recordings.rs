//! Recorded output of real programs and the expected screens: `recordings/NAME/{bytes,size,screen,resizes}`.
//!
//! `scripts/record` makes the recordings; `FUGUE_BLESS=1` writes the screens, which are reviewed before being
//! committed.

use crate::recording::{Recording, all};

#[test]
fn recordings_give_the_reviewed_screens() {
    let all = all();
    assert!(all.len() >= 6, "the recordings are gone");
    for recording in all {
        let seen = recording.play(|bytes| vec![bytes.to_vec()]);
        if std::env::var_os("FUGUE_BLESS").is_some() {
            std::fs::write(recording.folder.join("screen"), &seen).unwrap();
        }
        let expected = std::fs::read_to_string(recording.folder.join("screen")).unwrap();
        assert_eq!(expected, seen, "{}", recording.name);
    }
}

#[test]
fn recordings_do_not_depend_on_the_split() {
    for recording in all() {
        let whole = recording.play(|bytes| vec![bytes.to_vec()]);
        for size in [1, 2, 3, 7, 61, 4096] {
            let cut = recording.play(|bytes| bytes.chunks(size).map(<[u8]>::to_vec).collect());
            assert_eq!(whole, cut, "{} in pieces of {size}", recording.name);
        }
    }
}

#[test]
fn recordings_survive_a_restart_at_any_point() {
    for recording in all() {
        let whole = recording.play(|bytes| vec![bytes.to_vec()]);
        let restarted = recording.play_with_restarts(97);
        assert_eq!(whole, restarted, "{}", recording.name);
    }
}

#[test]
fn a_progress_bar_is_one_line_of_text() {
    let text = Recording::named("progress").text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "download [#########################] 100%");
    assert_eq!(text.matches("download").count(), 1);
    // The progress bar of the build is gone, the lines above are still present.
    assert_eq!(text.matches("Compiling").count(), 12);
    assert_eq!(text.matches("Building").count(), 0);
    assert!(text.contains("100/100 MB"), "{text}");
    assert_eq!(text.matches("/100 MB").count(), 1);
    assert_eq!(text.matches("Unpacking package-").count(), 30, "{text}");
}

#[test]
fn full_screen_programs_leave_no_text() {
    for name in ["vim", "htop"] {
        assert_eq!(Recording::named(name).text(), "", "{name}");
    }
}
