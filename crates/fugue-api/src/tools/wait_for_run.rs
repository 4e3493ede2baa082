use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, RunId, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{MAX_TIMEOUT_MS, check_range},
    cli_values,
    run_result::RunResult,
};

/// Wait for a run that is `running`; returns its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct WaitForRun {
    /// From the reply.
    #[arg(value_name = "RUN", help = "Id of the run, or the beginning of it")]
    pub run_id: RunId,
    /// Milliseconds; default until its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800_000))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_ms, help = "How long to wait; default until the end of the run, whose own timeout stays")]
    pub timeout_ms: Option<u64>,
}

impl Tool for WaitForRun {
    const NAME: &'static str = "fugue_wait";
    const VERB: &'static str = "wait";
    const GROUP: ToolGroup = ToolGroup::Runs;
    const HINTS: ToolHints = ToolHints::ReadOnly;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = RunResult;

    fn check(&self) -> Result<(), Error> {
        self.run_id.check()?;
        check_range(
            "timeout_ms",
            self.timeout_ms.unwrap_or(0),
            0,
            MAX_TIMEOUT_MS,
        )
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::JoinRun {
            run_id: &self.run_id,
        }
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}
