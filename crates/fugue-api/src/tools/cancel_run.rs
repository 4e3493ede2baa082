use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, RunId, Tool, ToolGroup, ToolHints, ToolWait,
    run_result::RunResult,
};

/// Stop a run and its commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    /// Its id.
    #[arg(value_name = "RUN", help = "Id of the run, or the beginning of it")]
    pub run_id: RunId,
}

impl Tool for CancelRun {
    const NAME: &'static str = "cancel_run";
    const VERB: &'static str = "cancel";
    const GROUP: ToolGroup = ToolGroup::Runs;
    const HINTS: ToolHints = ToolHints::Destructive;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = CancelRunReply;

    fn check(&self) -> Result<(), Error> {
        self.run_id.check()
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the end of the run's processes")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRunReply {
    /// The result of the run, as `fugue_wait` returns it.
    #[serde(flatten)]
    pub run: RunResult,
    /// The run had ended before the call, which changed nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_ended: bool,
}
