use std::{collections::BTreeMap, time::Duration};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, PaneId, RunId,
    pane_placement::{Backend, RunLayout},
    tools::{ToolCall, ToolVariant},
};

/// A tool: a struct of arguments, whose doc comments are the descriptions that models read.
///
/// Everything that clients, the MCP server, the socket protocol and the daemon need about a tool is an item of this trait
/// without a default, so that a new tool states everything in its own file.
pub trait Tool: Serialize + DeserializeOwned + JsonSchema + Into<ToolCall> + ToolVariant {
    /// The name in MCP and in the socket protocol.
    const NAME: &'static str;
    /// The verb of the command line.
    const VERB: &'static str;
    const GROUP: ToolGroup;
    const HINTS: ToolHints;
    /// The argument that names the pane of the call.
    const PANE: PaneArgument<Self>;
    type Reply: Serialize + DeserializeOwned + JsonSchema;

    /// Validates ranges and shapes that the types do not express. A refused call has had no effect.
    fn check(&self) -> Result<(), Error>;

    /// The condition that the reply waits for.
    fn wait(&mut self) -> ToolWait<'_>;

    /// The data that the daemon looks up before core plans the call.
    fn resources(&self) -> CallResources<'_>;
}

/// The subject of a tool. `fugue mcp --tools` offers the tools of some groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ToolGroup {
    /// Terminals: open, type, read, close.
    Panes,
    /// Commands and waits with a result.
    Runs,
    /// Workers and events.
    Team,
    /// The watcher of a pane.
    Watch,
}

/// The properties of a tool that a client may assume before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolHints {
    /// Changes nothing.
    ReadOnly,
    /// Changes something, but ends or deletes nothing.
    Writes,
    /// Ends or deletes something for good.
    Destructive,
}

/// The argument of a tool that names a pane, with accessors to read the name and to replace it by the pane's id.
pub enum PaneArgument<T> {
    /// The tool has no such argument.
    None,
    /// A pane id or name.
    Required(fn(&T) -> &String, fn(&mut T) -> &mut String),
    /// A pane id or name. A call without the argument concerns no existing pane.
    Optional(fn(&T) -> &Option<String>, fn(&mut T) -> &mut Option<String>),
    /// A pane id, a pane name or a tmux target. A call without the argument concerns the caller's own pane.
    Watched(fn(&T) -> &Option<String>, fn(&mut T) -> &mut Option<String>),
}

impl<T> PaneArgument<T> {
    pub(crate) fn get<'a>(&self, args: &'a T) -> Option<&'a str> {
        match self {
            Self::None => None,
            Self::Required(get, _) => Some(get(args)),
            Self::Optional(get, _) | Self::Watched(get, _) => get(args).as_deref(),
        }
    }

    pub(crate) fn set(&self, args: &mut T, pane: PaneId) {
        match self {
            Self::None => {}
            Self::Required(_, get_mut) => *get_mut(args) = pane.to_string(),
            Self::Optional(_, get_mut) | Self::Watched(_, get_mut) => {
                *get_mut(args) = Some(pane.to_string());
            }
        }
    }

    pub(crate) fn defaults_to_own_pane(&self) -> bool {
        match self {
            Self::Watched(..) => true,
            Self::None | Self::Required(..) | Self::Optional(..) => false,
        }
    }
}

/// The condition that the reply to a call waits for.
///
/// The condition decides the early reply to a client with a short timeout, the text of progress notifications, and how a
/// call is repeated after a lost connection.
#[derive(Debug)]
pub enum ToolWait<'a> {
    /// Work that ends within seconds. `activity` is the text of progress notifications.
    Short { activity: String },
    /// An event or an answer in the caller's inbox.
    Inbox(InboxWait<'a>),
    /// The end of a run that the call starts. Without an id the daemon chooses one.
    StartRun {
        run_id: &'a mut Option<RunId>,
        reply: RunReply,
    },
    /// The end of a run that another call has started.
    JoinRun { run_id: &'a RunId },
    /// The end of a pane's processes, which are killed after `grace`.
    PaneClose { pane: &'a str, grace: Duration },
}

/// The shape of the reply to a call that starts a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunReply {
    /// The result of the run.
    Result,
    /// The pane that the call has opened, with the result.
    NewPane,
}

impl ToolWait<'_> {
    pub(crate) fn short(activity: impl Into<String>) -> Self {
        Self::Short {
            activity: activity.into(),
        }
    }
}

