//! Memory use of panes, counted by the allocator. A binary of its own, because a binary has a single global
//! allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, LineQuery, Pattern, Terminal,
    TerminalOptions, TerminalSize,
};

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct CountingAllocator;

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

#[expect(
    unsafe_code,
    reason = "an allocator that counts can only be written so"
)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// A single test without other threads, so that the allocator counts only this test.
#[test]
fn pane_memory_is_bounded_by_its_contents() {
    let live = || LIVE.load(Ordering::Relaxed);
    let before = live();
    let mut pane = Terminal::new(
        TerminalSize {
            rows: 40,
            cols: 120,
        },
        TerminalOptions::default(),
    );
    for i in 0..30_000 {
        let line = format!(
            "\x1b[1;3{}mINFO\x1b[0m {i:6} \x1b[38;5;{}mmodule::path::name\x1b[0m: the request was \x1b[32mdone\x1b[0m in {} ms\r\n",
            i % 8,
            i % 256,
            i % 997
        );
        pane.feed(line.as_bytes());
    }
    let cost = live() - before;
    assert_eq!(
        pane.lines(&LineQuery {
            since: None,
            last: usize::MAX
        })
        .lines
        .len(),
        10_039
    );
    assert!(cost < 1_500_000, "10,000 coloured lines cost {cost} bytes");

    let before = live();
    let panes: Vec<Terminal> = (0..500)
        .map(|_| {
            Terminal::new(
                TerminalSize {
                    rows: 40,
                    cols: 120,
                },
                TerminalOptions::default(),
            )
        })
        .collect();
    let cost = (live() - before) / panes.len();
    assert!(cost < 5_000, "a blank pane costs {cost} bytes");

    let before = live();
    let mut pane = Terminal::new(
        TerminalSize {
            rows: 40,
            cols: 120,
        },
        TerminalOptions::default(),
    );
    for chunk in 0..3_000u32 {
        // Endless strings, combining marks, endless lines, a new style each time: all growth must be bounded.
        pane.feed(format!("\x1b]0;{}", "t".repeat(2000)).as_bytes());
        pane.feed(format!("\x1b\\e{}", "\u{301}".repeat(500)).as_bytes());
        for i in 0..40 {
            let c = char::from_u32(0x4e00 + (chunk * 40 + i) % 20_000).unwrap_or('x');
            pane.feed(format!("\x1b[38;2;{};{i};9m{c}\u{301}\u{302}", chunk % 256).as_bytes());
        }
        pane.feed(&[b'z'; 5000]);
    }
    let cost = live() - before;
    assert!(cost < 24_000_000, "a hostile pane costs {cost} bytes");
    a_long_expect_needs_no_more_memory_than_a_short_one();
}

fn a_long_expect_needs_no_more_memory_than_a_short_one() {
    let live = || LIVE.load(Ordering::Relaxed);
    let megabytes = std::env::var("FUGUE_WATCH_MB").map_or(8, |mb| mb.parse().expect("a number"));
    let log: String = (0..1000)
        .map(|i| {
            format!(
                "\x1b[32mINFO\x1b[0m {i:6} naïve request done in {} ms\r\n",
                i * 7 % 997
            )
        })
        .collect();
    let no_end = "no line ends here ".repeat(4000);
    // The first pattern uses the DFA, the second needs Unicode, the third can match over many lines.
    for pattern in [
        r"Listening on port \d+",
        r"\bListening on\b",
        r"(?s)BEGIN.*END",
    ] {
        for output in [&log, &no_end] {
            let mut pane = Terminal::new(
                TerminalSize {
                    rows: 40,
                    cols: 120,
                },
                TerminalOptions::default(),
            );
            pane.start_text_stream();
            let mut search = ExpectSearch::new(ExpectPatterns {
                pattern: Pattern::new(pattern).expect(pattern),
                fail: Some(Pattern::new("error|panicked").expect("it compiles")),
                lines: 100,
                since: Some(pane.end()),
                echo: EchoPolicy::Skip,
            });
            assert_eq!(search.search_existing(&pane), InitialSearch::NoMatch);
            let mut feed = |bytes: &[u8]| {
                pane.feed(bytes);
                search.search_feed(pane.feed_text())
            };
            assert_eq!(feed(b"BEGIN\r\n"), None);
            let mut early = None;
            for i in 0..megabytes * 1_000_000 / output.len() {
                for chunk in output.as_bytes().chunks(65_536) {
                    assert_eq!(feed(chunk), None);
                }
                if i == 2_000_000 / output.len() {
                    early = Some(live());
                }
            }
            let cost = live().saturating_sub(early.expect("more than two megabytes were fed"));
            // The pane's history grows to its limit meanwhile.
            let own = 16 << 20;
            assert!(cost < own + (4 << 20), "{pattern} costs {cost} bytes more");
            let found = feed(b"\r\nListening on port 8080\r\n");
            let expected = match pattern {
                r"Listening on port \d+" => Some("Listening on port 8080"),
                r"\bListening on\b" => Some("Listening on"),
                _ => None,
            };
            assert_eq!(found.as_ref().map(|found| &found.text[..]), expected);
            if let Some(found) = found {
                let query = LineQuery {
                    since: Some(found.start),
                    last: 10,
                };
                assert_eq!(pane.lines(&query).lines[0].text, "Listening on port 8080");
            }
        }
    }
}
