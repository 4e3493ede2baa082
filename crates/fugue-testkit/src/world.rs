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
    proc::{ProcessRef, belonging_to},
    run::{ProgramOutput, RunningProgram},
    supervisor::Supervisor,
    time::{until, within},
};

/// Who has the terminals in every world of this test run: `FUGUE_TEST_BACKEND=tmux` runs the same tests on panes of a
/// private tmux server.
pub fn backend() -> Backend {
    match std::env::var("FUGUE_TEST_BACKEND").as_deref() {
        Ok("tmux") => Backend::Tmux,
        Ok("native") | Err(_) => Backend::Native,
        Ok(other) => panic!("FUGUE_TEST_BACKEND: wanted native or tmux, got {other}"),
    }
}

/// Whether a test has nothing to say about panes of tmux, with the reason, which is printed.
pub fn native_only(reason: &str) -> bool {
    let skipped = backend() == Backend::Tmux;
    if skipped {
        let test = thread::current().name().unwrap_or("?").to_owned();
        complain(&format!("NOT ON TMUX: {test}: {reason}"));
    }
    skipped
}

/// How long one verb may take. Far more than any should: the machine that runs the tests may be busy.
const VERB: Duration = Duration::from_secs(60);

/// A machine of one's own: HOME, XDG directories and a working directory that nobody else has.
pub struct TestEnv {
    dir: TempDir,
    binary: PathBuf,
    env: Vec<(String, String)>,
    /// Daemons that are children of the test's own.
    children: Mutex<Vec<Child>>,
    /// A test has started a tmux server.
    has_tmux: AtomicBool,
    /// Every program of this world is started under it. Outlives all of them, because the world's end kills them first.
    supervisor: Option<Supervisor>,
    // Dropped with the world, which calls the watchdog off.
    _alive: mpsc::Sender<()>,
}

impl TestEnv {
    /// `binary` is the fugue to run (`env!("CARGO_BIN_EXE_fugue")` in a test); `limit` is how long the test may take:
    /// after it the whole test process is aborted, with the world's processes.
    pub fn new(binary: impl AsRef<Path>, limit: Duration) -> Self {
        // Short, because a socket's path may have 107 bytes. A measurement may want its worlds on another disk.
        let worlds = std::env::var_os("FUGUE_WORLDS").unwrap_or("/tmp".into());
        let dir = tempfile::Builder::new()
            .prefix("fg")
            .rand_bytes(5)
            .tempdir_in(worlds)
            .expect("a directory for the world");
        for sub in ["home", "run", "state", "config", "work"] {
            let path = dir.path().join(sub);
            fs::create_dir(&path).expect("a directory of the world");
            fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("its permissions");
        }
        let alive = watchdog(limit, dir.path());
        let world = Self {
            binary: binary.as_ref().to_owned(),
            env: Vec::new(),
            children: Mutex::default(),
            has_tmux: AtomicBool::new(false),
            supervisor: None,
            _alive: alive,
            dir,
        };
        if backend() == Backend::Tmux {
            world.configure("");
        }
        // Shells that find no rc file of the user's ask a new user questions.
        for rc in [".bashrc", ".zshrc"] {
            fs::write(world.home().join(rc), "").expect("an empty rc file");
        }
        world
    }

    /// Sets a variable for every program started from now on.
    pub fn set_env(&mut self, name: &str, value: impl AsRef<Path>) {
        let value = value.as_ref().to_string_lossy().into_owned();
        self.env.push((name.to_owned(), value));
    }

    /// Writes `config.toml`. A daemon reads it when it starts.
    pub fn configure(&self, toml: &str) {
        let dir = self.dir.path().join("config/fugue");
        fs::create_dir_all(&dir).expect("the configuration's directory");
        let backend = match backend() {
            Backend::Native => "",
            Backend::Tmux => "backend = \"tmux\"\n",
        };
        let text = format!("{backend}{toml}");
        fs::write(dir.join("config.toml"), text).expect("the configuration");
    }

    /// Starts every program from now on under this supervisor.
    pub fn supervise(&mut self, supervisor: Supervisor) {
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

    /// `XDG_RUNTIME_DIR`, in which fugue keeps nothing.
    pub fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state/fugue")
    }

