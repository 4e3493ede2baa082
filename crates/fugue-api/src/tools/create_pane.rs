use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, PaneId, PaneResources, PlacementArguments,
    SessionName, ShellPurpose, Tool, ToolHints, ToolWait,
    checks::{check_command, check_env, check_name, check_no_nul, check_not_empty, check_range},
    pane_placement::Backend,
};

/// Open a terminal pane with a shell or one command; returns when it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct CreatePane {
    /// Command line to run; default an interactive shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub command: Option<String>,
    /// Directory; default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(
            short,
            long,
            value_name = "DIR",
            help = "Working directory; default the current one"
        )
    )]
    pub cwd: Option<String>,
    /// Name to use instead of the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(short, long))]
    pub name: Option<String>,
    /// Group of panes (default `main`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(short, long))]
    pub session: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub env: BTreeMap<String, String>,
    /// Height in rows.
    #[serde(default = "CreatePane::rows")]
    #[schemars(range(min = 1, max = 1000))]
    #[cfg_attr(feature = "clap", arg(long, default_value_t = CreatePane::rows()))]
    pub rows: u16,
    /// Width in columns.
    #[serde(default = "CreatePane::cols")]
    #[schemars(range(min = 1, max = 1000))]
    #[cfg_attr(feature = "clap", arg(long, default_value_t = CreatePane::cols()))]
    pub cols: u16,
    /// Default native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, help = "Where the terminal runs; default native")
    )]
    pub backend: Option<Backend>,
    /// Default $SHELL, for a command bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, help = "Shell program; default $SHELL, for a command bash")
    )]
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

    fn resources(&self) -> CallResources<'_> {
        let purpose = match self.command {
            Some(_) => ShellPurpose::Command,
            None => ShellPurpose::Interactive,
        };
        CallResources::Panes {
            panes: vec![PaneResources {
                cwd_field: "cwd".to_owned(),
                cwd: self.cwd.as_deref(),
                env: Some(&self.env),
            }],
            shell: self.shell.as_deref(),
            purpose,
            placement: PlacementArguments {
                backend: self.backend,
                layout: None,
                session: self.session.as_deref(),
            },
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
    /// Whether the shell has printed its first prompt, or the command is running.
    pub ready: bool,
    /// Why the pane is not ready, or another remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
