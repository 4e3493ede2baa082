//! Each call has two parts: a plan, which checks everything and may refuse, and its application, which cannot fail.
//!
//! Planning has no mutable access to core, so a refused call changes nothing.

use fugue_api::{Error, ErrorKind, PaneId};

use crate::{
    AfterCommit, CallId, ClockReading, Core, Effect, PaneRecord, PaneRequest,
    panes::{PaneEntry, PanePhase},
};

/// The application of an accepted call.
pub(crate) struct Plan(Box<ApplyPlan>);

type ApplyPlan = dyn FnOnce(&mut Core);

impl Plan {
    pub fn new(apply: impl FnOnce(&mut Core) + 'static) -> Self {
        Self(Box::new(apply))
    }

    /// A call that changes nothing in core and has one effect, after all earlier commits.
    pub fn when_stored(effect: AfterCommit) -> Self {
        Self::new(move |core| {
            core.cx.out.when_stored().then(effect);
        })
    }

    /// A call that changes nothing in core and has one effect.
    pub fn effect(effect: Effect) -> Self {
        Self::new(move |core| core.cx.out.perform(effect))
    }

    pub fn apply(self, core: &mut Core) {
        (self.0)(core);
    }
}

/// The read-only view of core that plans are made from.
pub(crate) struct Planner<'a> {
    pub core: &'a Core,
    /// A pane of tmux that no call has named before. It is added to the registry when the plan is applied.
    pub discovered: Option<&'a PaneEntry>,
    pub now: ClockReading,
}

impl Planner<'_> {
    /// Records of all panes, the discovered one included.
    pub fn records(&self) -> impl Iterator<Item = &PaneRecord> + Clone {
        let discovered = self.discovered.map(|pane| &pane.record);
        self.core.cx.panes.records().chain(discovered)
    }

    fn is_discovered(&self, id: PaneId) -> bool {
        self.discovered.is_some_and(|pane| pane.record.id == id)
    }

    pub fn pane(&self, id: PaneId) -> Option<&PaneEntry> {
        let discovered = self.discovered.filter(|pane| pane.record.id == id);
        self.core.cx.panes.get(&id).or(discovered)
    }

    /// Resolves the name or id of a pane.
    pub fn resolve(&self, said: &str) -> Result<&PaneEntry, Error> {
        let id = crate::panes::names::resolve(said, self.records())
            .map_err(|error| self.core.cx.forgotten(said).unwrap_or(error))?;
        self.pane(id)
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("pane `{id}` has no entry")))
    }

    /// Sends a request to the task of a pane, or to the archived output of an ended pane.
    pub fn ask(&self, call: CallId, pane: &PaneEntry, request: PaneRequest) -> Result<Plan, Error> {
        let id = pane.record.id;
        Ok(Plan::effect(match pane.phase {
            PanePhase::Opening { .. } => return Err(still_opening(id)),
            PanePhase::Ended => Effect::AskArchive {
                call,
                record: Box::new(pane.record.clone()),
                request,
            },
            // The task of a discovered pane is started after the commit of its record.
            PanePhase::Settling { .. } | PanePhase::Live if self.is_discovered(id) => {
                return Ok(Plan::when_stored(AfterCommit::AskPane {
                    call,
                    pane: id,
                    request,
                }));
            }
            PanePhase::Settling { .. } | PanePhase::Live => Effect::AskPane {
                call,
                pane: id,
                request,
            },
        }))
    }
}

impl PaneEntry {
    /// Refuses a call that needs a pane that has not ended.
    pub fn live(&self) -> Result<(), Error> {
        let Some(ended) = &self.record.ended else {
            return Ok(());
        };
        let id = self.record.id;
        let how = if ended.closed {
            "was closed"
        } else {
            "has exited"
        };
        Err(Error::new(
            ErrorKind::Ended,
            format!("pane `{id}` {how}; nothing can be typed into it"),
        )
        .hint("`read_pane` still reads its output; `create_pane` opens another"))
    }
}

pub(crate) fn still_opening(id: PaneId) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("pane `{id}` is still being opened"),
    )
}
