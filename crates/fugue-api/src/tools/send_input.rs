use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::check_not_empty, keys::KeyPress,
};

/// Type text, then keys, into a pane: answer a prompt, run a line, interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    /// Id or name.
    #[arg(value_name = "PANE")]
    pub pane_id: String,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Such as Enter, C-c, Up, F5, M-x.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[arg(
        short,
        long = "key",
        value_name = "KEY",
        help = "Keys to press after the text: Enter, C-c, Up, F5, M-x, Tab"
    )]
    pub keys: Vec<KeyPress>,
    /// Then press Enter; default false.
    #[serde(default)]
    #[arg(
        long = "enter",
        help = "Press Enter after the text and check that the program accepted it"
    )]
    pub submit: bool,
    /// Bracketed paste; default auto.
    #[serde(default)]
    #[arg(
        long,
        value_enum,
        default_value_t,
        help = "When to send the text as one bracketed paste"
    )]
    pub paste: PasteMode,
    // Not in the schema for models: only a person decides to type into the draft of another person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    #[arg(
        long,
        help = "Type at once, also while a person has an unfinished line there"
    )]
    pub force: bool,
}

impl SendInput {
    /// Whether Enter follows the text or is in it: a line break anywhere in a text is an Enter.
    pub fn presses_enter(&self) -> bool {
        let text = self.input.as_deref().unwrap_or_default();
        self.submit || text.contains(['\n', '\r'])
    }
}

impl Tool for SendInput {
    const NAME: &'static str = "send_input";
    const VERB: &'static str = "send";
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Required(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = SendInputReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("pane_id", &self.pane_id)?;
        let nothing =
            self.input.as_deref().is_none_or(str::is_empty) && self.keys.is_empty() && !self.submit;
        if nothing {
            return Err(Error::invalid(
                "nothing to type: `input`, `keys` and `submit` are all left out",
            ));
        }
        const MAX_INPUT_BYTES: usize = 1_000_000;
        if self
            .input
            .as_ref()
            .is_some_and(|text| text.len() > MAX_INPUT_BYTES)
        {
            return Err(
                Error::invalid(format!("input: wanted at most {MAX_INPUT_BYTES} bytes"))
                    .hint("put it into a file and let the program read that"),
            );
        }
        Ok(())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short(format!("sending input to {}", self.pane_id))
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PasteMode {
    /// If the text has several lines and the program has enabled bracketed paste.
    #[default]
    Auto,
    /// If the program has enabled bracketed paste.
    Always,
    /// As single keys.
    Never,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendInputReply {
    pub accepted: bool,
    /// Bytes that the terminal has accepted.
    pub bytes: u64,
    /// Bytes in the queue because the program does not read.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub pending_bytes: u64,
    /// The position before the echo of the input.
    pub cursor: Cursor,
    pub submitted: SubmitResult,
}

/// Whether the program accepted Enter after the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SubmitResult {
    /// The program accepted the line.
    Yes,
    /// The text is still in the input line, or `submit` was not set.
    No,
    Unknown,
}
