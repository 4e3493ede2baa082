//! Answers to `read_pane` and to followers, from a terminal and its log.

use fugue_api::{
    Error, Kind,
    panes::{Mode, PaneText, ReadPane, StateBy},
    wire::Followed,
};
use fugue_core::{Want, result::Found, view};
use fugue_hold::{LogReader, Read};
use fugue_term::{Offset, Query, Terminal};

/// A reply, or the news that the terminal at hand does not reach back far enough.
pub enum Reading {
    Done(Box<PaneText>),
    NeedsMore,
}

/// How much of the pane's past the terminal at hand holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// There may be more in the log.
    Recent,
    /// There is no more anywhere.
    Whole,
}

pub fn read(
    terminal: &Terminal,
    log: &mut LogReader,
    past: Past,
    args: &ReadPane,
    state: &StateBy,
) -> Result<Reading, Error> {
    let most = args.max_output_chars as usize;
    let reply = match args.mode {
        Mode::Text => return text(terminal, past, args, state),
        Mode::Screen => {
            let rows: Vec<String> = terminal.screen().rows().collect();
            let used = rows
                .iter()
                .rposition(|row| !row.is_empty())
                .map_or(0, |last| last + 1);
            given(
                &grepped(rows[..used].iter().cloned().zip(1..).collect(), args)?,
                most,
                0,
                terminal,
                state,
            )
        }
        Mode::Raw => raw(terminal, log, args, state)?,
        Mode::LastCommand => {
            let Some(last) = terminal.last_command(args.lines as usize) else {
                return Err(Error::new(
                    Kind::NotFound,
                    "no command has run here in a shell with integration",
                )
                .hint("mode `text` reads everything that was printed"));
            };
            let left_out = last.output.omitted as u64;
            let lines = last
                .output
                .lines
                .iter()
                .zip(left_out + 1..)
                .map(|(line, number)| (line.text.to_string(), number));
            let mut reply = given(
                &grepped(lines.collect(), args)?,
                most,
                left_out,
                terminal,
                state,
            );
            reply.command = Some(last.command.to_owned());
            reply.exit_code = last.exit_code;
            reply
        }
    };
    Ok(Reading::Done(Box::new(reply)))
}

fn text(
    terminal: &Terminal,
    past: Past,
    args: &ReadPane,
    state: &StateBy,
) -> Result<Reading, Error> {
    let since = args.since.as_ref().map(view::cursor).transpose()?;
    let wanted = args.lines as usize;
    // A filter looks at everything that is there, and then gives the last so many.
    let last = if args.grep.is_some() {
        usize::MAX
    } else {
        wanted
    };
    let found = terminal.lines(&Query { since, last });
    let short = found.lines.len() < last && found.older_lost;
    if short && past == Past::Recent {
        return Ok(Reading::NeedsMore);
    }
    let lines = found
        .lines
        .iter()
        .map(|line| (line.text.to_string(), line.no.0 + 1))
        .collect();
    let mut lines = grepped(lines, args)?;
    let mut before = found.omitted as u64;
    if args.grep.is_some() {
        let surplus = lines.len().saturating_sub(wanted);
        lines.drain(..surplus);
        before = surplus as u64;
    }
    // Lines that were asked for and that no file has any more. Without `since`, only as many were asked for as the
    // window has room for; those before it are not missing.
    let first_asked = since.map_or(0, |since| since.line.0);
    let lost = match (found.older_lost, since) {
        (true, _) if args.grep.is_some() => 0,
        (true, Some(_)) => found.first_kept.0.saturating_sub(first_asked),
        (true, None) => found.first_kept.0.min((last - found.lines.len()) as u64),
        (false, _) => 0,
    };
    let skipped = if since.is_some() || args.grep.is_some() {
        before
    } else {
        0
    };
    let omitted = skipped + lost;
    Ok(Reading::Done(Box::new(given(
        &lines,
        args.max_output_chars as usize,
        omitted,
        terminal,
        state,
    ))))
}

/// A part of the text, as much as any bound up to `most` can want. `None`: the terminal at hand does not reach back
/// far enough.
pub fn stretch(terminal: &Terminal, past: Past, want: &Want, most: usize) -> Option<Found> {
    let end = Some(view::shown(terminal.end()));
    let Want::Text { from, to } = want else {
        return Some(Found {
            clip: None,
            lost_lines: 0,
            end,
        });
    };
    let place =
        |cursor: &Option<fugue_api::Cursor>| cursor.as_ref().and_then(|at| view::cursor(at).ok());
    let (from, to) = (place(from), place(to));
    let found = match (from, to) {
        (None, None) => terminal.lines(&Query {
            since: None,
            last: usize::MAX,
        }),
        (from, to) => terminal.lines_between(
            from.unwrap_or_default(),
            to.unwrap_or_else(|| terminal.end()),
            usize::MAX,
        ),
    };
    if found.older_lost && past == Past::Recent {
        return None;
    }
    let lost_lines = if found.older_lost {
        let first = from.map_or(0, |from| from.line.0);
        found.first_kept.0.saturating_sub(first)
    } else {
        0
    };
    let lines: Vec<&str> = found.lines.iter().map(|line| &*line.text).collect();
    Some(Found {
        clip: Some(view::Clip::of(&lines, most)),
        lost_lines,
        end,
    })
}