    // Programs.

    /// A program in this world, not yet started.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the real binary as a person's shell would"
    )]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let at = |sub: &str| self.dir.path().join(sub);
        // The system's own programs first: shims for other versions in front of them are slow and want the real HOME.
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

    /// Runs a verb to its end, whatever it says.
    #[track_caller]
    pub fn fugue(&self, args: &[&str]) -> ProgramOutput {
        self.start(args).end(VERB)
    }

    /// Starts a verb and goes on.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> RunningProgram {
        self.launch(self.fugue_command(args))
    }

    #[track_caller]
    fn launch(&self, command: Command) -> RunningProgram {
        RunningProgram::start_by(command, |command| self.spawn(command))
    }

    fn spawn(&self, mut command: Command) -> io::Result<Child> {
        match &self.supervisor {
            Some(supervisor) => supervisor.spawn(command),
            None => command.spawn(),
        }
    }

    /// Runs a verb with `--json` and wants its reply.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        self.fugue(&with_json(args)).ok().json()
    }

    /// Runs a verb with `--json` and wants it refused with this exit code.
    #[track_caller]
    pub fn refused(&self, args: &[&str], code: i32) -> fugue_api::Error {
        let ran = self.fugue(&with_json(args));
        assert_eq!(ran.code, Some(code), "{ran}");
        ran.refusal()
    }

    /// Runs any other program of this world to its end.
    #[track_caller]
    pub fn run(&self, program: &str, args: &[&str]) -> ProgramOutput {
        let mut command = self.command(program);
        command.args(args);
        self.launch(command).end(VERB)
    }

    /// Runs a command of this world's own tmux server, as a person would, and wants what it prints.
    #[track_caller]
    pub fn tmux(&self, args: &[&str]) -> String {
        self.has_tmux.store(true, Ordering::Relaxed);
        self.run("tmux", args).ok().out().trim_end().to_owned()
    }

    /// Starts `fugue daemon run` by way of another program (`["unshare", "-m", …]`) that becomes it, and returns its pid
    /// when it answers.
    #[track_caller]
    pub fn daemon_by_way_of(&self, way: &[&str]) -> u32 {
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
        until("the daemon answers", VERB, || {
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

    /// A pane with one shell command line as its own process.
    #[track_caller]
    pub fn pane(&self, command: &str) -> CreatePaneReply {
        self.json(&["new", "--", command])
    }

    /// A pane with an interactive shell that has shown its prompt.
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

    /// All text of a pane, as far as one reply can hold it.
    #[track_caller]
    pub fn text(&self, pane: PaneId) -> String {
        self.read(pane, &EVERYTHING).text
    }

    /// All bytes of a pane, as `read --raw` gives them to a pipe.
    #[track_caller]
    pub fn raw(&self, pane: PaneId) -> Vec<u8> {
        let pane = pane.to_string();
        let mut args = vec!["read", pane.as_str(), "--raw"];
        args.extend(EVERYTHING);
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

    /// `fugue read -f`, running.
    #[track_caller]
    pub fn follow(&self, pane: PaneId) -> RunningProgram {
        self.start(&["read", &pane.to_string(), "-f"])
    }

    /// Waits until a pane's text, from its beginning, is as wanted. `fugue read -f` says when there is more to look at.
    #[track_caller]
    pub fn until_printed(&self, pane: PaneId, wanted: impl Fn(&str) -> bool) -> String {
        let mut follower = self.start(&["read", &pane.to_string(), "-f", "--json"]);
        loop {
            let heard = follower.said().len();
            let text = self.text(pane);
            if wanted(&text) {
                return text;
            }
            if !follower.said_more(heard, VERB) {
                panic!("{pane} ended and did not print it: {text}");
            }
        }
    }

    /// Waits until a pane's process has ended; blocked in `fugue read -f` meanwhile.
    #[track_caller]
    pub fn exited(&self, pane: PaneId) -> PaneStatus {
        self.start(&["read", &pane.to_string(), "-f", "-n", "1"])
            .end(VERB)
            .ok();
        let status = self.status(pane);
        assert_eq!(status.state.state, PaneState::Exited, "{status:?}");
        status
    }

    /// Runs a command in a pane of its own to its end, and gives all its text.
    #[track_caller]
    pub fn output_of(&self, command: &str) -> String {
        let pane = self.pane(command).pane_id;
        self.exited(pane);
        self.text(pane)
    }

    /// What a pane's log on disk holds, with the place of its first byte counted from the pane's birth. Gaps between
    /// segments are a failure.
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

    /// The daemons of this world, which should be one or none.
    pub fn daemons(&self) -> Vec<ProcessRef> {
        let mut processes = self.processes();
        processes.retain(|process| self.is_ours(process) && process.says(&["daemon", "run"]));
        processes
    }

    pub fn holders(&self) -> Vec<ProcessRef> {
        let mut processes = self.processes();
        processes.retain(|process| self.is_ours(process) && process.says(&["hold"]));
        processes
    }

    /// The holder of one pane.
    pub fn holder(&self, pane: PaneId) -> Option<ProcessRef> {
        let end = format!("/panes/{pane}");
        self.holders()
            .into_iter()
            .find(|process| process.line.iter().any(|word| word.ends_with(&end)))
    }

    /// The holders of these panes, as far as they have one, found in one look at the process table.
    pub fn holders_of(&self, panes: &[PaneId]) -> BTreeMap<PaneId, ProcessRef> {
        let holders = self.holders();
        let of = |pane: &PaneId| {
            let end = format!("/panes/{pane}");
            let mut found = holders.iter();
            found.find(|process| process.line.iter().any(|word| word.ends_with(&end)))
        };
        panes
            .iter()
            .filter_map(|pane| Some((*pane, of(pane)?.clone())))
            .collect()
    }

    /// Every process that was started in this world, by whatever way.
    pub fn processes(&self) -> Vec<ProcessRef> {
        belonging_to(self.dir.path())
    }

    fn is_ours(&self, process: &ProcessRef) -> bool {
        let name = self.binary.file_name();
        process
            .line
            .first()
            .is_some_and(|program| Path::new(program).file_name() == name)
    }

    /// Ends everything as a person would, and says which processes stayed although they should not have.
    fn stop(&self) -> Vec<ProcessRef> {
        if self.processes().is_empty() {
            return Vec::new();
        }
        // A person's own tmux is not ours to end; the test that started one is through with it.
        if self.has_tmux.load(Ordering::Relaxed) {
            self.run("tmux", &["kill-server"]);
        }
        // A daemon that was killed on purpose must first be back to end its panes.
        let started = self.start(&["daemon", "start"]).end(VERB);
        let stopped = self.start(&["daemon", "stop", "--panes"]).end(VERB);
        if started.code != Some(0) || stopped.code != Some(0) {
            complain(&format!("{started}\n{stopped}"));
        }
        // `stop` answers before the daemon's own process is quite gone.
        let none_left = || self.processes().is_empty().then_some(());
        match within(Duration::from_secs(5), none_left) {
            Some(()) => Vec::new(),
            None => self.processes(),
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        let left = if thread::panicking() {
            describe(self.dir.path());
            Vec::new()
        } else {
            self.stop()
        };
        kill_all_of(self.dir.path());
        let children = self.children.get_mut().expect("nobody panicked with it");
        for child in children {
            // Ended by one of the two above; here only so that no zombie stays.
            let _ = child.wait();
        }
        if !left.is_empty() {
            describe(self.dir.path());
        }
        if std::env::var_os("FUGUE_KEEP_WORLDS").is_some() {
            self.dir.disable_cleanup(true);
        }
        assert!(left.is_empty(), "processes were left behind: {left:#?}");
    }
}

/// Everything that a reply may hold.
const EVERYTHING: [&str; 4] = ["-n", "1000000", "--max-output-chars", "16000000"];

/// The first word is the verb (`daemon` has two), and what follows `--` is not ours.
fn with_json<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let verb = if args.first() == Some(&"daemon") {
        2
    } else {
        1
    };
    let (verb, rest) = args.split_at(verb.min(args.len()));
    [verb, &["--json"], rest].concat()
}

/// New processes may appear while the old ones are being killed, so it goes on until there are none.
fn kill_all_of(dir: &Path) {
    for _ in 0..100 {
        let left = belonging_to(dir);
        if left.is_empty() {
            return;
        }
        for process in left {
            process.kill9();
        }
    }
}

fn watchdog(limit: Duration, dir: &Path) -> mpsc::Sender<()> {
    let (alive, dropped) = mpsc::channel::<()>();
    let dir = dir.to_owned();
    let test = thread::current().name().unwrap_or("?").to_owned();
    thread::spawn(move || {
        if dropped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            complain(&format!("{test} took longer than its limit of {limit:?}"));
            describe(&dir);
            kill_all_of(&dir);
            std::process::abort();
        }
    });
    alive
}

/// What one wants to know of a world in which a test has failed. `FUGUE_KEEP_WORLDS` keeps its files too.
fn describe(dir: &Path) {
    complain(&format!("the world was {}", dir.display()));
    for process in belonging_to(dir) {
        complain(&format!("  {} {}", process.pid, process.line.join(" ")));
    }
    for log in ["state/fugue/daemon.log", "daemon.out"] {
        let text = fs::read_to_string(dir.join(log)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(30)..] {
            complain(&format!("  {log}: {line}"));
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a failing test says where to look for the reason"
)]
fn complain(what: &str) {
    eprintln!("{what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessWaiter, let_pass};

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_world_has_its_own_home_and_nothing_of_ours() {
        let world = TestEnv::new("/bin/false", LIMIT);
        let said = world.run("env", &[]).ok().out();
        let names: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .collect();
        let wanted = [
            "HOME",
            "LANG",
            "PATH",
            "TERM",
            "TMUX_TMPDIR",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
            "XDG_STATE_HOME",
        ];
        let mut names = names;
        names.sort_unstable();
        assert_eq!(names, wanted);
        let home = world.run("sh", &["-c", "cd && pwd"]).ok().out();
        assert_eq!(home.trim_end(), world.home().to_string_lossy());
    }

    #[test]
    fn what_runs_in_a_world_is_found_whatever_it_has_thrown_away() {
        let world = TestEnv::new("/bin/false", LIMIT);
        for way in [
            &["sleep", "100"][..],
            &["env", "-i", "sleep", "100"],
            &["setsid", "sleep", "100"],
            &["sh", "-c", "cd / && exec sleep 100"],
        ] {
            let mut command = world.command(way[0]);
            command.args(&way[1..]);
            let running = RunningProgram::start(command);
            let pid = running.pid();
            until("it is found", LIMIT, || {
                world.processes().iter().any(|p| p.pid == pid)
            });
            let end = ProcessWaiter::of(pid).expect("it runs");
            drop(running);
            end.wait(LIMIT);
            assert!(world.processes().is_empty());
        }
    }

    #[test]
    fn a_program_is_heard_while_it_runs_and_to_its_end() {
        let world = TestEnv::new("/bin/false", LIMIT);
        let mut command = world.command("sh");
        command.args(["-c", "echo one; read x < gate; echo two >&2; exit 3"]);
        world.run("mkfifo", &["gate"]).ok();
        let mut running = RunningProgram::start(command);
        running.until_said(LIMIT, |said| said == "one\n");
        world.run("sh", &["-c", "echo > gate"]).ok();
        let ran = running.end(LIMIT);
        assert_eq!((ran.code, ran.signal), (Some(3), None));
        assert_eq!((ran.out().as_str(), ran.err().as_str()), ("one\n", "two\n"));
    }

    #[test]
    fn json_is_asked_for_in_front_of_what_is_not_ours() {
        assert_eq!(with_json(&["ls"]), ["ls", "--json"]);
        assert_eq!(
            with_json(&["daemon", "status"]),
            ["daemon", "status", "--json"]
        );
        assert_eq!(
            with_json(&["new", "--", "ls"]),
            ["new", "--json", "--", "ls"]
        );
    }

    #[test]
    fn time_passes_only_as_long_as_it_is_told() {
        let start = std::time::Instant::now();
        let_pass(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
