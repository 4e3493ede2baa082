use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, PaneArgument, Tool, ToolHints, ToolWait,
    checks::{check_not_empty, check_range},
    pane_state::PaneState,
};

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
}

impl Tool for ReadPane {
    const NAME: &'static str = "read_pane";
    const VERB: &'static str = "read";
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
        ToolWait::Short {
            activity: format!("reading {}", self.pane_id),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
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
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    pub state: PaneState,
    /// The last command's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The last command's exit code; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Raw bytes that were not UTF-8 and are shown as U+FFFD.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub replaced_bytes: u64,
    /// Why this may not be all of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Bytes that the pane printed here and that are missing from its output log.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub missing_bytes: u64,
}
