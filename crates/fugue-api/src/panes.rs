//! The pane tools: create, send, read, status, close.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cursor, Error, PaneId, SessionName, Timestamp, keys::KeyPress};

/// Open a terminal pane: an interactive shell, or one command as its own process. Returns when it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct CreatePane {
    /// For the shell; left out: an interactive shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", help = "Where it runs; default here")
    )]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(short, long, help = "A name to call it by"))]
    pub name: Option<String>,
    /// Group of panes; default `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(short, long))]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub env: BTreeMap<String, String>,
    #[serde(default = "CreatePane::rows")]
    #[cfg_attr(feature = "clap", arg(long, default_value_t = CreatePane::rows(), help = "Height"))]
    #[schemars(range(min = 1, max = 1000))]
    pub rows: u16,
    #[serde(default = "CreatePane::cols")]
    #[cfg_attr(feature = "clap", arg(long, default_value_t = CreatePane::cols(), help = "Width"))]
    #[schemars(range(min = 1, max = 1000))]
    pub cols: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, help = "Who has the terminal; default native")
    )]
    pub backend: Option<Backend>,
    /// Default `$SHELL`; for a command bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub shell: Option<String>,
}

impl CreatePane {
    fn rows() -> u16 {
        40
    }
    fn cols() -> u16 {
        120
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(command) = &self.command {
            good_command("command", command)?;
        }
        if let Some(cwd) = &self.cwd {
            filled("cwd", cwd)?;
            no_nul("cwd", cwd)?;
        }
        if let Some(shell) = &self.shell {
            filled("shell", shell)?;
            no_nul("shell", shell)?;
        }
        if let Some(name) = &self.name {
            good_name("name", name)?;
        }
        if let Some(session) = &self.session {
            SessionName::parse(session)?;
        }
        good_env("env", &self.env)?;
        within("rows", u64::from(self.rows), 1, 1000)?;
        within("cols", u64::from(self.cols), 1, 1000)
    }
}

// Who owns a pane's terminal. A model reads what follows in three slashes, and pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Backend {
    /// fugue itself.
    Native,
    /// A tmux server.
    Tmux,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreatePaneReply {
    pub pane_id: PaneId,
    pub session: SessionName,
    pub name: String,
    pub pid: u32,
    pub cursor: Cursor,
    /// Whether it is known to take input: the shell's first prompt was seen, or the command is running.
    pub ready: bool,
    /// Why it is not ready, or what is special about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Type into a pane: text, named keys, or both (text first).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    #[cfg_attr(feature = "clap", arg(value_name = "PANE", help = "Pane id or name"))]
    pub pane_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "TEXT", allow_hyphen_values = true, help = "Text to type")
    )]
    pub input: Option<String>,
    /// Keys by name, after the text: Enter, C-c, Up, F5, M-x, Tab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "clap", arg(short, long = "key", value_name = "KEY"))]
    pub keys: Vec<KeyPress>,
    /// Press Enter after the text, and see that it was taken.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long = "enter"))]
    pub submit: bool,
    /// As one bracketed paste.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long, value_enum, default_value_t))]
    pub paste: PasteMode,
    // Whether a person's half-typed line may be typed into is a person's choice, so no model is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            help = "Do not wait until a person who types there has pressed Enter"
        )
    )]
    pub force: bool,
}

impl SendInput {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("pane_id", &self.pane_id)?;
        let nothing =
            self.input.as_deref().is_none_or(str::is_empty) && self.keys.is_empty() && !self.submit;
        if nothing {
            return Err(Error::invalid(
                "nothing to type: `input`, `keys` and `submit` are all left out",
            ));
        }
        let longest = 1_000_000;
        if self.input.as_ref().is_some_and(|text| text.len() > longest) {
            return Err(
                Error::invalid(format!("input: at most {longest} bytes at once"))
                    .hint("put it into a file and let the program read that"),
            );
        }
        Ok(())
    }
}

