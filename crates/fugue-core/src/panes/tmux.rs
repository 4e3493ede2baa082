//! Panes of tmux: discovering existing ones, and placing new ones.

use fugue_api::{PaneId, SessionName, overview::TmuxRow, wire::IdempotencyKey};

use super::{PaneEntry, PanePhase, Panes};
use crate::{
    AdoptMode, AfterCommit, Change, ClockReading, Counter, LaunchEnv, PaneAdoption, PaneRecord,
    TmuxPaneInfo, Undo, context::StepBuilder,
};

impl Panes {
    /// Whether a name resolves to a known pane, so that tmux need not be queried.
    pub fn has_pane_named(&self, said: &str) -> bool {
        super::names::resolve(said, self.records()).is_ok()
    }

    /// Rows of the panes of tmux that are not recorded.
    pub fn undiscovered_rows(&self, found: Vec<TmuxPaneInfo>) -> Vec<TmuxRow> {
        let unmet = found
            .into_iter()
            .filter(|found| self.discovered_pane(found).is_none());
        unmet
            .map(|found| TmuxRow {
                pane_id: found.pane.id,
                session: found.session,
                window: found.window,
                command: found.command,
            })
            .collect()
    }

    /// The live pane that is recorded for a pane of tmux.
    pub fn discovered_pane(&self, found: &TmuxPaneInfo) -> Option<PaneId> {
        let mut live = self.live();
        live.find(|record| record.is_tmux(&found.pane))
            .map(|record| record.id)
    }

    /// The entry for a pane of tmux that a call names for the first time. The pane keeps its id until it ends.
    pub fn discovered(
        &self,
        found: TmuxPaneInfo,
        key: IdempotencyKey,
        now: ClockReading,
    ) -> PaneEntry {
        let record = PaneRecord {
            id: PaneId(self.next),
            session: SessionName::parse(&found.session).unwrap_or_default(),
            name: found.window,
            command: found.command,
            cwd: found.cwd,
            size: found.size,
            created_at: now.wall,
            made_by: key,
            opened_by: None,
            secret: String::new(),
            tmux: Some(found.pane),
            agent: None,
            generation: 1,
            pid: found.pid,
            closing: false,
            ended: None,
            removing: false,
        };
        PaneEntry::new(record, PanePhase::Live)
    }

    /// Adds a discovered pane to the registry and adopts it.
    pub fn enter_discovered(&mut self, pane: PaneEntry, out: &mut StepBuilder) {
        let record = pane.record.clone();
        self.next = record.id.0 + 1;
        self.insert(pane);
        out.commit([
            Change::SetCounter(Counter::NextPane, self.next),
            Change::put(record.clone()),
        ])
        .or_undo(Undo::Pane(record.id));
        let adoption = PaneAdoption {
            record,
            steps: None,
            how: AdoptMode::Terminal,
        };
        out.when_stored()
            .then(AfterCommit::AdoptPane(Box::new(adoption)));
    }

    /// The shell command that attaches to a pane.
    pub fn attach_command(&self, pane: PaneId) -> String {
        let tmux = self.get(&pane).and_then(|pane| pane.record.tmux.as_ref());
        match tmux {
            None => format!("fugue attach {pane}"),
            Some(tmux) => format!("tmux -S {} attach -t {}", quoted(&tmux.socket), tmux.id),
        }
    }
}

/// Quotes a path for a shell.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-,+@".contains(c);
    if path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// The tmux session that a new pane is made in.
