#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use fugue_api::{
    PaneId,
    overview::Overview,
    pane_placement::Backend,
    pane_state::PaneState,
    tools::{ClosePaneReply, CreatePaneReply, PaneStatus, ReadPaneReply, SendInputReply},
    wire::DaemonStatus,
};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::{
    process_ref::{ProcessRef, ProcessWaiter, processes_in},
    program::{ProgramOutput, RunningProgram},
    supervisor::SyscallSupervisor,
    wait::{poll_until, until},
};

/// The pane backend of every test environment in this run: `FUGUE_TEST_BACKEND=tmux` runs the same tests on panes of a
/// private tmux server.
pub fn test_backend() -> Backend {
    match std::env::var("FUGUE_TEST_BACKEND").as_deref() {
        Ok("tmux") => Backend::Tmux,
        Ok("native") | Err(_) => Backend::Native,
        Ok(other) => panic!("FUGUE_TEST_BACKEND: wanted native or tmux, got {other}"),
    }
}

/// Whether the current test does not apply to panes of tmux and must return. If so, the reason is printed.
pub fn skip_on_tmux(reason: &str) -> bool {
    let skipped = test_backend() == Backend::Tmux;
    if skipped {
        let test = thread::current().name().unwrap_or("?").to_owned();
        print_stderr(&format!("NOT ON TMUX: {test}: {reason}"));
    }
    skipped
}

/// How long a verb may take. Far longer than necessary: the machine that runs the tests may be busy.
const VERB_TIMEOUT: Duration = Duration::from_secs(60);

/// A private environment: HOME, XDG directories and a working directory that no other test uses.
pub struct TestEnv {
    dir: TempDir,
    binary: PathBuf,
    env: Vec<(String, String)>,
    /// Daemons that are children of the test process.
    children: Mutex<Vec<Child>>,
    /// A test has started a tmux server.
    has_tmux: AtomicBool,
    /// Every program of this environment is started under this supervisor, which outlives all programs: dropping the
    /// environment kills them first.
    supervisor: Option<SyscallSupervisor>,
    // Dropped with the environment, which ends the watchdog.
    _alive: mpsc::Sender<()>,
}

impl TestEnv {
    /// `binary` is the fugue to run (`env!("CARGO_BIN_EXE_fugue")` in a test). `limit` is how long the test may take:
    /// afterwards the whole test process is aborted, and the environment's processes are killed.
    pub fn new(binary: impl AsRef<Path>, limit: Duration) -> Self {
        // Short, because the path of a socket is limited to 107 bytes. `FUGUE_WORLDS` moves the directories to another
        // disk for measurements.
        let directories = std::env::var_os("FUGUE_WORLDS").unwrap_or("/tmp".into());
        let dir = tempfile::Builder::new()
            .prefix("fg")
            .rand_bytes(5)
            .tempdir_in(directories)
            .expect("a directory for the environment");
        for sub in ["home", "run", "state", "config", "work"] {
            let path = dir.path().join(sub);
            fs::create_dir(&path).expect("a directory of the environment");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("its permissions");
        }
        let alive = start_watchdog(limit, dir.path());
        let test_env = Self {
            binary: binary.as_ref().to_owned(),
            env: Vec::new(),
            children: Mutex::default(),
            has_tmux: AtomicBool::new(false),
            supervisor: None,
            _alive: alive,
            dir,
        };
        if test_backend() == Backend::Tmux {
            test_env.configure("");
        }
        // Shells without an rc file start a dialog for new users.
        for rc in [".bashrc", ".zshrc"] {
            fs::write(test_env.home().join(rc), "").expect("an empty rc file");
        }
        test_env
    }

    /// Sets a variable for every program started from now on.
    pub fn set_env(&mut self, name: &str, value: impl AsRef<Path>) {
        let value = value.as_ref().to_string_lossy().into_owned();
        self.env.push((name.to_owned(), value));
    }

    /// Writes `config.toml`, which a daemon reads on start.
    pub fn configure(&self, toml: &str) {
        let dir = self.dir.path().join("config/fugue");
        fs::create_dir_all(&dir).expect("the configuration's directory");
        let backend = match test_backend() {
            Backend::Native => "",
            Backend::Tmux => "backend = \"tmux\"\n",
        };
        let text = format!("{backend}{toml}");
        fs::write(dir.join("config.toml"), text).expect("the configuration");
    }

    /// Starts every program from now on under this supervisor.
    pub fn supervise(&mut self, supervisor: SyscallSupervisor) {
        self.supervisor = Some(supervisor);
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The working directory of every verb.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// `XDG_RUNTIME_DIR`, where fugue keeps nothing.
    pub fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state/fugue")
    }

    // Programs.

