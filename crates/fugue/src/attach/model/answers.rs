//! What the daemon answers, and what follows from it.

use std::time::Instant;

use fugue_api::{
    Error, ErrorKind, PaneId, ToolCall, ToolReply,
    attach::{AttachRequest, AttachResponse, LayoutChange, SessionLayout, SplitSide},
    tools::{CreatePane, GetStatusReply, ReadPane},
    wire::{IdempotencyKey, Request, Response},
};

use super::{Effect, LOOK_AGAIN, Leave, Model, Stale, Tone, asks::Why, new_shell};
use crate::attach::clean;

impl Model {
    /// Gives what is to be drawn anew.
    pub(super) fn answered(
        &mut self,
        why: Why,
        answer: Response,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> Stale {
        let mut stale = Stale::All;
        match (why, answer) {
            (Why::Attend, _) => {
                if self.peek.is_none() && !self.making {
                    effects.push(Effect::Leave(Leave::Empty));
                }
            }
            (
                Why::Arrangement,
                Response::Looked {
                    found: AttachResponse::Arrangement { arrangement },
                },
            ) => {
                self.take_arrangement(arrangement, effects);
            }
            (
                Why::View(pane),
                Response::Looked {
                    found: AttachResponse::Frame { frame },
                },
            ) => {
                if let Some(view) = self.views.get_mut(&pane)
                    && let Some(rows) = view.take(*frame)
                {
                    stale = Stale::inside(pane, rows);
                }
                self.watch(effects);
            }
            (
                Why::Lines(pane),
                Response::Looked {
                    found: AttachResponse::Lines { lines },
                },
            ) => {
                if let Some(scroll) = self.scroll_mut(pane) {
                    scroll.take(lines);
                }
                self.fetch_lines(pane, effects);
            }
            (
                Why::News,
                Response::Looked {
                    found: AttachResponse::News { version },
                },
            ) => {
                self.facts_version = version;
                self.ask_facts(now, effects);
            }
            (
                Why::Everything,
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::All(facts)),
                },
            ) => {
                self.take_facts(facts);
                let seen = self.facts_version;
                effects.push(self.asks.look(Why::News, AttachRequest::News { seen }));
            }
            (
                Why::Learn(pane),
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                },
            ) => {
                self.commands.insert(pane, status.command);
            }
            (
                Why::Whereabouts { of, side },
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                },
            ) => self.make_beside(of, side, Some(status.cwd), effects),
            (Why::Beside { made_by, cwd }, _) => self.create(made_by, cwd, effects),
            (Why::Create, Response::Tool { reply }) => {
                self.making = false;
                if let Ok(made) = reply.read_as::<CreatePane>()
                    && made.session == self.session
                {
                    self.peek = None;
                    self.set_focus(made.pane_id, effects);
                }
            }
            (Why::Grep(pane), Response::Tool { reply }) => {
                if let Ok(text) = reply.read_as::<ReadPane>() {
                    self.found(pane, &text, now, effects);
                }
            }
            (Why::Type(pane), _) => {
                self.typed(pane, effects);
                // That a key was taken is no news to anybody who looks.
                stale = Stale::Nothing;
            }
            // Nothing is told but that it is so; or it is something that this client does not know.
            (_, _) => {}
        }
        stale
    }

    pub(super) fn refused(
        &mut self,
        why: Why,
        error: Error,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        match why {
            Why::Attend | Why::Arrangement if self.peek.is_none() => {
                effects.push(Effect::Leave(Leave::Refused(error)));
            }
            Why::View(pane) => {
                if let Some(view) = self.views.get_mut(&pane) {
                    // Not asked again before the panes lie differently: it would be refused again. One that is just
                    // being opened or ended is asked for again after a moment.
                    view.trouble = Some(clean::line(&error.message));
                    view.number = 0;
                    if matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Ended) {
                        self.look_again_at = Some(now + LOOK_AGAIN);
                    }
                }
            }
            Why::Type(pane) => {
                self.typing.remove(&pane);
                self.say(error.message, Tone::Bad, now);
            }
            Why::Whereabouts { of, side } => self.make_beside(of, side, None, effects),
            Why::Create | Why::Beside { .. } => {
                self.making = false;
                self.say(told(&error), Tone::Bad, now);
            }
            Why::Grep(pane) => {
                if let Some(scroll) = self.scroll_mut(pane) {
                    scroll.find = None;
                }
                self.say(told(&error), Tone::Bad, now);
            }
            Why::Close(_) | Why::Nothing => self.say(told(&error), Tone::Bad, now),
            Why::Attend
            | Why::Arrangement
            | Why::Fit
            | Why::Lines(_)
            | Why::News
            | Why::Everything
            | Why::Learn(_) => {}
        }
    }

    fn take_arrangement(&mut self, arrangement: SessionLayout, effects: &mut Vec<Effect>) {
        let known: Vec<PaneId> = self.tiles().iter().map(|tile| tile.pane).collect();
        let seen = arrangement.version;
        let here = |pane: &PaneId| arrangement.tiles.iter().any(|tile| tile.pane == *pane);
        let new = arrangement
            .tiles
            .iter()
            .map(|tile| tile.pane)
            .find(|pane| !known.contains(pane));
        let focus = match (self.focus, new) {
            // The pane that was asked for is there.
            (_, Some(new)) if self.making && self.arrangement.is_some() => Some(new),
            (Some(focus), _) if here(&focus) => Some(focus),
            _ => arrangement
                .zoomed
                .or(self.before.filter(|pane| here(pane)))
                .or(arrangement.tiles.first().map(|tile| tile.pane)),
        };
        self.arrangement = Some(arrangement);
        match focus {
            Some(pane) => self.set_focus(pane, effects),
            None => self.focus = None,
        }
        let session = self.session.clone();
        let look = AttachRequest::Arrangement { session, seen };
        effects.push(self.asks.look(Why::Arrangement, look));
        self.look_again(effects);
        self.fit_scrolls();
    }

    /// Panes that could not be shown are asked for again.
    pub(super) fn look_again(&mut self, effects: &mut Vec<Effect>) {
        for view in self.views.values_mut() {
            view.trouble = None;
        }
        self.watch(effects);
    }

    fn make_beside(
        &mut self,
        of: PaneId,
        side: SplitSide,
        cwd: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let made_by = self.asks.key();
        let session = self.session.clone();
        let change = LayoutChange::Beside { made_by, of, side };
        let look = AttachRequest::Arrange { session, change };
        effects.push(self.asks.look(Why::Beside { made_by, cwd }, look));
    }

    pub(super) fn create(
        &mut self,
        made_by: IdempotencyKey,
        cwd: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        self.making = true;
        let pane = new_shell(&self.session, cwd, self.fitted);
        let call = ToolCall::from(pane);
        let ask = Request::Tool { call };
        effects.push(self.asks.ask_as(made_by, Why::Create, ask));
    }
}

fn told(error: &Error) -> String {
    match (&error.hint, error.kind) {
        (Some(hint), ErrorKind::InvalidArgument | ErrorKind::Exhausted) => {
            format!("{}; {hint}", error.message)
        }
        _ => error.message.clone(),
    }
}
