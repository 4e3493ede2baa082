//! Everything there is, at a glance: sessions with their panes, workers, runs, watchers.

use fugue_api::{
    PaneId, SessionName,
    attach::FrameStyle,
    overview::{PaneRow, WorkerState},
    pane_state::PaneState,
    run_result::RunKind,
};

use super::badges::{Badge, badge, of_run, of_watcher, of_worker};
use crate::{
    attach::{
        canvas::{Canvas, Glyph},
        clean,
        looks::{BOLD, CYAN, DIM, add, coloured, plain, with},
        model::Model,
    },
    out::format_age,
};

/// One row of it.
enum Row {
    Blank,
    Heading(&'static str),
    Session {
        name: SessionName,
        here: bool,
    },
    Thing {
        badge: Badge,
        name: String,
        /// Instead of the badge's own word.
        word: Option<String>,
        since: Option<u64>,
        pane: Option<PaneId>,
        focused: bool,
    },
    More(usize),
}

// Of what is over, as many as tell how things went.
const MOST_ENDED: usize = 4;
const HIDDEN_SESSION: &str = "__orchestration__";

pub fn draw(model: &Model, wall: u64, canvas: &mut Canvas) {
    let Some(area) = model.places().sidebar else {
        return;
    };
    if area.cols < 10 {
        return;
    }
    canvas.fill(area, ' ', plain());
    let edge = area.cols - 1;
    for row in 0..area.rows {
        // A title's line beside it joins it.
        let beside = canvas.row(row).get(usize::from(area.cols));
        let line = match beside.map(|cell| &cell.glyph) {
            Some(Glyph::Char('━')) => '┝',
            Some(Glyph::Char('─')) => '├',
            _ => '│',
        };
        canvas.put(row, edge, Glyph::Char(line), with(DIM), area.cols);
    }
    for (row, what) in (area.row..area.row + area.rows).zip(rows(model, area.rows)) {
        draw_row(&what, row, edge, wall, canvas);
    }
}

/// The pane that stands in this row of the screen.
pub fn sidebar_at(model: &Model, row: u16) -> Option<PaneId> {
    let area = model.places().sidebar?;
    match rows(model, area.rows).get(usize::from(row.checked_sub(area.row)?))? {
        Row::Thing { pane, .. } => *pane,
        Row::Session { name, .. } => {
            let mut panes = model.facts.panes.iter();
            let first = panes.find(|pane| pane.session == *name && !ended(pane))?;
            Some(first.pane_id)
        }
        Row::Blank | Row::Heading(_) | Row::More(_) => None,
    }
}

fn ended(pane: &PaneRow) -> bool {
    matches!(pane.state.state, PaneState::Exited | PaneState::Closed)
}

fn rows(model: &Model, height: u16) -> Vec<Row> {
    let mut rows = Vec::new();
    sessions(model, &mut rows);
    workers(model, &mut rows);
    runs(model, &mut rows);
    watchers(model, &mut rows);
    let height = usize::from(height);
    if rows.len() > height {
        let more = rows.len() + 1 - height;
        rows.truncate(height.saturating_sub(1));
        rows.push(Row::More(more));
    }
    rows
}

fn sessions(model: &Model, rows: &mut Vec<Row>) {
    let mut names: Vec<&SessionName> = model.facts.panes.iter().map(|pane| &pane.session).collect();
    // This one first, and last what nobody opened for a person.
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
            .facts
            .panes
            .iter()
            .filter(|pane| pane.session == *name)
            .collect();
        panes.sort_by_key(|pane| (ended(pane), pane.pane_id));
        // The latest of those that have ended; what runs left behind, or a person closed, is over.
        let hidden = name.0 == HIDDEN_SESSION;
        let mut over = panes.iter().filter(|pane| ended(pane)).count();
        panes.retain(|pane| {
            let gone = ended(pane)
                && (hidden || over > MOST_ENDED || pane.state.state == PaneState::Closed);
            over -= usize::from(ended(pane));
            !gone
        });
        if panes.is_empty() {
            continue;
        }
        if !rows.is_empty() {
            rows.push(Row::Blank);
        }
        rows.push(Row::Session {
            name: name.clone(),
            here: *name == model.session,
        });
        rows.extend(panes.into_iter().map(|pane| Row::Thing {
            badge: badge(&pane.state),
            name: clean::line(&pane.name),
            word: None,
            since: Some(pane.created_at.0),
            pane: Some(pane.pane_id),
            focused: model.shown_focus() == Some(pane.pane_id),
        }));
    }
}