/// A wait whose timeout the daemon observes. A client reduces the timeout in the arguments.
#[derive(Debug)]
pub struct InboxWait<'a> {
    /// The text of progress notifications.
    pub description: String,
    pub timeout_secs: &'a mut f64,
    /// The argument with the answer that the daemon gives at the timeout.
    pub default_answer: Option<&'a mut Option<String>>,
}

/// Whether [`InboxWait::limit`] has changed the timeout of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxTimeout {
    Requested,
    Reduced,
}

impl InboxWait<'_> {
    /// Reduces the timeout to at most `max`. The default answer is removed from a reduced call, because it is meant for
    /// the end of the requested timeout.
    pub fn limit(&mut self, max: Duration) -> InboxTimeout {
        if *self.timeout_secs <= max.as_secs_f64() {
            return InboxTimeout::Requested;
        }
        *self.timeout_secs = max.as_secs_f64();
        if let Some(answer) = &mut self.default_answer {
            **answer = None;
        }
        InboxTimeout::Reduced
    }

    /// Reduces the timeout by the time that has passed since the first attempt of the same call.
    pub(crate) fn subtract(self, elapsed: Duration) {
        *self.timeout_secs = (*self.timeout_secs - elapsed.as_secs_f64()).max(0.0);
    }
}

/// The data that a call needs from the file system, the caller's environment or tmux. Core does no I/O, so the daemon looks
/// the data up before core plans the call.
#[derive(Debug)]
pub enum CallResources<'a> {
    None,
    /// The list of the caller's tmux panes.
    TmuxPanes,
    /// The launch environments of new panes.
    Panes {
        panes: Vec<PaneResources<'a>>,
        /// The requested shell of all panes.
        shell: Option<&'a str>,
        purpose: ShellPurpose,
        placement: PlacementArguments<'a>,
    },
    /// The agent and the launch environment of a worker. Without a name the daemon chooses the agent.
    Worker {
        agent: Option<&'a str>,
        cwd: Option<&'a str>,
        placement: PlacementArguments<'a>,
    },
    /// The settings of a watcher, and the launch environment of its commands.
    Watcher,
}

impl<'a> CallResources<'a> {
    /// The directories among the arguments of the call. Relative ones are resolved by the caller's working directory.
    pub fn directories(self) -> Vec<&'a str> {
        match self {
            Self::Panes { panes, .. } => panes.iter().filter_map(|pane| pane.cwd).collect(),
            Self::Worker { cwd, .. } => Vec::from_iter(cwd),
            Self::None | Self::TmuxPanes | Self::Watcher => Vec::new(),
        }
    }
}

/// The arguments of a new pane.
#[derive(Debug)]
pub struct PaneResources<'a> {
    /// The name of the argument that holds `cwd`, for errors.
    pub cwd_field: String,
    pub cwd: Option<&'a str>,
    pub env: Option<&'a BTreeMap<String, String>>,
}

/// The purpose of a new pane's shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellPurpose {
    Interactive,
    /// A single command.
    Command,
    /// The steps of a pipeline.
    Steps,
}

/// The arguments that decide the backend of new panes.
#[derive(Clone, Copy, Debug)]
pub struct PlacementArguments<'a> {
    pub backend: Option<Backend>,
    /// `None` for a pane that is no part of a run.
    pub layout: Option<RunLayout>,
    pub session: Option<&'a str>,
}

impl PlacementArguments<'_> {
    pub(crate) fn for_run(backend: Option<Backend>, layout: RunLayout) -> Self {
        Self {
            backend,
            layout: Some(layout),
            session: None,
        }
    }
}

/// The description of a tool, derived from its struct.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    pub name: &'static str,
    pub verb: &'static str,
    pub group: ToolGroup,
    pub hints: ToolHints,
    /// The schema of the arguments. Its description is the tool's description.
    pub arguments: Schema,
    pub reply: Schema,
}

impl ToolDefinition {
    pub(crate) fn new<T: Tool>() -> Self {
        Self {
            name: T::NAME,
            verb: T::VERB,
            group: T::GROUP,
            hints: T::HINTS,
            arguments: schema::<T>(SchemaSettings::draft2020_12().for_deserialize()),
            reply: schema::<T::Reply>(SchemaSettings::draft2020_12().for_serialize()),
        }
    }
}

fn schema<T: JsonSchema>(mut settings: SchemaSettings) -> Schema {
    // Subschemas are inlined because a model reads them, and few clients resolve references.
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>()
}
