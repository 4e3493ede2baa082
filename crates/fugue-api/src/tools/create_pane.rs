use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, PaneId, PaneResources, PlacementArguments,
    SessionName, ShellPurpose, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_command, check_env, check_name, check_optional_text, check_range},
    pane_placement::Backend,
};

/// Open a terminal that stays, for a background process (server, long command) or an interactive shell. Returns when
/// it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct CreatePane {
    /// Command line; default a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub command: Option<String>,
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        short,
        long,
        value_name = "DIR",
        help = "Working directory; default the current one"
    )]
    pub cwd: Option<String>,
    /// Name for use as pane_id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(short, long, help = "Name to use instead of the id")]
    pub name: Option<String>,
    /// Group; default main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(short, long, help = "Group of panes (default `main`)")]
    pub session: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[arg(skip)]
    pub env: BTreeMap<String, String>,
    /// Height; default 40.
    #[serde(default = "CreatePane::rows")]
    #[schemars(range(min = 1, max = 1000))]
    #[arg(long, default_value_t = CreatePane::rows(), help = "Height in rows")]
    pub rows: u16,
    /// Width; default 120.
    #[serde(default = "CreatePane::cols")]
    #[schemars(range(min = 1, max = 1000))]
    #[arg(long, default_value_t = CreatePane::cols(), help = "Width in columns")]
    pub cols: u16,
    /// Default native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, value_enum, help = "Where the terminal runs; default native")]
    pub backend: Option<Backend>,
    /// Default $SHELL, for a command bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, help = "Shell program; default $SHELL, for a command bash")]
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
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = CreatePaneReply;

    fn check(&self) -> Result<(), Error> {
        if let Some(command) = &self.command {
            check_command("command", command)?;
        }
        check_optional_text("cwd", self.cwd.as_deref())?;
        check_optional_text("shell", self.shell.as_deref())?;
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
        ToolWait::short("waiting for the pane's first prompt")
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
