use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use crate::{Error, ErrorKind, PaneId, panes, runs, team, watch};

/// One tool: its arguments are the struct itself.
pub trait Tool: Serialize + DeserializeOwned + JsonSchema + Into<ToolCall> {
    /// The name an MCP client uses.
    const NAME: &'static str;
    /// The verb of the command line.
    const VERB: &'static str;
    const HINTS: ToolHints;
    type Reply: Serialize + DeserializeOwned + JsonSchema + TryFrom<ToolReply, Error = Error>;

    /// Ranges and shapes that the types cannot say. Nothing has been done when this refuses.
    fn check(&self) -> Result<(), Error>;
}

/// What a client may assume about a tool before calling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolHints {
    /// Looks, and changes nothing.
    ReadOnly,
    /// Changes something that can be changed back or simply goes on.
    Writes,
    /// Ends something for good.
    Destructive,
}

/// A tool as a stranger is told about it, made from its struct and nothing else.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    pub name: &'static str,
    pub verb: &'static str,
    pub hints: ToolHints,
    /// Its arguments; the struct's own sentence is the description.
    pub takes: Schema,
    pub gives: Schema,
}

impl ToolDefinition {
    fn of<T: Tool>() -> Self {
        Self {
            name: T::NAME,
            verb: T::VERB,
            hints: T::HINTS,
            takes: schema::<T>(SchemaSettings::draft2020_12().for_deserialize()),
            gives: schema::<T::Reply>(SchemaSettings::draft2020_12().for_serialize()),
        }
    }

    /// What every tool gives when it refuses.
    pub fn refusal() -> Schema {
        schema::<Error>(SchemaSettings::draft2020_12().for_serialize())
    }
}

fn schema<T: JsonSchema>(mut settings: SchemaSettings) -> Schema {
    // Subschemas are inlined because a model reads them, and few clients follow references.
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>()
}

/// A [`ToolReply`] whose JSON nobody has read, for doors that only pass it on.
#[derive(Clone, Debug, Deserialize)]
pub struct RawReply {
    tool: String,
    reply: Box<RawValue>,
}

impl RawReply {
    /// What its tool gives, without the wrapping that the socket needs.
    pub fn json(&self) -> &RawValue {
        &self.reply
    }
}

fn no_reply(error: serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a reply that is none: {error}"),
    )
}

