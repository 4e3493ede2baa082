//! Properties that hold for any bytes, split anywhere, with resizes in between.

use std::collections::HashMap;

use crate::common::{
    Step, fragment, lines, options, play, script, single_bytes, size, visible_state, whole,
};
use fugue_term::{Terminal, TextCursor};
use proptest::prelude::*;

/// Enough to meet each pair of fragments many times; `PROPTEST_CASES` and the fuzz target go further.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(1500),
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_state_does_not_depend_on_the_split(size in size(), script in script(), cuts in prop::collection::vec(1usize..7, 1..9)) {
        let expected = play(&mut Terminal::new(size, options()), &script, whole);
        let bytewise = play(&mut Terminal::new(size, options()), &script, single_bytes);
        prop_assert_eq!(&expected, &bytewise);
        let mut sizes = cuts.iter().cycle();
        let cut = |mut bytes: &[u8]| {
            let mut parts = Vec::new();
            while !bytes.is_empty() {
                let (part, rest) = bytes.split_at(sizes.next().map_or(1, |n| (*n).min(bytes.len())));
                parts.push(part.to_vec());
                bytes = rest;
            }
            parts
        };
        let cut = play(&mut Terminal::new(size, options()), &script, cut);
        prop_assert_eq!(&expected, &cut);
    }

    #[test]
    fn equal_row_hashes_mean_equal_rows(size in size(), script in script()) {
        let mut asked = Terminal::new(size, options());
        let mut seen: HashMap<u64, Vec<String>> = HashMap::new();
        for step in &script {
            play(&mut asked, std::slice::from_ref(step), whole);
            // Equal hashes mean equal looks, however the row was written.
            for (row, number) in asked.screen().row_hashes().enumerate() {
                let look = asked.screen().cells(row).map(|cell| format!("{cell:?}")).collect();
                prop_assert_eq!(seen.entry(number).or_insert_with(|| Vec::clone(&look)), &look);
            }
        }
        // The hash is the same in a terminal that never computed hashes before.
        let mut fresh = Terminal::new(size, options());
        play(&mut fresh, &script, whole);
        prop_assert!(asked.screen().row_hashes().eq(fresh.screen().row_hashes()));
    }

    #[test]
    fn a_dump_paints_an_equal_terminal(size in size(), script in script(), tail in prop::collection::vec(fragment(), 0..6)) {
        let mut terminal = Terminal::new(size, options());
        play(&mut terminal, &script, whole);
        // A dump has no partial sequence and does not include the last printed character.
        terminal.feed(b"\x18\x1b\\");
        let mut copy = Terminal::new(terminal.size(), options());
        copy.feed(&terminal.dump());
        let text = |terminal: &Terminal| String::from_utf8_lossy(&terminal.dump()).into_owned();
        prop_assert_eq!(text(&terminal), text(&copy));
        let rows = |terminal: &Terminal| terminal.screen().rows().collect::<Vec<_>>();
        prop_assert_eq!(rows(&terminal), rows(&copy));
        prop_assert_eq!(terminal.screen().cursor(), copy.screen().cursor());
        prop_assert_eq!(terminal.modes(), copy.modes());
        prop_assert_eq!(terminal.title(), copy.title());
        // The copy continues as the original does.
        terminal.feed(&tail.concat());
        copy.feed(&tail.concat());
        prop_assert_eq!(rows(&terminal), rows(&copy));
        prop_assert_eq!(text(&terminal), text(&copy));
    }

    #[test]
    fn a_restored_terminal_continues_like_the_original(size in size(), before in script(), after in script()) {
        let mut first = Terminal::new(size, options());
        play(&mut first, &before, whole);
        let Some(saved) = first.save() else { return Ok(()) };
        let mut second = Terminal::load(&saved, options()).expect("a saved checkpoint loads");
        prop_assert_eq!(Some(saved), second.save());
        prop_assert_eq!(first.end(), second.end());
        let kept = second.end().line;
        let (first, second) = (play(&mut first, &after, whole), play(&mut second, &after, whole));
        prop_assert_eq!(&first.facts, &second.facts);
        prop_assert_eq!(&first.ends, &second.ends);
        prop_assert_eq!(&first.screen, &second.screen);
        prop_assert_eq!(&first.saved, &second.saved);
        let new = |lines: &[(u64, String, bool)]| lines.iter().filter(|line| line.0 >= kept.0).cloned().collect::<Vec<_>>();
        prop_assert_eq!(new(&first.lines), new(&second.lines));
        for (first, second) in first.since.iter().zip(&second.since) {
            prop_assert_eq!(new(first), new(second));
        }
    }

    #[test]
    fn cursors_only_grow(size in size(), script in script()) {
        let mut terminal = Terminal::new(size, options());
        let mut last = terminal.end();
        for step in &script {
            play(&mut terminal, std::slice::from_ref(step), whole);
            let end = terminal.end();
            // A resize or a new process prints nothing, but moves text.
            let printed = matches!(step, Step::Bytes(bytes) if !bytes.is_empty());
            prop_assert!(end.offset > last.offset || !printed);
            prop_assert!(end >= last);
            last = end;
        }
    }

    #[test]
    fn new_text_since_a_cursor_is_all_that_changed(size in size(), before in plain(), after in plain()) {
        let mut terminal = Terminal::new(size, options());
        terminal.feed(&before);
        let (then, old) = (terminal.end(), lines(&terminal, None));
        terminal.feed(&after);
        let now = lines(&terminal, None);
        let new = lines(&terminal, Some(then));
        for (no, text, _) in &now {
            let was = old.iter().find(|line| line.0 == *no).map(|line| &line.1);
            let told = new.iter().find(|line| line.0 == *no);
            match told {
                None => {
                    // A line that grows over the edge takes in the row below, and releases that row when the line
                    // shrinks: the lines below are renumbered, but contain nothing new.
                    let moved = old.iter().any(|line| line.1.contains(text));
                    let same = was == Some(text) || was.is_none() && text.is_empty() || moved;
                    prop_assert!(same, "line {} was {:?}, is {:?}, untold", no, was, text);
                }
                Some((_, part, false)) => prop_assert_eq!(part, text),
                Some((_, part, true)) => {
                    let was = was.cloned().unwrap_or_default();
                    let seen: String = was.chars().take(then.col as usize).collect();
                    prop_assert_eq!(format!("{seen}{part}"), text.clone());
                }
            }
        }
        for (no, ..) in &new {
            prop_assert!(now.iter().any(|line| line.0 == *no));
        }
    }

    #[test]
    fn text_contains_no_control_characters(size in size(), script in script()) {
        let mut terminal = Terminal::new(size, options());
        play(&mut terminal, &script, whole);
        let seen = visible_state(&terminal, Vec::new(), Vec::new());
        let all = seen.lines.iter().map(|line| &line.1).chain(&seen.screen).chain([&seen.title, &seen.cursor_line]);
        for text in all {
            prop_assert!(!text.chars().any(char::is_control), "{:?}", text);
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_refused_or_harmless(size in size(), script in script(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut terminal = Terminal::new(size, options());
        play(&mut terminal, &script, whole);
        let Some(mut saved) = terminal.save() else { return Ok(()) };
        let at = at.index(saved.len());
        saved[at] = byte;
        if let Some(mut loaded) = Terminal::load(&saved, options()) {
            play(&mut loaded, &script, whole);
        }
        prop_assert!(Terminal::load(&saved[..at], options()).is_none());
    }

    #[test]
    fn a_foreign_cursor_is_harmless(size in size(), script in script(), offset in 0u64..200, line in 0u64..20, col in 0u32..20) {
        let mut terminal = Terminal::new(size, options());
        play(&mut terminal, &script, whole);
        let cursor = TextCursor { offset: fugue_term::Offset(offset), line: fugue_term::LineNo(line), col };
        lines(&terminal, Some(cursor));
        terminal.lines_between(cursor, terminal.end(), 10);
        terminal.lines_between(terminal.end(), cursor, 10);
    }
}

/// Output that changes text in place without renumbering lines.
fn plain() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => "[a-z ]{1,14}".prop_map(String::into_bytes),
        2 => Just(b"\r\n".to_vec()),
        1 => prop::sample::select(vec!["\r", "\x08", "\t", "漢字", "e\u{301}", "\x1b[K", "\x1b[1K", "\x1b[J", "\x1b[2J",
            "\x1b[H", "\x1b[2;3H", "\x1b[A", "\x1b[3C", "\x1b[2P", "\x1b[2@", "\x1b[3X", "\x1b[?1049h", "\x1b[?1049l",
            "\x08 \x08", "\n", "\x1b[41m", "\x1b[m"]).prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}