fn grepped(lines: Vec<(String, u64)>, args: &ReadPane) -> Result<Vec<String>, Error> {
    let Some(pattern) = &args.grep else {
        return Ok(lines.into_iter().map(|(text, _)| text).collect());
    };
    let pattern = view::compile(pattern)?;
    let matching = lines.into_iter().filter(|(text, _)| pattern.is_match(text));
    Ok(matching
        .map(|(text, number)| format!("{number}:{text}"))
        .collect())
}

fn given(
    lines: &[String],
    most: usize,
    omitted_before: u64,
    terminal: &Terminal,
    state: &StateBy,
) -> PaneText {
    let bounded = view::bound(lines, most);
    PaneText {
        text: bounded.text,
        cursor: view::shown(terminal.end()),
        lines: bounded.lines,
        omitted_lines: bounded.omitted_lines + omitted_before,
        omitted_chars: bounded.omitted_chars,
        state: state.state,
        command: None,
        exit_code: None,
        replaced_bytes: 0,
    }
}

/// The bytes themselves, as far as JSON can carry them: what is not UTF-8 is shown as U+FFFD and counted.
fn raw(
    terminal: &Terminal,
    log: &mut LogReader,
    args: &ReadPane,
    state: &StateBy,
) -> Result<PaneText, Error> {
    let trouble = |error: std::io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("the log cannot be read: {error}"),
        )
    };
    let end = terminal.offset().0;
    let since = args
        .since
        .as_ref()
        .map(view::cursor)
        .transpose()?
        .map_or(0, |cursor| cursor.offset.0);
    let first = log.first().map_err(trouble)?.max(since).min(end);
    // A byte is at most one character, so this is always enough; four times for UTF-8.
    let most = u64::from(args.max_output_chars).saturating_mul(4);
    let from = first.max(end.saturating_sub(most));
    let bytes = bytes(log, from, end).map_err(trouble)?;
    let from_start = args.lines;
    let wanted = last_lines(&bytes, from_start);
    let text = String::from_utf8_lossy(wanted);
    let replaced = invalid_bytes(wanted);
    let chars = text.chars().count();
    let over = chars.saturating_sub(args.max_output_chars as usize);
    let kept: String = text.chars().skip(over).collect();
    Ok(PaneText {
        lines: kept.lines().count() as u64,
        text: kept,
        cursor: view::shown(terminal.end()),
        omitted_lines: 0,
        omitted_chars: over as u64
            + if wanted.len() == bytes.len() {
                from - first
            } else {
                0
            },
        state: state.state,
        command: None,
        exit_code: None,
        replaced_bytes: replaced,
    })
}

fn invalid_bytes(bytes: &[u8]) -> u64 {
    bytes
        .utf8_chunks()
        .map(|chunk| chunk.invalid().len() as u64)
        .sum()
}

fn last_lines(bytes: &[u8], lines: u32) -> &[u8] {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let breaks = body
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    match breaks.map(|(at, _)| at).nth(lines as usize - 1) {
        Some(at) => &bytes[at + 1..],
        None => bytes,
    }
}

fn bytes(log: &mut LogReader, mut from: u64, end: u64) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while from < end {
        let most = usize::try_from(end - from)
            .unwrap_or(buffer.len())
            .min(buffer.len());
        match log.read_at(from, &mut buffer[..most])? {
            Read::Bytes(count) => {
                all.extend_from_slice(&buffer[..count]);
                from += count as u64;
            }
            Read::Gap { next } => from = next,
            Read::End => break,
        }
    }
    Ok(all)
}

// One answer to a follower; the next one goes on from there.
const FOLLOW_BYTES: u64 = 1 << 20;

/// What is there between an offset and the end, for somebody who follows along at their own pace.
pub fn more(log: &mut LogReader, from: u64, end: fugue_term::Cursor) -> Result<Followed, Error> {
    let trouble = |error: std::io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("the log cannot be read: {error}"),
        )
    };
    let last = end.offset.0;
    let from = log.first().map_err(trouble)?.max(from).min(last);
    let raw = bytes(log, from, last.min(from + FOLLOW_BYTES)).map_err(trouble)?;
    let offset = Offset(from + raw.len() as u64);
    let cursor = view::shown(fugue_term::Cursor { offset, ..end });
    Ok(Followed {
        raw,
        from,
        ended: false,
        cursor,
    })
}
