//! The tools, in separate files, and their registry.
//!
//! A new tool is a file with a struct that implements [`Tool`], a `mod` line and a line in the registry below; then the
//! compiler names the arms that are missing in core and daemon.

mod answer_question;
mod ask_question;
mod cancel_run;
mod clear;
mod close_pane;
mod command_list;
mod create_pane;
mod get_status;
mod look_ma;
mod notify_completion;
mod parse_arguments;
mod pause;
mod read_pane;
mod run_expect;
mod run_parallel;
mod run_pipeline;
mod send_input;
mod send_message;
mod spawn_worker;
mod wait_for_event;
mod wait_for_run;
mod watch_me;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::{CallResources, Error, PaneId, Tool, ToolDefinition, ToolWait};
use parse_arguments::parse_arguments;

/// A [`ToolReply`] whose JSON is forwarded without being parsed.
#[derive(Clone, Debug, Deserialize)]
pub struct RawReply {
    tool: String,
    reply: Box<RawValue>,
}

impl RawReply {
    /// The tool's reply, without the tag that the socket protocol adds.
    pub fn json(&self) -> &RawValue {
        &self.reply
    }
}

/// The variants of [`ToolCall`] and [`ToolReply`] that belong to a tool, implemented by the registry.
pub trait ToolVariant: Sized {
    fn from_reply(reply: ToolReply) -> Result<<Self as Tool>::Reply, Error>
    where
        Self: Tool;
}

impl ToolReply {
    /// The reply as that of the tool that was called.
    pub fn read_as<T: Tool>(self) -> Result<T::Reply, Error> {
        T::from_reply(self)
    }
}

macro_rules! tools {
    ($($file:ident::$args:ident as $name:literal;)*) => {
        $(pub use $file::*;)*

        /// Any tool call.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "tool", content = "args")]
        pub enum ToolCall { $(#[serde(rename = $name)] $args($args),)* }

        /// The reply to a [`ToolCall`] of the same name.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "tool", content = "reply")]
        pub enum ToolReply { $(#[serde(rename = $name)] $args(<$args as Tool>::Reply),)* }

        // The names above are literals because `serde(rename)` accepts no constants.
        const _: () = { $(assert!(equal_names($name, <$args as Tool>::NAME));)* };

        impl ToolCall {
            /// The names of all tools, in the order of the listing.
            pub const NAMES: &[&str] = &[$($name),*];

            pub fn name(&self) -> &'static str {
                match self { $(Self::$args(_) => $name,)* }
            }

            pub fn check(&self) -> Result<(), Error> {
                match self { $(Self::$args(args) => args.check(),)* }
            }

            /// The id or name of the call's pane, as given by the caller.
            pub fn pane(&self) -> Option<&str> {
                match self { $(Self::$args(args) => <$args as Tool>::PANE.get(args),)* }
            }

            /// Replaces the name of the call's pane by its id.
            pub fn set_pane(&mut self, pane: PaneId) {
                match self { $(Self::$args(args) => <$args as Tool>::PANE.set(args, pane),)* }
            }

            /// Whether a call without a pane concerns the caller's own pane.
            pub fn defaults_to_own_pane(&self) -> bool {
                match self { $(Self::$args(_) => <$args as Tool>::PANE.defaults_to_own_pane(),)* }
            }

            /// What the reply waits for.
            pub fn wait(&mut self) -> ToolWait<'_> {
                match self { $(Self::$args(args) => args.wait(),)* }
            }

            /// The data that the daemon looks up before core plans the call.
            pub fn resources(&self) -> CallResources<'_> {
                match self { $(Self::$args(args) => args.resources(),)* }
            }

            /// All tools, in the order of the listing.
            pub fn definitions() -> Vec<ToolDefinition> {
                vec![$(ToolDefinition::new::<$args>()),*]
            }

            /// Parses a call from a client. The error names the argument, the expected type and the given value.
            pub fn parse(tool: &str, args: serde_json::Value) -> Result<Self, Error> {
                match tool {
                    $($name => parse_arguments::<$args>(args).map(Self::$args),)*
                    _ => Err(Error::invalid(format!("no tool `{tool}`")).hint(format!("tools: {}", Self::NAMES.join(", ")))),
                }
            }
        }

        impl RawReply {
            pub fn new(reply: &ToolReply) -> Result<Self, Error> {
                let (tool, reply) = match reply { $(ToolReply::$args(reply) => ($name, to_raw_value(reply)),)* };
                let tool = tool.to_owned();
                Ok(Self { tool, reply: reply.map_err(invalid_reply)? })
            }

            pub fn read(&self) -> Result<ToolReply, Error> {
                match &*self.tool {
                    $($name => serde_json::from_str(self.reply.get()).map(ToolReply::$args).map_err(invalid_reply),)*
                    other => Err(Error::internal(format!("the daemon replied for an unknown tool `{other}`"))),
                }
            }
        }

        $(
            impl From<$args> for ToolCall {
                fn from(args: $args) -> Self { Self::$args(args) }
            }

            impl ToolVariant for $args {
                fn from_reply(reply: ToolReply) -> Result<<Self as Tool>::Reply, Error> {
                    match reply {
                        ToolReply::$args(reply) => Ok(reply),
                        _ => Err(Error::internal(concat!("the daemon replied to `", $name, "` as another tool"))),
                    }
                }
            }
        )*
    };
}

// In the order of the listing.
tools! {
    create_pane::CreatePane as "create_pane";
    send_input::SendInput as "send_input";
    read_pane::ReadPane as "read_pane";
    get_status::GetStatus as "get_status";
    close_pane::ClosePane as "close_pane";
    run_expect::RunExpect as "fugue_expect";
    run_parallel::RunParallel as "fugue_run_parallel";
    run_pipeline::RunPipeline as "fugue_run_pipeline";
    wait_for_run::WaitForRun as "fugue_wait";
    cancel_run::CancelRun as "cancel_run";
    spawn_worker::SpawnWorker as "spawn_worker";
    wait_for_event::WaitForEvent as "wait_for_event";
    notify_completion::NotifyCompletion as "notify_completion";
    send_message::SendMessage as "send_message";
    ask_question::AskQuestion as "ask_question";
    answer_question::AnswerQuestion as "answer_question";
    watch_me::WatchMe as "watch_me";
    look_ma::LookMa as "look_ma";
    pause::Pause as "pause";
    clear::Clear as "clear";
}

const fn equal_names(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

fn invalid_reply(error: serde_json::Error) -> Error {
    Error::internal(format!("the daemon's reply does not fit the tool: {error}"))
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
    fn a_wrong_argument_is_refused_by_its_name() {
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
            RawReply::new(&reply).unwrap().json().get()
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
