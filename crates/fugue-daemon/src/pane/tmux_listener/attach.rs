//! Attaches a tmux backend to its pane, for the first time or after a gap: a capture of tmux's text brings the output log
//! up to date.

use std::{collections::VecDeque, fs, io, path::Path, time::Duration};

use fugue_core::TmuxPane;
use fugue_holder::{
    TmuxLogWriter, check_alive, find_process,
    spawn::ProcessExit,
    wire::{ChildExit, ChildSpec, ChildState, HelloOk, VERSION},
};
use fugue_term::TerminalSize;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{
    ExitReport, KeySender, OutputPhase, PaneCapture, PersonKeys, QueryPurpose, TmuxBackend,
    TmuxPaneState, TmuxTarget, pidfd, text,
};
use crate::{
    replay::{CheckpointPolicy, LogFollower, ReplayDepth},
    tmux::{
        capture::{CaptureFit, FORMAT},
        control::quote,
        control_client::ControlClient,
        server::{TmuxError, TmuxServer},
    },
};

// A capture of a long history is megabytes, and tmux may be busy with another pane's output.
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(10);

/// The location of a pane in tmux.
struct AttachedPane {
    server: TmuxServer,
    session: String,
    terminal: String,
}

impl TmuxBackend {
    /// Attaches to the pane. `None` if the pane is gone.
    pub async fn find(target: TmuxTarget) -> Result<Option<(Self, HelloOk)>, String> {
        let Some(tmux) = target.record.tmux.clone() else {
            return Err("not a pane of tmux".into());
        };
        let trouble = |error: io::Error| error.to_string();
        prepare(&target.pane_dir.dir).map_err(trouble)?;
        let Some(location) = locate(&tmux, target.record.pid).await? else {
            return Ok(None);
        };
        let (leader, ended) = match pidfd(target.record.pid) {
            Ok(found) => found,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(trouble(error)),
        };
        let place = &target.pane_dir;
        let segment = ChildSpec::segment_for(target.log_cap);
        let log = TmuxLogWriter::open(&place.dir, place.generation, target.log_cap, segment)
            .map_err(trouble)?;
        let link = ControlClient::attach(&location.server, &location.session).map_err(trouble)?;
        let mut listener = Self {
            sender: KeySender::open(&place.dir),
            person: PersonKeys::default(),
            target,
            tmux,
            leader,
            ended,
            terminal: location.terminal.into(),
            session: location.session,
            link,
            queries: VecDeque::new(),
            log,
            size: (0, 0),
            phase: OutputPhase::Discard,
            unwritten: Vec::new(),
            retry_at: Instant::now(),
            closing: None,
            messages: VecDeque::new(),
            grew: false,
            end_state: ExitReport::Running,
        };
        listener.synchronize(location.server).await?;
        let hello = listener.hello();
        Ok(Some((listener, hello)))
    }

    /// Attaches again after a lost connection, in the pane's present session. The exit of a pane that is gone is recorded.
    pub async fn recover(&mut self) -> Result<HelloOk, String> {
        let alive = check_alive(self.leader).map_err(|error| error.to_string())?;
        let found = match alive && self.end_state == ExitReport::Running {
            true => locate(&self.tmux, self.target.record.pid).await?,
            false => None,
        };
        let Some(location) = found else {
            tracing::info!(pane = %self.target.pane_dir.pane, tmux = self.tmux.id, "pane gone from tmux");
            self.report_end();
            // The hello contains the exit.
            self.messages.clear();
            return Ok(self.hello());
        };
        self.link = ControlClient::attach(&location.server, &location.session)
            .map_err(|error| error.to_string())?;
        self.session = location.session;
        self.queries.clear();
        self.answer_probes();
        self.sender.forget_current();
        self.phase = OutputPhase::Discard;
        self.synchronize(location.server).await?;
        self.send_next_input();
        Ok(self.hello())
    }