pub(crate) fn session_of(launch_env: &LaunchEnv) -> Option<String> {
    launch_env.tmux.as_ref()?.session().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use fugue_api::{
        ToolCall,
        tools::PaneSize,
        wire::{IdempotencyKey, Request},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        CallId, CallRequest, CoreInput, ExitStatus, PaneEvent, TmuxLookup, TmuxOrigin, TmuxPane,
        assess::WatchSettings,
        core::tests::{Story, caller},
        settings::Settings,
    };

    fn found(id: &str) -> TmuxPaneInfo {
        TmuxPaneInfo {
            pane: TmuxPane {
                socket: "/tmp/tmux-0/default".into(),
                server: 77,
                id: id.into(),
                origin: TmuxOrigin::Found,
            },
            session: "work".into(),
            window: "editor".into(),
            pid: 4242,
            command: "vim".into(),
            cwd: "/home".into(),
            size: PaneSize { rows: 24, cols: 80 },
        }
    }

    fn call(story: &mut Story, number: u64, tool: &str, args: Value, tmux: TmuxLookup) -> String {
        let call = ToolCall::parse(tool, args).expect("a good request");
        let asked = CallRequest {
            key: IdempotencyKey([number as u8; 16]),
            who: story.who.clone(),
            within: None,
            caller: caller(),
            request: Request::Tool { call },
            launch_envs: Ok(vec![LaunchEnv {
                cwd: "/".into(),
                shell: "/bin/bash".into(),
                secret: String::new(),
                tmux: None,
            }]),
            watch: Some(Box::new(WatchSettings::default())),
            tmux,
        };
        let call = CallId(number);
        story.step(CoreInput::Call { call, asked })
    }

    fn one(id: &str) -> TmuxLookup {
        TmuxLookup::One(Box::new(Ok(found(id))))
    }

    #[test]
    fn a_pane_of_tmux_is_met_once_and_asked_by_its_own_name() {
        let mut story = Story::new(Settings::default());
        let read = json!({"pane_id": "%5"});
        let first = call(&mut story, 1, "read_pane", read.clone(), one("%5"));
        assert!(first.contains("commit 2, adopt p1, ask p1"), "{first}");
        let again = call(&mut story, 2, "read_pane", read, one("%5"));
        assert!(!again.contains("adopt"), "{again}");
        let other = call(
            &mut story,
            3,
            "get_status",
            json!({"pane_id": "%6"}),
            one("%6"),
        );
        assert!(other.contains("adopt p2"), "{other}");
    }

    #[test]
    fn one_that_has_ended_is_not_the_one_that_has_its_number_now() {
        let mut story = Story::new(Settings::default());
        let read = json!({"pane_id": "%5"});
        call(&mut story, 1, "read_pane", read.clone(), one("%5"));
        story.fact(
            1,
            PaneEvent::Ended {
                exit: ExitStatus::Unknown,
                cursor: crate::view::start(),
                title: String::new(),
                alone: true,
                sweeps: false,
                lost_by_reboot: false,
            },
        );
        let next = call(&mut story, 2, "read_pane", read, one("%5"));
        assert!(next.contains("adopt p2"), "{next}");
    }

    #[test]
    fn a_window_can_be_watched_and_says_how_to_look_at_it() {
        let mut story = Story::new(Settings::default());
        let plan = json!({"tmux_window": "work:editor", "strategy_plan": "write it"});
        let watching = call(&mut story, 1, "watch_me", plan, one("%5"));
        assert_eq!(watching, "commit 4, adopt p1, answer 1");
        assert_eq!(
            story.told(1)["attach_cmd"],
            "tmux -S /tmp/tmux-0/default attach -t %5"
        );
        let report = json!({"tmux_window": "work:editor", "status_report": "half way"});
        call(&mut story, 2, "look_ma", report, one("%5"));
        assert_eq!(story.told(2)["status"], "recorded+waiting");
    }

    #[test]
    fn what_tmux_has_not_got_is_refused_in_its_words() {
        let mut story = Story::new(Settings::default());
        let error = fugue_api::Error::invalid("no pane `%9` in tmux");
        let refused = call(
            &mut story,
            1,
            "read_pane",
            json!({"pane_id": "%9"}),
            TmuxLookup::One(Box::new(Err(error))),
        );
        assert_eq!(refused, "refuse 1 InvalidArgument");
    }

    #[test]
    fn an_overview_lists_those_that_nobody_has_named() {
        let mut story = Story::new(Settings::default());
        call(
            &mut story,
            1,
            "read_pane",
            json!({"pane_id": "%5"}),
            one("%5"),
        );
        let rows = story
            .core
            .cx
            .panes
            .undiscovered_rows(vec![found("%5"), found("%6")]);
        let ids: Vec<_> = rows.iter().map(|row| row.pane_id.as_str()).collect();
        assert_eq!(ids, ["%6"]);
    }

    #[test]
    fn a_socket_with_blanks_can_still_be_typed() {
        assert_eq!(quoted("/tmp/a b/it's"), r"'/tmp/a b/it'\''s'");
        assert_eq!(quoted("/tmp/tmux-0/default"), "/tmp/tmux-0/default");
    }
}
