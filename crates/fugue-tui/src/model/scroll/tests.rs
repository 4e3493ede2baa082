use fugue_api::attach::{FrameStyle, PaneLines, StyledSpan};

use super::*;

fn lines(from: u64, texts: &[&str], end: u64) -> PaneLines {
    PaneLines {
        from,
        lines: texts
            .iter()
            .map(|text| vec![StyledSpan((*text).to_owned(), FrameStyle::default())])
            .collect(),
        kept_from: 0,
        end,
    }
}

fn shown(scroll: &ScrollView) -> Vec<String> {
    let rows = scroll.visible_rows().into_iter();
    rows.map(|(at, part)| {
        let mut text = String::new();
        for cell in &scroll.line(at.line)[part] {
            cell.glyph.push_to(&mut text);
        }
        text
    })
    .collect()
}

fn text(rows: u16, cols: u16, texts: &[&str]) -> ScrollView {
    let mut scroll = ScrollView::text(0, rows, cols);
    scroll.add_lines(lines(0, texts, texts.len() as u64));
    scroll
}

#[test]
fn long_lines_are_wrapped_and_wide_characters_kept_whole() {
    let scroll = text(5, 5, &["abcdefgh", "漢字漢字", ""]);
    assert_eq!(shown(&scroll), ["abcde", "fgh", "漢字", "漢字", ""]);
}

#[test]
fn the_cursor_takes_the_screen_along() {
    let all: Vec<String> = (0..50).map(|line| format!("line {line}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut scroll = text(4, 20, &all);
    assert_eq!(shown(&scroll)[0], "line 0");
    scroll.go_to_bottom();
    assert_eq!(shown(&scroll), ["line 46", "line 47", "line 48", "line 49"]);
    assert!(scroll.is_at_bottom());
    scroll.go(-3);
    assert_eq!(shown(&scroll)[0], "line 46");
    scroll.go(-1);
    assert_eq!(shown(&scroll)[0], "line 45");
    scroll.roll(-scroll.page());
    assert_eq!(shown(&scroll)[0], "line 43");
    scroll.go_to_top();
    scroll.go(-5);
    assert_eq!(scroll.cursor.line, 0);
    assert_eq!(scroll.cursor_at(), Some((0, 0)));
    scroll.roll(1000);
    assert!(scroll.is_at_bottom());
}

#[test]
fn what_is_selected_is_copied_line_by_line() {
    let mut scroll = text(5, 10, &["first line of text", "second   ", "third"]);
    scroll.go_to_top();
    scroll.go_across(6);
    scroll.select();
    scroll.go(2);
    assert_eq!(scroll.copy(), "line of text\nsecond");
    scroll.select();
    assert_eq!(scroll.copy(), "second");
}

#[test]
fn a_full_row_of_a_screen_runs_on_into_the_next() {
    let row = |text: &str| cells(&[StyledSpan(text.into(), FrameStyle::default())], 80);
    let rows = [row("abcde"), row("fg"), row("h")];
    let mut scroll = ScrollView::screen(&rows, 5, ScrollPosition { line: 0, col: 0 });
    scroll.anchor = Some(ScrollPosition { line: 0, col: 1 });
    scroll.cursor = ScrollPosition { line: 2, col: 0 };
    assert_eq!(scroll.copy(), "bcdefg\nh");
}

#[test]
fn hits_are_found_whatever_their_case_unless_a_capital_is_meant() {
    let cells = |text: &str| cells(&[StyledSpan(text.into(), FrameStyle::default())], 80);
    assert_eq!(find_matches(&cells("Error error"), "error"), [0..5, 6..11]);
    assert_eq!(find_matches(&cells("Error error"), "Error").len(), 1);
    assert_eq!(find_matches(&cells("漢字x漢"), "漢"), [0..1, 5..6]);
    assert!(find_matches(&cells("aaa"), "").is_empty());
    assert_eq!(grep_pattern("a.b*(c)"), r"(?i)a\.b\*\(c\)");
}

#[test]
fn next_goes_around_and_both_ways() {
    let mut scroll = text(3, 20, &["x", "hit hit", "y", "hit", "z"]);
    scroll.go_to_bottom();
    assert!(scroll.search("hit".into(), SearchDirection::Back));
    scroll.found(vec![3, 1], false);
    let at = |scroll: &ScrollView| (scroll.cursor.line, scroll.cursor.col);
    assert_eq!(at(&scroll), (3, 0));
    scroll.next(SearchDirection::Back);
    assert_eq!(at(&scroll), (1, 4));
    scroll.next(SearchDirection::Back);
    assert_eq!(at(&scroll), (1, 0));
    scroll.next(SearchDirection::Back);
    assert_eq!(at(&scroll), (3, 0));
    scroll.next(SearchDirection::Forward);
    assert_eq!(at(&scroll), (1, 0));
    assert_eq!(scroll.count(), Some((1, 2)));
}

#[test]
fn memory_is_bounded_whatever_the_lines_are() {
    let mut scroll = ScrollView::text(0, 20, 80);
    let long = "x".repeat(100_000);
    let all = vec![long.as_str(); 200];
    for round in 0..5 {
        scroll.add_lines(lines(round * 200, &all, 1000));
        assert!(
            scroll.kept <= MAX_CACHED_CELLS + MAX_LINE_CELLS,
            "{}",
            scroll.kept
        );
    }
    assert!(scroll.missing_from().is_some() || !scroll.lines.is_empty());
}