    /// Captures the pane, appends the capture to the log, and from then on appends the output that follows.
    async fn synchronize(&mut self, server: TmuxServer) -> Result<(), String> {
        self.query_state();
        let heard = async {
            while matches!(self.phase, OutputPhase::Discard)
                && self.end_state != ExitReport::Reported
            {
                for said in self.link.next().await? {
                    self.handle_event(said)?;
                }
            }
            io::Result::Ok(())
        };
        match timeout(CAPTURE_TIMEOUT, heard).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("tmux refused the capture: {error}")),
            Err(_) => return Err("tmux does not answer".into()),
        }
        let before = std::mem::replace(&mut self.phase, OutputPhase::Write);
        let OutputPhase::Buffer { state, printed } = before else {
            return Ok(());
        };
        let picture = self.fetch_capture(server, state).await?;
        self.append_capture(&picture)
            .map_err(|error| error.to_string())?;
        self.person.on_attach();
        self.write(printed);
        Ok(())
    }

    /// Fetches the parts of a capture through a separate tmux client: on the control connection, a program's text could be
    /// taken for tmux's own messages. (`save-buffer` of a control client answers before its file is written.)
    async fn fetch_capture(
        &mut self,
        server: TmuxServer,
        state: TmuxPaneState,
    ) -> Result<PaneCapture, String> {
        let parts = capture_parts(state.alternate);
        let names: Vec<String> = parts
            .iter()
            .map(|(part, _)| self.buffer_name(part))
            .collect();
        let asks = names.clone();
        let fetched = spawn_blocking(move || {
            let fetch = |name: &String| server.fetch(&["show-buffer", "-b", name]);
            asks.iter()
                .map(fetch)
                .collect::<Result<Vec<String>, TmuxError>>()
        });
        let fetched = fetched.await.map_err(|error| error.to_string())?;
        for name in &names {
            let forget = format!("delete-buffer -b {}", quote(name.as_bytes()));
            self.send_query(QueryPurpose::Cleanup, &[&forget]);
        }
        let texts = fetched.map_err(|refused| refused.to_string())?;
        let text = |wanted: &str| {
            let at = parts.iter().position(|(part, _)| *part == wanted);
            at.and_then(|at| texts.get(at).cloned()).unwrap_or_default()
        };
        Ok(PaneCapture {
            all: text("all"),
            rows: text("rows"),
            behind: text("behind"),
            front: text("front"),
            history: text("history"),
            state,
        })
    }

    fn query_state(&mut self) {
        let command = self.state_command();
        self.send_query(QueryPurpose::State, &[&command]);
    }

    fn state_command(&self) -> String {
        let format = quote(FORMAT.as_bytes());
        format!("display-message -p -t {} {format}", self.tmux.id)
    }

    /// Sends one line of commands, none of which blocks, so that tmux processes no output between them.
    pub(super) fn capture(&mut self, ok: bool, answers: &[Vec<u8>]) {
        let state = answers
            .first()
            .and_then(|body| TmuxPaneState::parse(&text(body)));
        let Some(state) = state.filter(|_| ok) else {
            return self.report_end();
        };
        let id = self.tmux.id.clone();
        let alternate = state.alternate;
        let mut commands = vec![self.state_command()];
        for (part, options) in capture_parts(alternate) {
            let buffer = quote(self.buffer_name(part).as_bytes());
            commands.push(format!("capture-pane {options} -b {buffer} -t {id}"));
        }
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        self.send_query(QueryPurpose::Capture { alternate }, &commands);
    }

    pub(super) fn handle_capture(&mut self, ok: bool, alternate: bool, answers: &[Vec<u8>]) {
        let state = answers
            .first()
            .and_then(|body| TmuxPaneState::parse(&text(body)));
        match state {
            Some(state) if state.dead || state.pid != self.target.record.pid => self.report_end(),
            Some(state) if ok && state.alternate == alternate => {
                self.phase = OutputPhase::Buffer {
                    state,
                    printed: Vec::new(),
                };
            }
            // The program switched screens between the two queries.
            Some(_) => self.query_state(),
            None => self.report_end(),
        }
    }

    /// Appends the whole capture to an empty log, or the lines that a longer log lacks.
    fn append_capture(&mut self, picture: &PaneCapture) -> io::Result<()> {
        let size = (picture.state.rows, picture.state.cols);
        if self.log.end_offset() == 0 {
            self.log.append_size(size.0, size.1)?;
            self.size = size;
            self.write(picture.whole());
            return Ok(());
        }
        let known = self.known_rows(size)?;
        if size != self.size {
            self.log.append_size(size.0, size.1)?;
            self.size = size;
            self.messages
                .push_back(fugue_holder::wire::ToDaemon::Resized {
                    rows: size.0,
                    cols: size.1,
                });
        }
        let (bytes, fit) = picture.since(&known);
        if fit == CaptureFit::Unknown {
            tracing::warn!(
                pane = %self.target.pane_dir.pane,
                "tmux capture does not continue the log; appended whole, some lines may be repeated"
            );
        }
        self.write(bytes);
        Ok(())
    }

    /// The rows of the main screen according to the log.
    fn known_rows(&self, size: (u16, u16)) -> io::Result<Vec<String>> {
        let TmuxTarget {
            pane_dir,
            record,
            keep_lines,
            ..
        } = &self.target;
        let mut follower = LogFollower::open(
            &pane_dir.dir,
            record,
            *keep_lines,
            ReplayDepth::Recent,
            CheckpointPolicy::None,
        )?;
        follower.catch_up()?;
        let mut terminal = follower.terminal;
        terminal.feed(b"\x1b[?1049l");
        terminal.resize(TerminalSize {
            rows: size.0,
            cols: size.1,
        });
        Ok(terminal.screen().rows().collect())
    }

    fn hello(&self) -> HelloOk {
        let exited = ChildExit {
            ending: ProcessExit::Unknown,
            output_end: self.log.end_offset(),
        };
        let child = self.leader;
        HelloOk {
            version: VERSION,
            holder: 0,
            generation: self.target.pane_dir.generation,
            lossless: false,
            state: match self.end_state {
                ExitReport::Running | ExitReport::Draining => ChildState::Running(child),
                ExitReport::Reported => ChildState::Exited { child, exited },
            },
            log_end: self.log.end_offset(),
            last_input_seq: 0,
            answered_upto: u64::MAX,
            rows: self.size.0,
            cols: self.size.1,
            stalled: None,
            closing: self.closing.is_some(),
            child_pidfd: false,
            kept: 0,
        }
    }
}

