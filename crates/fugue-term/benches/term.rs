//! Throughput of the terminal compared with Alacritty's in the same run: `cargo bench -p fugue-term`.
//!
//! The two terminals take turns on the same bytes and the medians are compared, since only ratios from interleaved
//! runs are portable. Also the time to read the text of ten thousand lines, and the memory to keep the text.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

#[path = "../tests/it/reference.rs"]
mod reference;
use reference::Reference;

const SIZE: TerminalSize = TerminalSize { rows: 24, cols: 80 };
const BYTES: usize = 8 << 20;
const ROUNDS: usize = 9;

fn main() {
    let mut out = std::io::stdout();
    let _ = writeln!(
        out,
        "{:12} {:>10} {:>10} {:>7}",
        "80x24", "fugue MB/s", "alacritty", "ratio"
    );
    for (name, line) in STREAMS {
        let bytes: Vec<u8> = (0usize..)
            .map(line)
            .flat_map(String::into_bytes)
            .take(BYTES)
            .collect();
        let (ours, theirs) = race(&bytes);
        let speed = |time: Duration| bytes.len() as f64 / 1e6 / time.as_secs_f64();
        let (ours, theirs) = (speed(ours), speed(theirs));
        let _ = writeln!(
            out,
            "{name:12} {ours:>10.0} {theirs:>10.0} {:>7.2}",
            ours / theirs
        );
    }
    for (name, line) in &STREAMS[..2] {
        let before = LIVE.load(Ordering::Relaxed);
        let mut terminal = Terminal::new(SIZE, TerminalOptions::default());
        for i in 0..20_000 {
            terminal.feed(line(i).as_bytes());
        }
        let cost = LIVE.load(Ordering::Relaxed) - before;
        let query = LineQuery {
            since: None,
            last: 10_000,
        };
        let time = median((0..ROUNDS).map(|_| {
            let start = Instant::now();
            let text: usize = terminal
                .lines(&query)
                .lines
                .iter()
                .map(|line| black_box(line.text.len()))
                .sum();
            black_box(text);
            start.elapsed()
        }));
        let _ = writeln!(
            out,
            "{name}: 10,000 lines kept cost {:.2} MB; their text is read in {time:?}",
            cost as f64 / 1e6
        );
    }
    let before = LIVE.load(Ordering::Relaxed);
    let blank = Terminal::new(
        TerminalSize {
            rows: 40,
            cols: 120,
        },
        TerminalOptions::default(),
    );
    let _ = writeln!(
        out,
        "a blank 40x120 pane costs {} bytes",
        LIVE.load(Ordering::Relaxed) - before
    );
    drop(blank);
}

type Stream = (&'static str, fn(usize) -> String);

const STREAMS: [Stream; 4] = [
    ("plain", |i| {
        format!("{i:6} the quick brown fox jumps over the lazy dog and goes home at dusk\r\n")
    }),
    ("colour", |i| {
        let color = 31 + i % 6;
        format!(
            "\x1b[1;{color}mINFO\x1b[0m {i:6} \x1b[38;5;{}mmodule::path\x1b[0m: request \x1b[32mdone\x1b[0m in {}ms\r\n",
            i % 256,
            i % 997
        )
    }),
    ("full-screen", |i| {
        let (row, col) = (i % 24 + 1, i * 7 % 60 + 1);
        format!("\x1b[{row};{col}H\x1b[{}mcell {i:5}\x1b[K", 30 + i % 8)
    }),
    ("unicode", |i| {
        format!("{i:6} größer naïve 漢字かな交じり文 Привет мир ✓ 👍 e\u{301}\r\n")
    }),
];

fn race(bytes: &[u8]) -> (Duration, Duration) {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..ROUNDS {
        let mut terminal = Terminal::new(SIZE, TerminalOptions::default());
        ours.push(time(bytes, |part| drop(black_box(terminal.feed(part)))));
        let mut reference = Reference::new(SIZE);
        theirs.push(time(bytes, |part| reference.feed(part)));
        // The comparison is only fair if both terminals do the same work.
        assert!(terminal.screen().rows().eq(reference.rows()));
    }
    (median(ours), median(theirs))
}

/// Feeds in pieces of the size that a pseudo-terminal returns.
fn time(bytes: &[u8], mut feed: impl FnMut(&[u8])) -> Duration {
    let start = Instant::now();
    bytes.chunks(4096).for_each(&mut feed);
    start.elapsed()
}

fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort();
    times[times.len() / 2]
}

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
