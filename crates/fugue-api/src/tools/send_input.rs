use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, PaneArgument, Tool, ToolHints, ToolWait, checks::check_not_empty, keys::KeyPress,
};

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

impl Tool for SendInput {
    const NAME: &'static str = "send_input";
    const VERB: &'static str = "send";
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
        let longest = 1_000_000;
        if self.input.as_ref().is_some_and(|text| text.len() > longest) {
            return Err(
                Error::invalid(format!("input: at most {longest} bytes at once"))
                    .hint("put it into a file and let the program read that"),
            );
        }
        Ok(())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::Short {
            activity: format!("sending input to {}", self.pane_id),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
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
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
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