/// The parts of a capture, and the options of `capture-pane` for each.
fn capture_parts(alternate: bool) -> &'static [(&'static str, &'static str)] {
    match alternate {
        false => &[("all", "-e -J -S -"), ("rows", "-S -")],
        true => &[
            ("history", "-e -J -S - -E -1"),
            ("behind", "-e -J -a"),
            ("front", "-e"),
        ],
    }
}

fn prepare(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)
}

/// Finds the pane in tmux. `None` if the server, the pane or its process is gone or another.
async fn locate(tmux: &TmuxPane, pid: u32) -> Result<Option<AttachedPane>, String> {
    let process = find_process(pid.cast_signed()).map_err(|error| error.to_string())?;
    if process.is_none() {
        return Ok(None);
    }
    let tmux = tmux.clone();
    let asked = spawn_blocking(move || {
        let server = TmuxServer::at(Path::new(&tmux.socket)).map_err(|error| error.to_string())?;
        let what = "#{pid}\t#{pane_pid}\t#{session_id}\t#{pane_tty}";
        let said = match server.ask(&["display-message", "-p", "-t", &tmux.id, what]) {
            Ok(said) => said,
            Err(TmuxError::NoServer(_)) => return Ok(None),
            Err(refused) => return Err(refused.to_string()),
        };
        let parts: Vec<&str> = said.trim_end().split('\t').collect();
        let [server_pid, pane_pid, session, terminal] = parts[..] else {
            return Ok(None);
        };
        let same = server_pid == tmux.server.to_string() && pane_pid == pid.to_string();
        Ok(same.then(|| AttachedPane {
            session: session.to_owned(),
            terminal: terminal.to_owned(),
            server,
        }))
    });
    asked.await.map_err(|error| error.to_string())?
}
