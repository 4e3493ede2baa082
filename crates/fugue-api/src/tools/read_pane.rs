use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_not_empty, check_range},
    pane_state::PaneState,
};

/// Read a pane's output as text, also after its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ReadPane {
    /// Id or name.
    #[arg(value_name = "PANE")]
    pub pane_id: String,
    /// Last lines; default 100.
    #[serde(default = "ReadPane::lines")]
    #[schemars(range(min = 1, max = 1_000_000))]
    #[arg(short = 'n', long, default_value_t = ReadPane::lines(), help = "How many last lines to return")]
    pub lines: u32,
    /// After this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "CURSOR")]
    pub since: Option<Cursor>,
    /// Default text; screen: what is visible.
    #[serde(default)]
    #[command(flatten)]
    pub mode: ReadMode,
    /// Characters; default 10000.
    #[serde(default = "ReadPane::max_output_chars")]
    #[schemars(range(min = 1, max = 16_000_000))]
    #[arg(long, value_name = "N", default_value_t = ReadPane::max_output_chars(), help = "Limit of the printed text in characters")]
    pub max_output_chars: u32,
    /// Only lines with this regex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "REGEX",
        help = "Only lines that match this regex, with numbers"
    )]
    pub grep: Option<String>,
}

impl ReadPane {
    fn lines() -> u32 {
        100
    }
    pub fn max_output_chars() -> u32 {
        10_000
    }
}

impl Tool for ReadPane {
    const NAME: &'static str = "read_pane";
    const VERB: &'static str = "read";
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::ReadOnly;
    const PANE: PaneArgument<Self> =
        PaneArgument::Required(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = ReadPaneReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("pane_id", &self.pane_id)?;
        check_range("lines", u64::from(self.lines), 1, 1_000_000)?;
        check_range(
            "max_output_chars",
            u64::from(self.max_output_chars),
            1,
            16_000_000,
        )
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short(format!("reading {}", self.pane_id))
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

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

#[derive(clap::Args)]
struct ReadModeFlags {
    /// Print the visible screen as it is now.
    #[arg(long, group = "mode")]
    screen: bool,
    /// Print the bytes, all that are kept; with --json, the last lines as text.
    #[arg(long, group = "mode")]
    raw: bool,
    /// Print the output of the last command, and its exit code.
    #[arg(long, group = "mode")]
    last: bool,
}

impl From<ReadModeFlags> for ReadMode {
    fn from(flags: ReadModeFlags) -> Self {
        match flags {
            ReadModeFlags { screen: true, .. } => Self::Screen,
            ReadModeFlags { raw: true, .. } => Self::Raw,
            ReadModeFlags { last: true, .. } => Self::LastCommand,
            ReadModeFlags { .. } => Self::Text,
        }
    }
}

crate::cli_values::impl_args_by_flags!(ReadMode, ReadModeFlags);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadPaneReply {
    pub text: String,
    pub cursor: Cursor,
    /// Lines in `text`.
    pub lines: u64,
    /// Requested lines that are left out of `text`.
    pub omitted_lines: u64,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    pub state: PaneState,
    /// The command line of the last command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The exit code of the last command; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Bytes that are not UTF-8 and are shown as U+FFFD.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub replaced_bytes: u64,
    /// Why the output may be incomplete, or came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Bytes of this output that are missing from the output log.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub missing_bytes: u64,
}