/// When text goes in as one bracketed paste.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PasteMode {
    /// If the text has several lines and the program switched bracketed paste on.
    #[default]
    Auto,
    /// If the program switched bracketed paste on.
    Always,
    /// Key by key.
    Never,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendInputReply {
    pub accepted: bool,
    /// Bytes that the terminal has taken.
    pub bytes: u64,
    /// Bytes that wait because the program does not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending_bytes: u64,
    /// The place just before the input's echo.
    pub cursor: Cursor,
    pub submitted: SubmitResult,
}

/// What was seen of the Enter after a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SubmitResult {
    /// The program took the line.
    Yes,
    /// The text is still where it was typed, or Enter was not asked for.
    No,
    Unknown,
}

/// Read what a pane printed, as a person would have read it. Works on ended panes too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct ReadPane {
    #[cfg_attr(feature = "clap", arg(value_name = "PANE", help = "Pane id or name"))]
    pub pane_id: String,
    #[serde(default = "ReadPane::lines")]
    #[cfg_attr(feature = "clap", arg(short = 'n', long, help = "The last so many lines", default_value_t = ReadPane::lines()))]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub lines: u32,
    /// Only what came after this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "CURSOR"))]
    pub since: Option<Cursor>,
    /// text: all output, cleaned; screen: what is visible; last_command: its line, output and exit code.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub mode: ReadMode,
    #[serde(default = "ReadPane::max_output_chars")]
    #[cfg_attr(feature = "clap", arg(long, default_value_t = ReadPane::max_output_chars(), value_name = "N", help = "The most characters to print"))]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_output_chars: u32,
    /// Regex for lines; gives their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "REGEX"))]
    pub grep: Option<String>,
}

impl ReadPane {
    fn lines() -> u32 {
        100
    }
    pub fn max_output_chars() -> u32 {
        10_000
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("pane_id", &self.pane_id)?;
        within("lines", u64::from(self.lines), 1, 1_000_000)?;
        within(
            "max_output_chars",
            u64::from(self.max_output_chars),
            1,
            16_000_000,
        )
    }
}

/// What part of a pane to read, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ReadMode {
    #[default]
    Text,
    Screen,
    Raw,
    LastCommand,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadPaneReply {
    pub text: String,
    pub cursor: Cursor,
    /// Lines in `text`.
    pub lines: u64,
    /// Lines that were asked for and left out of `text`.
    pub omitted_lines: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_chars: u64,
    pub state: PaneState,
    /// The last command's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The last command's exit code; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Raw bytes that were not UTF-8 and are shown as U+FFFD.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced_bytes: u64,
    /// Why this may not be all of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Bytes that the pane printed here and that are missing from its output log.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_bytes: u64,
}

/// How a pane is, or everything there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct GetStatus {
    /// Pane id or name; left out: all sessions, panes and runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(value_name = "PANE"))]
    pub pane_id: Option<String>,
}

impl GetStatus {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.pane_id
            .as_deref()
            .map_or(Ok(()), |pane| filled("pane_id", pane))
    }
}

/// One pane, or the whole house.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GetStatusReply {
    Pane(Box<PaneStatus>),
    All(Overview),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaneStatus {
    pub pane_id: PaneId,
    pub name: String,
    pub session: SessionName,
    pub backend: Backend,
    pub command: String,
    pub pid: u32,
    pub cwd: String,
    pub size: PaneSize,
    pub title: String,
    #[serde(flatten)]
    pub state: SourcedState,
    pub idle_ms: u64,
    pub cursor: Cursor,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<crate::team::WorkerRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watcher: Option<crate::watch::WatcherRow>,
    /// Something is wrong that does not end the pane, such as a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PaneSize {
    pub rows: u16,
    pub cols: u16,
}

