//! The sidebar: sessions with their panes, questions to a person, workers, runs, watchers.

use std::cmp::Reverse;

use fugue_api::{
    PaneId, SessionName, attach::FrameStyle, overview::PaneRow, pane_state::PaneState,
    run_result::RunKind,
};

use super::badges::{StateBadge, row_badge, run_badge, watcher_badge, worker_badge};
use crate::{
    buffer::{CellBuffer, CellGlyph},
    clean,
    model::AttachModel,
    style::{BOLD, CYAN, DIM, YELLOW, add, coloured, plain, with},
};
use fugue_client::display::format_age;

/// One row of the sidebar.
enum SidebarRow {
    Blank,
    Heading(&'static str),
    Session {
        name: SessionName,
        here: bool,
    },
    /// A question to a person, and how to answer it.
    Question {
        from: String,
        body: String,
    },
    HowToAnswer(String),
    Thing {
        badge: StateBadge,
        name: String,
        /// Replaces the word of the badge.
        word: Option<String>,
        since: Option<u64>,
        pane: Option<PaneId>,
        focused: bool,
    },
    More(usize),
}

/// Ended panes per session and ended runs that are listed.
const MAX_ENDED_ROWS: usize = 4;
const HIDDEN_SESSION: &str = "__orchestration__";

pub fn draw(model: &AttachModel, wall: u64, buffer: &mut CellBuffer) {
    let Some(area) = model.areas().sidebar else {
        return;
    };
    if area.cols < 10 {
        return;
    }
    buffer.fill(area, ' ', plain());
    let edge = area.cols - 1;
    for row in 0..area.rows {
        // The border joins the title line of a tile.
        let beside = buffer.row(row).get(usize::from(area.cols));
        let line = match beside.map(|cell| &cell.glyph) {
            Some(CellGlyph::Char('━')) => '┝',
            Some(CellGlyph::Char('─')) => '├',
            _ => '│',
        };
        buffer.put(row, edge, CellGlyph::Char(line), with(DIM), area.cols);
    }
    for (row, what) in (area.row..area.row + area.rows).zip(rows(model, area.rows)) {
        draw_row(&what, row, edge, wall, buffer);
    }
}

/// The pane of this row of the screen.
pub fn sidebar_at(model: &AttachModel, row: u16) -> Option<PaneId> {
    let area = model.areas().sidebar?;
    match rows(model, area.rows).get(usize::from(row.checked_sub(area.row)?))? {
        SidebarRow::Thing { pane, .. } => *pane,
        SidebarRow::Session { name, .. } => {
            let mut panes = model.overview.panes.iter();
            let first = panes.find(|pane| pane.session == *name && !ended(pane))?;
            Some(first.pane_id)
        }
        SidebarRow::Blank
        | SidebarRow::Heading(_)
        | SidebarRow::Question { .. }
        | SidebarRow::HowToAnswer(_)
        | SidebarRow::More(_) => None,
    }
}

fn ended(pane: &PaneRow) -> bool {
    matches!(pane.state.state, PaneState::Exited | PaneState::Closed)
}

fn rows(model: &AttachModel, height: u16) -> Vec<SidebarRow> {
    let mut rows = Vec::new();
    questions(model, &mut rows);
    sessions(model, &mut rows);
    workers(model, &mut rows);
    runs(model, &mut rows);
    watchers(model, &mut rows);
    let height = usize::from(height);
    if rows.len() > height {
        let more = rows.len() + 1 - height;
        rows.truncate(height.saturating_sub(1));
        rows.push(SidebarRow::More(more));
    }
    rows
}

fn sessions(model: &AttachModel, rows: &mut Vec<SidebarRow>) {
    let mut names: Vec<&SessionName> = model
        .overview
        .panes
        .iter()
        .map(|pane| &pane.session)
        .collect();
    // The current session first; the session of background runs last.
    names.sort_by_key(|name| {
        (
            **name != model.session,
            name.0 == HIDDEN_SESSION,
            (*name).clone(),
        )
    });
    names.dedup();
    for name in names {
        let mut panes: Vec<&PaneRow> = model
            .overview
            .panes
            .iter()
            .filter(|pane| pane.session == *name)
            .collect();
        panes.sort_by_key(|pane| (ended(pane), pane.pane_id));
        // Of the ended panes only the latest are listed, failed ones first, without closed ones and those of background runs.
        let hidden = name.0 == HIDDEN_SESSION;
        let is_over = |pane: &PaneRow| hidden || pane.state.state == PaneState::Closed;
        panes.retain(|pane| !(ended(pane) && is_over(pane)));
        let mut over: Vec<&PaneRow> = panes.iter().copied().filter(|pane| ended(pane)).collect();
        over.sort_by_key(|pane| (pane.state.exit_code == Some(0), Reverse(pane.pane_id)));
        let dropped: Vec<PaneId> = over
            .iter()
            .skip(MAX_ENDED_ROWS)
            .map(|pane| pane.pane_id)
            .collect();
        panes.retain(|pane| !dropped.contains(&pane.pane_id));
        if panes.is_empty() {
            continue;
        }
        if !rows.is_empty() {
            rows.push(SidebarRow::Blank);
        }
        rows.push(SidebarRow::Session {
            name: name.clone(),
            here: *name == model.session,
        });
        rows.extend(panes.into_iter().map(|pane| SidebarRow::Thing {
            badge: row_badge(pane),
            name: clean::line(&pane.name),
            word: None,
            since: pane.created_at.map(|at| at.0),
            pane: Some(pane.pane_id),
            focused: model.shown_focus() == Some(pane.pane_id),
        }));
    }
}

fn heading(rows: &mut Vec<SidebarRow>, text: &'static str) {
    if !rows.is_empty() {
        rows.push(SidebarRow::Blank);
    }
    rows.push(SidebarRow::Heading(text));
}

/// Questions that are listed; `fugue ls` lists all.
const MAX_QUESTIONS: usize = 3;

/// First of all rows, because an agent waits for the person.
fn questions(model: &AttachModel, rows: &mut Vec<SidebarRow>) {
    let all = &model.overview.questions;
    if all.is_empty() {
        return;
    }
    heading(rows, "questions for you");
    for question in all.iter().take(MAX_QUESTIONS) {
        rows.push(SidebarRow::Question {
            from: clean::line(&question.from),
            body: clean::line(&question.body),
        });
        let id = question.question_id;
        rows.push(SidebarRow::HowToAnswer(format!("fugue answer {id} TEXT")));
    }
    if all.len() > MAX_QUESTIONS {
        rows.push(SidebarRow::More(all.len() - MAX_QUESTIONS));
    }
}

fn workers(model: &AttachModel, rows: &mut Vec<SidebarRow>) {
    let live = model.overview.workers.iter();
    let live: Vec<_> = live
        .filter(|worker| model.overview.lists_worker(worker))
        .collect();
    if live.is_empty() {
        return;
    }
    heading(rows, "workers");
    rows.extend(live.into_iter().map(|worker| SidebarRow::Thing {
        badge: worker_badge(worker.state),
        name: clean::line(&worker.worker_id),
        word: None,
        since: worker.started_at.map(|at| at.0),
        pane: worker.pane_id,
        focused: false,
    }));
}

fn runs(model: &AttachModel, rows: &mut Vec<SidebarRow>) {
    let mut all: Vec<_> = model.overview.runs.iter().collect();
    all.sort_by_key(|run| (run.status != "running", Reverse(run.started_at)));
    let live = all.iter().filter(|run| run.status == "running").count();
    all.truncate(live + MAX_ENDED_ROWS);
    if all.is_empty() {
        return;
    }
    heading(rows, "runs");
    rows.extend(all.into_iter().map(|run| {
        let kind = match run.kind {
            RunKind::Expect => "expect",
            RunKind::Parallel => "parallel",
            RunKind::Pipeline => "pipeline",
        };
        let running = run.status == "running";
        SidebarRow::Thing {
            badge: run_badge(&run.status),
            name: format!("{kind} {}", clean::line(&run.run_id.0)),
            word: Some(clean::line(&run.progress)).filter(|_| running),
            since: run.started_at.map(|at| at.0),
            pane: None,
            focused: false,
        }
    }));
}

fn watchers(model: &AttachModel, rows: &mut Vec<SidebarRow>) {
    if model.overview.watchers.is_empty() {
        return;
    }
    heading(rows, "watchers");
    rows.extend(model.overview.watchers.iter().map(|watcher| {
        let name = model.row(watcher.pane_id).map(|row| clean::line(&row.name));
        SidebarRow::Thing {
            badge: watcher_badge(watcher.state),
            name: name.unwrap_or_else(|| watcher.pane_id.to_string()),
            word: None,
            since: None,
            pane: Some(watcher.pane_id),
            focused: false,
        }
    }));
}

/// Columns of the age, at the right edge.
const AGE: u16 = 4;
/// Columns of the state before the age: wide enough for `needs input`.
const WORD: u16 = 12;

fn draw_row(what: &SidebarRow, row: u16, edge: u16, wall: u64, buffer: &mut CellBuffer) {
    match what {
        SidebarRow::Blank => {}
        SidebarRow::Heading(text) => {
            buffer.text(row, 1, text, add(with(DIM), BOLD), edge);
        }
        SidebarRow::Session { name, here } => {
            let style = if *here {
                add(coloured(CYAN), BOLD)
            } else {
                with(BOLD)
            };
            let name = match name.0.as_str() {
                HIDDEN_SESSION => "background".to_owned(),
                name => clean::line(name),
            };
            buffer.text_cut(row, 1, &name, style, edge - 1);
        }
        SidebarRow::Question { from, body } => {
            buffer.put(row, 2, CellGlyph::Char('▲'), coloured(YELLOW), edge);
            buffer.text_cut(row, 4, &format!("{from}: {body}"), plain(), edge - 1);
        }
        SidebarRow::HowToAnswer(command) => {
            buffer.text_cut(row, 4, command, with(DIM), edge - 1);
        }
        SidebarRow::More(count) => {
            buffer.text(row, 1, &format!("… {count} more rows"), with(DIM), edge);
        }
        SidebarRow::Thing {
            badge,
            name,
            word,
            since,
            focused,
            ..
        } => {
            let ages = edge.saturating_sub(AGE + 1);
            let words = ages.saturating_sub(WORD);
            if *focused {
                buffer.text(row, 0, "▶", add(coloured(CYAN), BOLD), edge);
            }
            buffer.put(row, 2, CellGlyph::Char(badge.sign), badge.style, edge);
            let style: FrameStyle = if *focused { with(BOLD) } else { plain() };
            buffer.text_cut(row, 4, name, style, words - 1);
            let text = word.as_deref().filter(|word| !word.is_empty());
            buffer.text_cut(row, words, text.unwrap_or(&badge.word), badge.style, ages);
            if let Some(since) = since {
                let age = format_age(wall.saturating_sub(*since));
                let col = edge.saturating_sub(1 + age.len() as u16);
                buffer.text(row, col, &age, with(DIM), edge);
            }
        }
    }
}
