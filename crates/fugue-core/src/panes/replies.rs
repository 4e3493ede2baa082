//! Replies and rows about panes.

use fugue_api::{
    Cursor, PaneId, ToolReply,
    overview::PaneRow,
    pane_placement::Backend,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{ClosePaneReply, CreatePaneReply, PaneStatus},
    wire::Response,
};

use crate::{AfterCommit, CallId, Change, ClockReading, Effect, ExitStatus, PaneEnd, PaneRecord};

pub(crate) fn created(
    record: &PaneRecord,
    call: CallId,
    cursor: Option<Cursor>,
    ready: bool,
    note: Option<&str>,
) -> AfterCommit {
    let reply = created_reply(record, cursor, ready, note);
    AfterCommit::tool_reply(call, ToolReply::CreatePane(reply))
}

pub(crate) fn created_reply(
    record: &PaneRecord,
    cursor: Option<Cursor>,
    ready: bool,
    note: Option<&str>,
) -> CreatePaneReply {
    let (session, name) = (record.session.clone(), record.name.clone());
    let cursor = cursor.unwrap_or_else(crate::view::start);
    CreatePaneReply {
        ready,
        note: note.map(str::to_owned),
        ..CreatePaneReply::new(record.id, session, name, record.pid, cursor)
    }
}

pub(crate) fn closed(record: &PaneRecord, call: CallId, note: Option<&str>) -> Effect {
    let exit = record.ended.as_ref().map(|ended| &ended.exit);
    let reply = ToolReply::ClosePane(ClosePaneReply {
        pane_id: record.id,
        exit_code: exit.and_then(ExitStatus::code),
        signal: exit.and_then(ExitStatus::signal),
        note: note.map(str::to_owned),
    });
    Effect::Reply {
        call,
        answer: Ok(Response::Tool { reply }),
    }
}

pub(crate) fn put(record: &PaneRecord) -> Change {
    Change::put(record.clone())
}

pub(crate) fn ended_state(ended: &PaneEnd) -> SourcedState {
    SourcedState {
        exit_code: ended.exit.code(),
        signal: ended.exit.signal(),
        ..SourcedState::new(
            if ended.closed {
                PaneState::Closed
            } else {
                PaneState::Exited
            },
            StateSource::Exit,
        )
    }
}

pub(crate) fn status_of(record: &PaneRecord, now: ClockReading) -> PaneStatus {
    PaneStatus {
        pane_id: record.id,
        name: record.name.clone(),
        session: record.session.clone(),
        backend: match record.tmux {
            None => Backend::Native,
            Some(_) => Backend::Tmux,
        },
        command: cut(&record.command, 200),
        pid: record.pid,
        cwd: record.cwd.clone(),
        size: record.size,
        title: record
            .ended
            .as_ref()
            .map(|ended| ended.title.clone())
            .unwrap_or_default(),
        state: state_of(record),
        idle_ms: quiet_since_end(record, now),
        cursor: record
            .ended
            .as_ref()
            .map_or_else(crate::view::start, |ended| ended.cursor.clone()),
        created_at: record.created_at,
        agent: None,
        worker: None,
        watcher: None,
        note: record.ended.as_ref().and_then(PaneEnd::note),
    }
}

pub(crate) fn row_of(record: &PaneRecord) -> PaneRow {
    PaneRow {
        pane_id: record.id,
        name: record.name.clone(),
        session: record.session.clone(),
        state: state_of(record),
        agent: None,
        created_at: Some(record.created_at),
    }
}

/// The idle time of an ended pane. A live pane reports its own.
pub(crate) fn quiet_since_end(record: &PaneRecord, now: ClockReading) -> u64 {
    let ended = record.ended.as_ref();
    ended.map_or(0, |ended| ended.at.shown_ms_until(now.moment()))
}

pub(crate) fn state_of(record: &PaneRecord) -> SourcedState {
    record.ended.as_ref().map_or_else(
        || SourcedState::new(PaneState::Running, StateSource::Exit),
        ended_state,
    )
}

/// Shortens text that is only needed to recognise a command.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The program's own name: `/usr/bin/npm run build` is `npm`.
pub(crate) fn default_name(command: &str) -> String {
    let word = command.split_whitespace().next().unwrap_or("pane");
    let base = word
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(word);
    let name: String = base.chars().filter(|c| !c.is_control()).take(32).collect();
    if name.is_empty() || name.parse::<PaneId>().is_ok() {
        "pane".to_owned()
    } else {
        name
    }
}
