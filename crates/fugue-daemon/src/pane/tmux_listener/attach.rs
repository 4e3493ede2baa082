//! How a listener comes to its pane: for the first time, or again after nobody listened for a while.

use std::{collections::VecDeque, fs, io, path::Path, time::Duration};

use fugue_core::TmuxPane;
use fugue_holder::{
    LogWriter, check_alive, find_process,
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

// A picture of a long history is megabytes, and tmux may be busy with a flood.
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(10);

/// What tmux says about where a pane is.
struct AttachedPane {
    server: TmuxServer,
    session: String,
    terminal: String,
}

impl TmuxBackend {
    /// Listens to the pane. `None`: it is gone.
    pub async fn find(whose: TmuxTarget) -> Result<Option<(Self, HelloOk)>, String> {
        let Some(tmux) = whose.record.tmux.clone() else {
            return Err("it is no pane of tmux".into());
        };
        let trouble = |error: io::Error| error.to_string();
        prepare(&whose.pane_dir.dir).map_err(trouble)?;
        let Some(seat) = locate(&tmux, whose.record.pid).await? else {
            return Ok(None);
        };
        let (leader, ended) = match pidfd(whose.record.pid) {
            Ok(found) => found,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(trouble(error)),
        };
        let place = &whose.pane_dir;
        let segment = ChildSpec::segment_for(whose.log_cap);
        let log = LogWriter::open(&place.dir, place.generation, whose.log_cap, segment)
            .map_err(trouble)?;
        let link = ControlClient::attach(&seat.server, &seat.session).map_err(trouble)?;
        let mut listener = Self {
            sender: KeySender::open(&place.dir),
            person: PersonKeys::default(),
            target: whose,
            tmux,
            leader,
            ended,
            terminal: seat.terminal.into(),
            session: seat.session,
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
        listener.synchronize(seat.server).await?;
        let hello = listener.hello();
        Ok(Some((listener, hello)))
    }

    /// After a lost link: the same pane, in whichever session it is now. `None`: it is gone, and that is recorded.
    pub async fn recover(&mut self) -> Result<HelloOk, String> {
        let alive = check_alive(self.leader).map_err(|error| error.to_string())?;
        let found = match alive && self.end_state == ExitReport::Running {
            true => locate(&self.tmux, self.target.record.pid).await?,
            false => None,
        };
        let Some(seat) = found else {
            tracing::info!(pane = %self.target.pane_dir.pane, tmux = self.tmux.id, "tmux has it no longer");
            self.report_end();
            // It is told by the answer to this.
            self.messages.clear();
            return Ok(self.hello());
        };
        self.link = ControlClient::attach(&seat.server, &seat.session)
            .map_err(|error| error.to_string())?;
        self.session = seat.session;
        self.queries.clear();
        self.answer_probes();
        self.sender.forget_current();
        self.phase = OutputPhase::Discard;
        self.synchronize(seat.server).await?;
        self.send_next_input();
        Ok(self.hello())
    }

    /// Takes a picture, and hears from then on what is printed after it.
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
            Ok(Err(error)) => return Err(format!("tmux does not let us listen: {error}")),
            Err(_) => return Err("tmux does not answer".into()),
        }
        let before = std::mem::replace(&mut self.phase, OutputPhase::Write);
        let OutputPhase::Buffer {
            state: facts,
            printed,
        } = before
        else {
            return Ok(());
        };
        let picture = self.fetch_capture(server, facts).await?;
        self.append_capture(&picture)
            .map_err(|error| error.to_string())?;
        self.person.on_attach();
        self.write(printed);
        Ok(())
    }

    /// The parts of a picture are texts that programs chose. Over the link they could pass for tmux's own words, so they
    /// come by a client of their own. (What `save-buffer` writes for a control client is not there yet when it says so.)
    async fn fetch_capture(
        &mut self,
        server: TmuxServer,
        facts: TmuxPaneState,
    ) -> Result<PaneCapture, String> {
        let parts = capture_parts(facts.alternate);
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
            facts,
        })
    }

    fn query_state(&mut self) {
        let facts = self.state_command();
        self.send_query(QueryPurpose::State, &[&facts]);
    }

    fn state_command(&self) -> String {
        let format = quote(FORMAT.as_bytes());
        format!("display-message -p -t {} {format}", self.tmux.id)
    }

    /// Everything in one line of commands, none of which waits, so that nothing is printed between them.
    pub(super) fn capture(&mut self, ok: bool, answers: &[Vec<u8>]) {
        let facts = answers
            .first()
            .and_then(|body| TmuxPaneState::parse(&text(body)));
        let Some(facts) = facts.filter(|_| ok) else {
            return self.report_end();
        };
        let id = self.tmux.id.clone();
        let alternate = facts.alternate;
        let mut commands = vec![self.state_command()];
        for (part, options) in capture_parts(alternate) {
            let buffer = quote(self.buffer_name(part).as_bytes());
            commands.push(format!("capture-pane {options} -b {buffer} -t {id}"));
        }
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        self.send_query(QueryPurpose::Capture { alternate }, &commands);
    }

    pub(super) fn handle_capture(&mut self, ok: bool, alternate: bool, answers: &[Vec<u8>]) {
        let facts = answers
            .first()
            .and_then(|body| TmuxPaneState::parse(&text(body)));
        match facts {
            Some(facts) if facts.dead || facts.pid != self.target.record.pid => self.report_end(),
            Some(facts) if ok && facts.alternate == alternate => {
                self.phase = OutputPhase::Buffer {
                    state: facts,
                    printed: Vec::new(),
                };
            }
            // The screen was switched between the two questions.
            Some(_) => self.query_state(),
            None => self.report_end(),
        }
    }

    /// The log begins with the picture, or is brought up to date by it.
    fn append_capture(&mut self, picture: &PaneCapture) -> io::Result<()> {
        let size = (picture.facts.rows, picture.facts.cols);
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
                "what tmux has now does not follow what was known; all of it was added, and some may be there twice"
            );
        }
        self.write(bytes);
        Ok(())
    }

    /// What a reader of the log sees on the main screen.
    fn known_rows(&self, size: (u16, u16)) -> io::Result<Vec<String>> {
        let TmuxTarget {
            pane_dir: place,
            record,
            keep_lines,
            ..
        } = &self.target;
        let mut follower = LogFollower::open(
            &place.dir,
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

/// What a picture is made of, and how tmux is asked for it.
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

/// Where the pane is now; `None` if it, its process or its server is not the one that is meant.
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
