//! Calls of the watcher's tools, checked before anything is done.

use fugue_api::{
    Error, ErrorKind, PaneId, ToolReply,
    tools::{Clear, LookMa, Pause, WatchMe},
    wire::{CallerEnv, CallerIdentity},
};

use super::own_pane;
use crate::{
    AfterCommit,
    calls::{
        CallOrigin,
        plan::{Plan, Planner},
    },
    panes::PaneEntry,
};

// The limit of reports that wait. Reports come faster than assessments only for a short time.
const MAX_REPORTS: usize = 100;

impl Planner<'_> {
    /// The pane of a watcher call: the named one, else the caller's own, else the one that the caller watched last.
    pub fn window(
        &self,
        who: &CallerIdentity,
        caller: &CallerEnv,
        said: Option<&str>,
    ) -> Result<PaneId, Error> {
        if let Some(said) = said {
            return Ok(self.resolve(said)?.record.id);
        }
        let own = own_pane(caller).and_then(|own| self.pane(own));
        if let Some(own) = own.filter(|own| own.live().is_ok()) {
            return Ok(own.record.id);
        }
        let owner = self.core.team.inbox(who);
        let last = self.core.watchers.all.values().rev();
        let mut last = last.filter(|watcher| watcher.record.owner == owner);
        last.next()
            .map(|watcher| watcher.record.pane)
            .ok_or_else(|| {
                let live = self.core.live_panes();
                let live: Vec<String> = live.map(|pane| pane.to_string()).collect();
                Error::invalid("tmux_window: is missing, and the caller runs in no pane of fugue's")
                    .hint(if live.is_empty() {
                        "no panes are live; `create_pane` opens one".to_owned()
                    } else {
                        format!("live panes: {}", live.join(", "))
                    })
            })
    }

    /// The watcher of a pane, or an error.
    fn watcher_of(&self, pane: PaneId) -> Result<u64, Error> {
        self.core.watchers.watcher_of_pane(pane).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("pane `{pane}` is not watched"))
                .hint("`watch_me` begins it")
        })
    }

    pub fn watch_me(&self, asking: CallOrigin, args: WatchMe) -> Result<Plan, Error> {
        let pane = self.window(&asking.who, &asking.caller, args.tmux_window.as_deref())?;
        self.pane(pane).map_or(Ok(()), PaneEntry::live)?;
        let launch_env = asking.launch_envs.clone()?.into_iter().next();
        let settings = *asking
            .watch
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no settings were looked up"))?;
        let owner = self.core.team.owner(&asking.who);
        Ok(Plan::new(move |core| {
            core.watchers.watch_me(
                asking,
                owner,
                args,
                pane,
                launch_env,
                settings,
                &mut core.cx,
            );
        }))
    }

    pub fn look_ma(&self, asking: &CallOrigin, args: LookMa) -> Result<Plan, Error> {
        let (call, key) = (asking.call, asking.key);
        let pane = self.window(&asking.who, &asking.caller, args.tmux_window.as_deref())?;
        let number = self.watcher_of(pane)?;
        let watcher = self.core.watchers.all.get(&number);
        if let Some(watcher) = watcher.filter(|watcher| watcher.record.report_keys.contains(&key)) {
            let reply = ToolReply::LookMa(watcher.report_reply());
            return Ok(Plan::when_stored(AfterCommit::tool_reply(call, reply)));
        }
        if watcher.is_some_and(|watcher| watcher.record.reports.len() >= MAX_REPORTS) {
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!("{MAX_REPORTS} reports wait already; this one was not recorded"),
            )
            .hint("`get_status` says what the watcher does"));
        }
        Ok(Plan::new(move |core| {
            core.watchers
                .look_ma((call, key), number, args, &mut core.cx.out);
        }))
    }

    pub fn pause(&self, asking: &CallOrigin, args: &Pause) -> Result<Plan, Error> {
        let call = asking.call;
        let pane = self.window(&asking.who, &asking.caller, args.tmux_window.as_deref())?;
        let number = self.watcher_of(pane)?;
        Ok(Plan::new(move |core| {
            core.watchers.pause(call, number, pane, &mut core.cx);
        }))
    }

    pub fn clear(&self, asking: &CallOrigin, args: &Clear) -> Result<Plan, Error> {
        let call = asking.call;
        let pane = self.window(&asking.who, &asking.caller, args.tmux_window.as_deref())?;
        Ok(Plan::new(move |core| {
            core.watchers.clear(call, pane, &mut core.cx.out);
        }))
    }
}