    /// A program in this environment, not yet started.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the real binary as a person's shell would"
    )]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let at = |sub: &str| self.dir.path().join(sub);
        // The system's own programs come first: version-manager shims are slow and need the real HOME.
        let path = format!(
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{}",
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", path)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env("HOME", at("home"))
            .env("XDG_RUNTIME_DIR", at("run"))
            .env("XDG_STATE_HOME", at("state"))
            .env("XDG_CONFIG_HOME", at("config"))
            .env("TMUX_TMPDIR", at("run"))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work());
        command
    }

    /// `fugue` with these arguments, not yet started.
    pub fn fugue_command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(&self.binary);
        command.args(args);
        command
    }

    /// Runs a verb to the end, with any outcome.
    #[track_caller]
    pub fn fugue(&self, args: &[&str]) -> ProgramOutput {
        self.start(args).end(VERB_TIMEOUT)
    }

    /// Starts a verb without waiting for the end.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> RunningProgram {
        self.launch(self.fugue_command(args))
    }

    #[track_caller]
    fn launch(&self, command: Command) -> RunningProgram {
        RunningProgram::start_with(command, |command| self.spawn(command))
    }

    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        match &self.supervisor {
            Some(supervisor) => supervisor.spawn(command),
            None => command.spawn(),
        }
    }

    /// Runs a verb with `--json`, which must succeed, and returns the reply.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        self.fugue(&with_json(args)).ok().json()
    }

    /// Runs a verb with `--json` that must fail with this exit code, and returns the error.
    #[track_caller]
    pub fn refused(&self, args: &[&str], code: i32) -> fugue_api::Error {
        let ran = self.fugue(&with_json(args));
        assert_eq!(ran.code, Some(code), "{ran}");
        ran.refusal()
    }

    /// Runs any other program in this environment to the end.
    #[track_caller]
    pub fn run(&self, program: &str, args: &[&str]) -> ProgramOutput {
        let mut command = self.command(program);
        command.args(args);
        self.launch(command).end(VERB_TIMEOUT)
    }

    /// Runs a command of this environment's own tmux server, as a person would, and returns the stdout. The command
    /// must succeed.
    #[track_caller]
    pub fn tmux(&self, args: &[&str]) -> String {
        self.has_tmux.store(true, Ordering::Relaxed);
        self.run("tmux", args).ok().out().trim_end().to_owned()
    }

    /// Starts `fugue daemon run` through another program (`["unshare", "-m", …]`) that executes it, and returns the pid
    /// when the daemon responds.
    #[track_caller]
    pub fn start_daemon_with(&self, way: &[&str]) -> u32 {
        let log = fs::File::create(self.dir.path().join("daemon.out")).expect("a file");
        let mut command = self.command(way[0]);
        command
            .args(&way[1..])
            .arg(&self.binary)
            .args(["daemon", "run"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        let mut child = self.spawn(command).expect("the way to the daemon");
        until("the daemon answers", VERB_TIMEOUT, || {
            let ended = child.try_wait().expect("a child can be waited for");
            let said = || fs::read_to_string(self.dir.path().join("daemon.out"));
            assert!(ended.is_none(), "it ended ({ended:?}): {:?}", said());
            self.fugue(&["daemon", "status", "--json"]).code == Some(0)
        });
        let pid = child.id();
        self.children
            .lock()
            .expect("nobody panics with it")
            .push(child);
        pid
    }

    // Panes.

    /// Opens a pane with a shell command line as the pane's process.
    #[track_caller]
    pub fn pane(&self, command: &str) -> CreatePaneReply {
        self.json(&["new", "--", command])
    }

    /// Opens a pane with an interactive shell, and waits for the prompt.
    #[track_caller]
    pub fn shell(&self, shell: &str) -> CreatePaneReply {
        let pane: CreatePaneReply = self.json(&["new", "--shell", shell]);
        assert!(pane.ready, "{shell} shows its prompt: {pane:?}");
        pane
    }

    #[track_caller]
    pub fn status(&self, pane: PaneId) -> PaneStatus {
        self.json(&["status", &pane.to_string()])
    }

    #[track_caller]
    pub fn overview(&self) -> Overview {
        self.json(&["ls"])
    }

    #[track_caller]
    pub fn read(&self, pane: PaneId, flags: &[&str]) -> ReadPaneReply {
        let pane = pane.to_string();
        let mut args = vec!["read", pane.as_str()];
        args.extend(flags);
        self.json(&args)
    }

    /// All text of a pane, up to the limit of a reply.
    #[track_caller]
    pub fn text(&self, pane: PaneId) -> String {
        self.read(pane, &READ_ALL_ARGS).text
    }

    /// All bytes of a pane, as `read --raw` writes to a pipe.
    #[track_caller]
    pub fn raw(&self, pane: PaneId) -> Vec<u8> {
        let pane = pane.to_string();
        let mut args = vec!["read", pane.as_str(), "--raw"];
        args.extend(READ_ALL_ARGS);
        self.fugue(&args).ok().stdout
    }

    /// Types a line and presses Enter.
    #[track_caller]
    pub fn type_line(&self, pane: PaneId, line: &str) -> SendInputReply {
        self.json(&["send", &pane.to_string(), line, "--enter"])
    }

    /// Presses keys by name.
    #[track_caller]
    pub fn press(&self, pane: PaneId, keys: &[&str]) -> SendInputReply {
        let pane = pane.to_string();
        let mut args = vec!["send", pane.as_str()];
        for key in keys {
            args.extend(["-k", key]);
        }
        self.json(&args)
    }

    #[track_caller]
    pub fn close(&self, pane: PaneId) -> ClosePaneReply {
        self.json(&["close", &pane.to_string()])
    }

    /// Starts `fugue read -f`.
    #[track_caller]
    pub fn follow(&self, pane: PaneId) -> RunningProgram {
        self.start(&["read", &pane.to_string(), "-f"])
    }

    /// Waits until a pane's text, from the beginning, satisfies `wanted`. Output of `fugue read -f` triggers each
    /// check.
    #[track_caller]
    pub fn until_printed(&self, pane: PaneId, wanted: impl Fn(&str) -> bool) -> String {
        let mut follower = self.start(&["read", &pane.to_string(), "-f", "--json"]);
        loop {
            let heard = follower.stdout_text().len();
            let text = self.text(pane);
            if wanted(&text) {
                return text;
            }
            if !follower.wait_for_more_stdout(heard, VERB_TIMEOUT) {
                panic!("{pane} ended and did not print it: {text}");
            }
        }
    }

    /// Waits in `fugue read -f` until a pane's process has ended.
    #[track_caller]
    pub fn exited(&self, pane: PaneId) -> PaneStatus {
        self.start(&["read", &pane.to_string(), "-f", "-n", "1"])
            .end(VERB_TIMEOUT)
            .ok();
        let status = self.status(pane);
        assert_eq!(status.state.state, PaneState::Exited, "{status:?}");
        status
    }

    /// Runs a command in a new pane to the end, and returns all text.
    #[track_caller]
    pub fn run_to_exit(&self, command: &str) -> String {
        let pane = self.pane(command).pane_id;
        self.exited(pane);
        self.text(pane)
    }

    /// The contents of a pane's log on disk, and the offset of the first byte. Fails on a gap between segments.
    #[track_caller]
    pub fn log(&self, pane: PaneId) -> (u64, Vec<u8>) {
        let dir = self.state().join(format!("panes/{pane}"));
        let mut segments: Vec<(u64, PathBuf)> = fs::read_dir(&dir)
            .expect("a pane has a directory")
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let offset = u64::from_str_radix(name.strip_prefix("out.")?, 16).ok()?;
                Some((offset, entry.path()))
            })
            .collect();
        segments.sort();
        let first = segments.first().map_or(0, |(offset, _)| *offset);
        let mut bytes = Vec::new();
        for (offset, path) in segments {
            assert_eq!(offset, first + bytes.len() as u64, "a gap before {path:?}");
            bytes.extend(fs::read(&path).expect("a segment is readable"));
        }
        (first, bytes)
    }

    // Processes.

    /// `fugue daemon status --json`. Fails if no daemon runs.
    #[track_caller]
    pub fn daemon(&self) -> DaemonStatus {
        self.json(&["daemon", "status"])
    }

    /// The daemons of this environment: at most one if all is well. A process that a daemon has forked and that has not
    /// executed its program yet has the daemon's command line; such a process is about to be a holder and not listed.
    pub fn daemons(&self) -> Vec<ProcessRef> {
        let mut processes = self.processes();
        processes.retain(|process| self.is_fugue(process) && process.has_args(&["daemon", "run"]));
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        processes.retain(|process| {
            process
                .parent()
                .is_none_or(|parent| !pids.contains(&parent))
        });
        processes
    }

    /// Kills the daemon and waits for its end. A client that is connected may start the next one meanwhile.
    pub fn kill_daemon(&self) {
        for daemon in self.daemons() {
            let Ok(end) = ProcessWaiter::of(daemon.pid) else {
                continue;
            };
            daemon.kill9();
            end.wait(VERB_TIMEOUT);
        }
    }

    pub fn holders(&self) -> Vec<ProcessRef> {
        let mut processes = self.processes();
        processes.retain(|process| self.is_fugue(process) && process.has_args(&["hold"]));
        processes
    }

    /// The holder of a pane.
    pub fn holder(&self, pane: PaneId) -> Option<ProcessRef> {
        let end = format!("/panes/{pane}");
        self.holders()
            .into_iter()
            .find(|process| process.args.iter().any(|word| word.ends_with(&end)))
    }

    /// The existing holders of `panes`, found with a single scan of the process table.
    pub fn holders_of(&self, panes: &[PaneId]) -> BTreeMap<PaneId, ProcessRef> {
        let holders = self.holders();
        let of = |pane: &PaneId| {
            let end = format!("/panes/{pane}");
            let mut found = holders.iter();
            found.find(|process| process.args.iter().any(|word| word.ends_with(&end)))
        };
        panes
            .iter()
            .filter_map(|pane| Some((*pane, of(pane)?.clone())))
            .collect()
    }

    /// Every process that was started in this environment, directly or indirectly.
    pub fn processes(&self) -> Vec<ProcessRef> {
        processes_in(self.dir.path())
    }

    fn is_fugue(&self, process: &ProcessRef) -> bool {
        let name = self.binary.file_name();
        process
            .args
            .first()
            .is_some_and(|program| Path::new(program).file_name() == name)
    }

    /// Stops everything as a person would, and returns the processes that should have ended but still run.
    fn stop_and_list_remaining(&self) -> Vec<ProcessRef> {
        if self.processes().is_empty() {
            return Vec::new();
        }
        // fugue does not end a foreign tmux server, so the server of the test is ended here.
        if self.has_tmux.load(Ordering::Relaxed) {
            self.run("tmux", &["kill-server"]);
        }
        // A daemon that the test killed must be started again to close the panes.
        let started = self.start(&["daemon", "start"]).end(VERB_TIMEOUT);
        let stopped = self.start(&["daemon", "stop", "--panes"]).end(VERB_TIMEOUT);
        if started.code != Some(0) || stopped.code != Some(0) {
            print_stderr(&format!("{started}\n{stopped}"));
        }
        // `stop` replies slightly before the daemon's process has ended.
        let none_left = || self.processes().is_empty().then_some(());
        match poll_until(Duration::from_secs(5), none_left) {
            Some(()) => Vec::new(),
            None => self.processes(),
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        let left = if thread::panicking() {
            print_diagnostics(self.dir.path());
            Vec::new()
        } else {
            self.stop_and_list_remaining()
        };
        kill_processes_in(self.dir.path());
        let children = self.children.get_mut().expect("nobody panicked with it");
        for child in children {
            // Already ended by the calls above; reaps the zombie.
            let _ = child.wait();
        }
        if !left.is_empty() {
            print_diagnostics(self.dir.path());
        }
        if std::env::var_os("FUGUE_KEEP_WORLDS").is_some() {
            self.dir.disable_cleanup(true);
        }
        assert!(left.is_empty(), "processes were left behind: {left:#?}");
    }
}

