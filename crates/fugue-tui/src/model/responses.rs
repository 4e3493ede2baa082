//! Responses of the daemon.

use std::time::Instant;

use fugue_api::{
    Error, ErrorKind, PaneId, ToolCall, ToolReply,
    attach::{AttachRequest, AttachResponse, LayoutChange, SessionLayout, SplitSide},
    tools::{CreatePane, GetStatusReply, ReadPane},
    wire::{IdempotencyKey, Request, Response},
};

use super::{
    AttachModel, LeaveReason, MessageTone, ModelEffect, ScreenDamage, VIEW_RETRY_INTERVAL,
    new_shell, requests::RequestPurpose,
};
use crate::clean;

impl AttachModel {
    /// Applies a response and returns the damage.
    pub(super) fn handle_response(
        &mut self,
        why: RequestPurpose,
        answer: Response,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) -> ScreenDamage {
        let mut damage = ScreenDamage::All;
        match (why, answer) {
            (RequestPurpose::Attend, _) => {
                if self.peek.is_none() && !self.creating_pane {
                    effects.push(ModelEffect::Leave(LeaveReason::Empty));
                }
            }
            (
                RequestPurpose::Layout,
                Response::Attach {
                    response: AttachResponse::Layout { layout },
                },
            ) => {
                self.set_layout(layout, effects);
            }
            (
                RequestPurpose::View(pane),
                Response::Attach {
                    response: AttachResponse::Frame { frame },
                },
            ) => {
                if let Some(view) = self.views.get_mut(&pane)
                    && let Some(rows) = view.apply(*frame)
                {
                    damage = ScreenDamage::rows(pane, rows);
                }
                self.update_view_requests(effects);
            }
            (
                RequestPurpose::Lines(pane),
                Response::Attach {
                    response: AttachResponse::Lines { lines },
                },
            ) => {
                if let Some(scroll) = self.scroll_mut(pane) {
                    scroll.add_lines(lines);
                }
                self.fetch_lines(pane, effects);
            }
            (
                RequestPurpose::OverviewVersion,
                Response::Attach {
                    response: AttachResponse::Overview { version },
                },
            ) => {
                self.overview_version = version;
                self.request_overview(now, effects);
            }
            (
                RequestPurpose::Overview,
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::All(overview)),
                },
            ) => {
                self.set_overview(overview);
                let seen = self.overview_version;
                effects.push(self.requests.send_attach(
                    RequestPurpose::OverviewVersion,
                    AttachRequest::WatchOverview { seen },
                ));
            }
            (
                RequestPurpose::PaneCommand(pane),
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                },
            ) => {
                self.commands.insert(pane, status.command);
            }
            (
                RequestPurpose::SplitCwd { of, side },
                Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                },
            ) => self.reserve_split(of, side, Some(status.cwd), effects),
            (RequestPurpose::SplitPlace { made_by, cwd }, _) => self.create(made_by, cwd, effects),
            (RequestPurpose::Create, Response::Tool { reply }) => {
                self.creating_pane = false;
                if let Ok(made) = reply.read_as::<CreatePane>()
                    && made.session == self.session
                {
                    self.peek = None;
                    self.set_focus(made.pane_id, effects);
                }
            }
            (RequestPurpose::Grep(pane), Response::Tool { reply }) => {
                if let Ok(text) = reply.read_as::<ReadPane>() {
                    self.found(pane, &text, now, effects);
                }
            }
            (RequestPurpose::Type(pane), _) => {
                self.input_sent(pane, effects);
                // An accepted key changes nothing on the screen; its echo comes as a frame.
                damage = ScreenDamage::None;
            }
            // The response is only an acknowledgement.
            (RequestPurpose::Close(_) | RequestPurpose::ErrorOnly | RequestPurpose::Fit, _) => {}
            // A response of another kind than requested is ignored.
            (
                RequestPurpose::Layout
                | RequestPurpose::View(_)
                | RequestPurpose::Lines(_)
                | RequestPurpose::Grep(_)
                | RequestPurpose::OverviewVersion
                | RequestPurpose::Overview
                | RequestPurpose::PaneCommand(_)
                | RequestPurpose::SplitCwd { .. }
                | RequestPurpose::Create,
                _,
            ) => {}
        }
        damage
    }

    pub(super) fn handle_error(
        &mut self,
        why: RequestPurpose,
        error: Error,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        match why {
            RequestPurpose::Attend | RequestPurpose::Layout if self.peek.is_none() => {
                effects.push(ModelEffect::Leave(LeaveReason::Refused(error)));
            }
            RequestPurpose::View(pane) => {
                if let Some(view) = self.views.get_mut(&pane) {
                    // The request would fail again, so it waits for the next layout. A pane that is just being opened or
                    // ended is requested again after an interval.
                    view.error = Some(clean::line(&error.message));
                    view.number = 0;
                    if matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Ended) {
                        self.retry_views_at = Some(now + VIEW_RETRY_INTERVAL);
                    }
                }
            }
            RequestPurpose::Type(pane) => {
                self.input_queues.remove(&pane);
                self.show_message(error.message, MessageTone::Bad, now);
            }
            RequestPurpose::SplitCwd { of, side } => self.reserve_split(of, side, None, effects),
            RequestPurpose::Create | RequestPurpose::SplitPlace { .. } => {
                self.creating_pane = false;
                self.show_message(error_text(&error), MessageTone::Bad, now);
            }
            RequestPurpose::Grep(pane) => {
                if let Some(scroll) = self.scroll_mut(pane) {
                    scroll.find = None;
                }
                self.show_message(error_text(&error), MessageTone::Bad, now);
            }
            RequestPurpose::Close(_) | RequestPurpose::ErrorOnly => {
                self.show_message(error_text(&error), MessageTone::Bad, now)
            }
            RequestPurpose::Attend
            | RequestPurpose::Layout
            | RequestPurpose::Fit
            | RequestPurpose::Lines(_)
            | RequestPurpose::OverviewVersion
            | RequestPurpose::Overview
            | RequestPurpose::PaneCommand(_) => {}
        }
    }

    fn set_layout(&mut self, arrangement: SessionLayout, effects: &mut Vec<ModelEffect>) {
        let known: Vec<PaneId> = self.tiles().iter().map(|tile| tile.pane).collect();
        let seen = arrangement.version;
        let here = |pane: &PaneId| arrangement.tiles.iter().any(|tile| tile.pane == *pane);
        let new = arrangement
            .tiles
            .iter()
            .map(|tile| tile.pane)
            .find(|pane| !known.contains(pane));
        let focus = match (self.focus, new) {
            // The new pane of this client has appeared.
            (_, Some(new)) if self.creating_pane && self.layout.is_some() => Some(new),
            (Some(focus), _) if here(&focus) => Some(focus),
            _ => arrangement
                .zoomed
                .or(self.previous_focus.filter(|pane| here(pane)))
                .or(arrangement.tiles.first().map(|tile| tile.pane)),
        };
        self.layout = Some(arrangement);
        match focus {
            Some(pane) => self.set_focus(pane, effects),
            None => self.focus = None,
        }
        let session = self.session.clone();
        let request = AttachRequest::GetLayout { session, seen };
        effects.push(self.requests.send_attach(RequestPurpose::Layout, request));
        self.retry_views(effects);
        self.fit_scrolls();
    }

    /// Requests frames again for panes that could not be shown.
    pub(super) fn retry_views(&mut self, effects: &mut Vec<ModelEffect>) {
        for view in self.views.values_mut() {
            view.error = None;
        }
        self.update_view_requests(effects);
    }

    fn reserve_split(
        &mut self,
        of: PaneId,
        side: SplitSide,
        cwd: Option<String>,
        effects: &mut Vec<ModelEffect>,
    ) {
        let made_by = self.requests.new_key();
        let session = self.session.clone();
        let change = LayoutChange::Split { made_by, of, side };
        let request = AttachRequest::ChangeLayout { session, change };
        effects.push(
            self.requests
                .send_attach(RequestPurpose::SplitPlace { made_by, cwd }, request),
        );
    }

    pub(super) fn create(
        &mut self,
        made_by: IdempotencyKey,
        cwd: Option<String>,
        effects: &mut Vec<ModelEffect>,
    ) {
        self.creating_pane = true;
        let pane = new_shell(&self.session, cwd, self.sent_size);
        let call = ToolCall::from(pane);
        let ask = Request::Tool { call };
        effects.push(
            self.requests
                .send_keyed(made_by, RequestPurpose::Create, ask),
        );
    }
}

fn error_text(error: &Error) -> String {
    match (&error.hint, error.kind) {
        (Some(hint), ErrorKind::InvalidArgument | ErrorKind::Exhausted) => {
            format!("{}; {hint}", error.message)
        }
        _ => error.message.clone(),
    }
}