fn heading(rows: &mut Vec<Row>, text: &'static str) {
    if !rows.is_empty() {
        rows.push(Row::Blank);
    }
    rows.push(Row::Heading(text));
}

fn workers(model: &Model, rows: &mut Vec<Row>) {
    let live = model.facts.workers.iter();
    let live: Vec<_> = live
        .filter(|worker| worker.state != WorkerState::Ended)
        .collect();
    if live.is_empty() {
        return;
    }
    heading(rows, "workers");
    rows.extend(live.into_iter().map(|worker| Row::Thing {
        badge: of_worker(worker.state),
        name: clean::line(&worker.worker_id),
        word: None,
        since: Some(worker.started_at.0),
        pane: worker.pane_id,
        focused: false,
    }));
}

fn runs(model: &Model, rows: &mut Vec<Row>) {
    let mut all: Vec<_> = model.facts.runs.iter().collect();
    all.sort_by_key(|run| (run.status != "running", u64::MAX - run.started_at.0));
    let live = all.iter().filter(|run| run.status == "running").count();
    all.truncate(live + MOST_ENDED);
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
        Row::Thing {
            badge: of_run(&run.status),
            name: format!("{kind} {}", clean::line(&run.run_id.0)),
            word: Some(clean::line(&run.progress)).filter(|_| running),
            since: Some(run.started_at.0),
            pane: None,
            focused: false,
        }
    }));
}

fn watchers(model: &Model, rows: &mut Vec<Row>) {
    if model.facts.watchers.is_empty() {
        return;
    }
    heading(rows, "watchers");
    rows.extend(model.facts.watchers.iter().map(|watcher| {
        let name = model.row(watcher.pane_id).map(|row| clean::line(&row.name));
        Row::Thing {
            badge: of_watcher(watcher.state),
            name: name.unwrap_or_else(|| watcher.pane_id.to_string()),
            word: None,
            since: None,
            pane: Some(watcher.pane_id),
            focused: false,
        }
    }));
}

// The age's columns at the right, and the state's before them: `needs input` fits.
const AGE: u16 = 4;
const WORD: u16 = 12;

fn draw_row(what: &Row, row: u16, edge: u16, wall: u64, canvas: &mut Canvas) {
    match what {
        Row::Blank => {}
        Row::Heading(text) => {
            canvas.text(row, 1, text, add(with(DIM), BOLD), edge);
        }
        Row::Session { name, here } => {
            let look = if *here {
                add(coloured(CYAN), BOLD)
            } else {
                with(BOLD)
            };
            let name = match name.0.as_str() {
                HIDDEN_SESSION => "background".to_owned(),
                name => clean::line(name),
            };
            canvas.text_cut(row, 1, &name, look, edge - 1);
        }
        Row::More(count) => {
            canvas.text(row, 1, &format!("… {count} more rows"), with(DIM), edge);
        }
        Row::Thing {
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
                canvas.text(row, 0, "▶", add(coloured(CYAN), BOLD), edge);
            }
            canvas.put(row, 2, Glyph::Char(badge.sign), badge.look, edge);
            let look: FrameStyle = if *focused { with(BOLD) } else { plain() };
            canvas.text_cut(row, 4, name, look, words - 1);
            let text = word.as_deref().filter(|word| !word.is_empty());
            canvas.text_cut(row, words, text.unwrap_or(&badge.word), badge.look, ages);
            if let Some(since) = since {
                let age = format_age(wall.saturating_sub(*since));
                let col = edge.saturating_sub(1 + age.len() as u16);
                canvas.text(row, col, &age, with(DIM), edge);
            }
        }
    }
}