macro_rules! tools {
    ($($room:ident::$args:ident as $name:literal, $verb:literal, $hints:ident => $reply:ident;)*) => {
        /// Any tool call.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "tool", content = "args")]
        pub enum ToolCall { $(#[serde(rename = $name)] $args($room::$args),)* }

        /// The answer to a [`ToolCall`] of the same name.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "tool", content = "reply")]
        pub enum ToolReply { $(#[serde(rename = $name)] $args($room::$reply),)* }

        impl ToolCall {
            /// The names of all tools, in the order they are listed.
            pub const NAMES: &[&str] = &[$($name),*];

            pub fn name(&self) -> &'static str {
                match self { $(Self::$args(_) => $name,)* }
            }

            pub fn check(&self) -> Result<(), Error> {
                match self { $(Self::$args(args) => args.check(),)* }
            }

            /// All tools, in the order they are listed.
            pub fn definitions() -> Vec<ToolDefinition> {
                vec![$(ToolDefinition::of::<$room::$args>()),*]
            }

            /// Reads a call as it came from outside. The error names the field, what was wanted and what was given.
            pub fn parse(tool: &str, args: serde_json::Value) -> Result<Self, Error> {
                match tool {
                    $($name => arguments::<$room::$args>(args).map(Self::$args),)*
                    _ => Err(Error::invalid(format!("no tool `{tool}`")).hint(format!("tools: {}", Self::NAMES.join(", ")))),
                }
            }
        }

        impl RawReply {
            pub fn of(reply: &ToolReply) -> Result<Self, Error> {
                let (tool, reply) = match reply { $(ToolReply::$args(reply) => ($name, to_raw_value(reply)),)* };
                let tool = tool.to_owned();
                Ok(Self { tool, reply: reply.map_err(no_reply)? })
            }

            pub fn read(&self) -> Result<ToolReply, Error> {
                match &*self.tool {
                    $($name => serde_json::from_str(self.reply.get()).map(ToolReply::$args).map_err(no_reply),)*
                    other => Err(Error::new(ErrorKind::Internal, format!("a reply to `{other}`, which is no tool"))),
                }
            }
        }

        $(
            impl From<$room::$args> for ToolCall {
                fn from(args: $room::$args) -> Self { Self::$args(args) }
            }

            impl TryFrom<ToolReply> for $room::$reply {
                type Error = Error;
                fn try_from(reply: ToolReply) -> Result<Self, Error> {
                    match reply {
                        ToolReply::$args(reply) => Ok(reply),
                        _ => Err(Error::new(ErrorKind::Internal, concat!("the reply to `", $name, "` was one to another tool"))),
                    }
                }
            }

            impl Tool for $room::$args {
                const NAME: &'static str = $name;
                const VERB: &'static str = $verb;
                const HINTS: ToolHints = ToolHints::$hints;
                type Reply = $room::$reply;

                fn check(&self) -> Result<(), Error> { $room::$args::check(self) }
            }
        )*
    };
}

tools! {
    panes::CreatePane as "create_pane", "new", Writes => CreatePaneReply;
    panes::SendInput as "send_input", "send", Writes => SendInputReply;
    panes::ReadPane as "read_pane", "read", ReadOnly => ReadPaneReply;
    panes::GetStatus as "get_status", "status", ReadOnly => GetStatusReply;
    panes::ClosePane as "close_pane", "close", Destructive => ClosePaneReply;
    runs::RunExpect as "fugue_expect", "expect", Writes => ExpectResult;
    runs::RunParallel as "fugue_run_parallel", "parallel", Writes => ParallelResult;
    runs::RunPipeline as "fugue_run_pipeline", "pipeline", Writes => PipelineResult;
    runs::WaitForRun as "fugue_wait", "wait", ReadOnly => RunResult;
    team::SpawnWorker as "spawn_worker", "spawn", Writes => SpawnWorkerReply;
    team::WaitForEvent as "wait_for_event", "events", ReadOnly => WaitForEventReply;
    team::NotifyCompletion as "notify_completion", "notify", Writes => NotifyCompletionReply;
    team::SendMessage as "send_message", "message", Writes => SendMessageReply;
    team::AskQuestion as "ask_question", "ask", Writes => AskQuestionReply;
    team::AnswerQuestion as "answer_question", "answer", Writes => AnswerQuestionReply;
    watch::WatchMe as "watch_me", "watch", Writes => WatchMeReply;
    watch::LookMa as "look_ma", "look", Writes => LookMaReply;
    watch::Pause as "pause", "pause", Writes => PauseReply;
    watch::Clear as "clear", "clear", Destructive => ClearReply;
}

impl ToolCall {
    /// The pane that its caller names.
    pub fn pane(&self) -> Option<&str> {
        match self {
            Self::SendInput(args) => Some(&args.pane_id),
            Self::ReadPane(args) => Some(&args.pane_id),
            Self::ClosePane(args) => Some(&args.pane_id),
            Self::RunExpect(args) => Some(&args.pane_id),
            Self::GetStatus(args) => args.pane_id.as_deref(),
            Self::RunPipeline(args) => args.pane_id.as_deref(),
            _ => self.window(),
        }
    }

    /// The same, where the name may be a window's of tmux without any sign of it.
    pub fn window(&self) -> Option<&str> {
        match self {
            Self::WatchMe(args) => args.tmux_window.as_deref(),
            Self::LookMa(args) => args.tmux_window.as_deref(),
            Self::Pause(args) => args.tmux_window.as_deref(),
            Self::Clear(args) => args.tmux_window.as_deref(),
            _ => None,
        }
    }

    /// Whether it is about the caller's own pane, if it names none.
    pub fn is_for_a_watcher(&self) -> bool {
        matches!(
            self,
            Self::WatchMe(_) | Self::LookMa(_) | Self::Pause(_) | Self::Clear(_)
        )
    }

    /// Says by its id which pane was meant.
    pub fn set_pane(&mut self, pane: PaneId) {
        let pane = pane.to_string();
        match self {
            Self::SendInput(args) => args.pane_id = pane,
            Self::ReadPane(args) => args.pane_id = pane,
            Self::ClosePane(args) => args.pane_id = pane,
            Self::RunExpect(args) => args.pane_id = pane,
            Self::GetStatus(args) => args.pane_id = Some(pane),
            Self::RunPipeline(args) => args.pane_id = Some(pane),
            Self::WatchMe(args) => args.tmux_window = Some(pane),
            Self::LookMa(args) => args.tmux_window = Some(pane),
            Self::Pause(args) => args.tmux_window = Some(pane),
            Self::Clear(args) => args.tmux_window = Some(pane),
            _ => {}
        }
    }
}

fn arguments<T: DeserializeOwned>(args: serde_json::Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let path = error.path().to_string();
        let mut said = error.into_inner().to_string();
        // Whoever asks need not know how wide our numbers are.
        for width in ["u8", "u16", "u32", "u64"] {
            said = said.replace(&format!("expected {width}"), "expected a whole number");
        }
        Error::invalid(if path == "." {
            said
        } else {
            format!("{path}: {said}")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn refused(tool: &str, args: serde_json::Value, says: &[&str]) {
        let error = ToolCall::parse(tool, args)
            .and_then(|r| r.check())
            .unwrap_err();
        for word in says {
            assert!(
                error.message.contains(word),
                "{:?} does not say {word}",
                error.message
            );
        }
    }

    #[test]
    fn the_door_is_strict_and_names_the_field() {
        refused(
            "read_pane",
            json!({"pane_id": "p1", "linez": 3}),
            &["linez", "lines"],
        );
        refused(
            "read_pane",
            json!({"pane_id": "p1", "lines": "many"}),
            &["lines", "many", "whole number"],
        );
        refused("read_pane", json!({}), &["pane_id"]);
        refused(
            "read_pane",
            json!({"pane_id": "p1", "lines": 0}),
            &["lines"],
        );
        refused(
            "read_pane",
            json!({"pane_id": "p1", "lines": 1_000_001}),
            &["lines", "1000000"],
        );
        refused("create_pane", json!({"command": "  "}), &["command"]);
        refused("create_pane", json!({"rows": 0}), &["rows"]);
        refused("create_pane", json!({"env": {"A=B": "x"}}), &["env", "A=B"]);
        refused("send_input", json!({"pane_id": "p1"}), &["input", "keys"]);
        refused(
            "send_input",
            json!({"pane_id": "p1", "keys": ["Entr"]}),
            &["Entr"],
        );
        refused("nonsense", json!({}), &["nonsense"]);
    }

    #[test]
    fn a_reply_may_be_read_later() {
        let bare = json!({"pane_id": "p7", "exit_code": 3});
        let reply = ToolReply::ClosePane(serde_json::from_value(bare).unwrap());
        let wire = serde_json::to_string(&reply).unwrap();
        let passed_on: RawReply = serde_json::from_str(&wire).unwrap();
        assert_eq!(
            passed_on.json().get(),
            RawReply::of(&reply).unwrap().json().get()
        );
        assert_eq!(passed_on.read().unwrap(), reply);
    }

    #[test]
    fn a_request_is_the_same_on_the_socket_as_from_a_model() {
        let args = json!({"pane_id": "p1", "lines": 7});
        let request = ToolCall::parse("read_pane", args.clone()).unwrap();
        let wire = json!({"tool": "read_pane", "args": args});
        assert_eq!(serde_json::from_value::<ToolCall>(wire).unwrap(), request);
    }
}
