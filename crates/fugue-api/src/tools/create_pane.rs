use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, PaneArgument, PaneId, SessionName, Tool, ToolHints, ToolWait,
    checks::{check_command, check_env, check_name, check_no_nul, check_not_empty, check_range},
    pane_placement::Backend,
};

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
}

impl Tool for CreatePane {
    const NAME: &'static str = "create_pane";
    const VERB: &'static str = "new";
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = CreatePaneReply;

    fn check(&self) -> Result<(), Error> {
        if let Some(command) = &self.command {
            check_command("command", command)?;
        }
        if let Some(cwd) = &self.cwd {
            check_not_empty("cwd", cwd)?;
            check_no_nul("cwd", cwd)?;
        }
        if let Some(shell) = &self.shell {
            check_not_empty("shell", shell)?;
            check_no_nul("shell", shell)?;
        }
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if let Some(session) = &self.session {
            SessionName::parse(session)?;
        }
        check_env("env", &self.env)?;
        check_range("rows", u64::from(self.rows), 1, 1000)?;
        check_range("cols", u64::from(self.cols), 1, 1000)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::Short {
            activity: "waiting for the pane's first prompt".to_owned(),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::from_iter(self.cwd.as_deref())
    }
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