/// A pane's state and how it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourcedState {
    pub state: PaneState,
    pub by: StateSource,
    /// What it waits for: the prompt's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// It waits for a secret: what is typed is not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl SourcedState {
    pub fn new(state: PaneState, by: StateSource) -> Self {
        Self {
            state,
            by,
            prompt: None,
            secret: false,
            exit_code: None,
            signal: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PaneState {
    Running,
    /// A shell at its prompt, or a program silent for longer than the idle threshold.
    Idle,
    /// A prompt waits for a person.
    NeedsInput,
    Exited,
    Closed,
}

/// How a state is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StateSource {
    /// The process has ended, or is known to be there.
    Exit,
    /// A program of the pane waits in a read of the terminal.
    TtyRead,
    /// The shell's own marks.
    ShellMark,
    /// The agent in it said so.
    Hook,
    /// What is drawn on its screen.
    Screen,
    /// How long nothing was printed.
    Silence,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    pub sessions: Vec<SessionRow>,
    pub panes: Vec<PaneRow>,
    /// Panes that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_panes: u64,
    pub workers: Vec<crate::team::WorkerRow>,
    /// Workers that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_workers: u64,
    pub runs: Vec<crate::runs::RunRow>,
    /// Runs that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_runs: u64,
    pub watchers: Vec<crate::watch::WatcherRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_watchers: u64,
    /// Panes of the caller's tmux that fugue has not met; their ids work like those of `panes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmux: Vec<TmuxRow>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_tmux: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TmuxRow {
    /// Such as `%5`.
    pub pane_id: String,
    pub session: String,
    pub window: String,
    pub command: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub session: SessionName,
    pub panes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaneRow {
    pub pane_id: PaneId,
    pub name: String,
    pub session: SessionName,
    #[serde(flatten)]
    pub state: SourcedState,
    pub idle_ms: u64,
    pub created_at: Timestamp,
}

/// End a pane and every process in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosePane {
    pub pane_id: String,
    /// For its processes to end by themselves.
    #[serde(default = "ClosePane::grace_ms")]
    #[schemars(range(min = 0, max = 600_000))]
    pub grace_ms: u32,
}

impl ClosePane {
    pub fn grace_ms() -> u32 {
        2000
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("pane_id", &self.pane_id)?;
        within("grace_ms", u64::from(self.grace_ms), 0, 600_000)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClosePaneReply {
    pub pane_id: PaneId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Said when it had ended or been closed before, or when output of it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

// A shell's text is a file or one argument; the kernel takes no longer one.
const LONGEST_COMMAND: usize = 128 * 1024 - 1;

pub(crate) fn good_command(field: &str, command: &str) -> Result<(), Error> {
    filled(field, command)?;
    no_nul(field, command)?;
    if command.len() > LONGEST_COMMAND {
        return Err(Error::invalid(format!(
            "{field}: wanted at most {LONGEST_COMMAND} bytes, got {}",
            command.len()
        ))
        .hint("put it into a file and run that"));
    }
    Ok(())
}

pub(crate) fn good_name(field: &str, name: &str) -> Result<(), Error> {
    let ok = !name.trim().is_empty()
        && name.chars().count() <= 64
        && !name.chars().any(char::is_control);
    if !ok {
        return Err(Error::invalid(format!(
            "{field}: wanted 1 to 64 printable characters, got {name:?}"
        )));
    }
    if name.parse::<PaneId>().is_ok() {
        return Err(
            Error::invalid(format!("{field}: `{name}` has the look of a pane id"))
                .hint("choose another name"),
        );
    }
    Ok(())
}

pub(crate) fn good_env(field: &str, env: &BTreeMap<String, String>) -> Result<(), Error> {
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(Error::invalid(format!(
                "{field}: `{key}` cannot be the name of a variable"
            )));
        }
        no_nul(field, value)?;
    }
    Ok(())
}

pub(crate) fn filled(field: &str, text: &str) -> Result<(), Error> {
    if text.trim().is_empty() {
        Err(Error::invalid(format!("{field}: is empty")))
    } else {
        Ok(())
    }
}

pub(crate) fn no_nul(field: &str, text: &str) -> Result<(), Error> {
    if text.contains('\0') {
        Err(Error::invalid(format!(
            "{field}: has a NUL character in it"
        )))
    } else {
        Ok(())
    }
}

pub(crate) fn within(field: &str, given: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&given) {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted {least} to {most}, got {given}"
        )))
    }
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