/// The largest limits that a reply allows.
const READ_ALL_ARGS: [&str; 4] = ["-n", "1000000", "--max-output-chars", "16000000"];

/// Inserts `--json` after the verb (`daemon` has two words); words after `--` belong to the pane's command.
fn with_json<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let verb = if args.first() == Some(&"daemon") {
        2
    } else {
        1
    };
    let (verb, rest) = args.split_at(verb.min(args.len()));
    [verb, &["--json"], rest].concat()
}

/// New processes may be started during the kills, so this repeats until none is left.
fn kill_processes_in(dir: &Path) {
    for _ in 0..100 {
        let left = processes_in(dir);
        if left.is_empty() {
            return;
        }
        for process in left {
            process.kill9();
        }
    }
}

fn start_watchdog(limit: Duration, dir: &Path) -> mpsc::Sender<()> {
    let (alive, dropped) = mpsc::channel::<()>();
    let dir = dir.to_owned();
    let test = thread::current().name().unwrap_or("?").to_owned();
    thread::spawn(move || {
        if dropped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            print_stderr(&format!("{test} took longer than its limit of {limit:?}"));
            print_diagnostics(&dir);
            kill_processes_in(&dir);
            std::process::abort();
        }
    });
    alive
}

/// Prints diagnostics of a failed test. `FUGUE_KEEP_WORLDS` keeps the files of the environment too.
fn print_diagnostics(dir: &Path) {
    print_stderr(&format!("the environment was {}", dir.display()));
    for process in processes_in(dir) {
        print_stderr(&format!("  {} {}", process.pid, process.args.join(" ")));
    }
    for log in ["state/fugue/daemon.log", "daemon.out"] {
        let text = fs::read_to_string(dir.join(log)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(30)..] {
            print_stderr(&format!("  {log}: {line}"));
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a failing test says where to look for the reason"
)]
fn print_stderr(what: &str) {
    eprintln!("{what}");
}
