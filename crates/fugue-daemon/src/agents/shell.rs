//! The agent `shell`: the prompt is a command line for the caller's shell.

use fugue_api::Error;

use super::{AgentDriver, AgentLaunch, WorkerAssignment};

pub struct Shell;

impl AgentDriver for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let mut command = assignment.prompt.to_owned();
        // Some shells parse options after `-c` too.
        if command.starts_with(['-', '+']) {
            command.insert(0, ' ');
        }
        let mut argv = vec![assignment.shell.to_string_lossy().into_owned()];
        argv.extend(assignment.args.iter().cloned());
        argv.extend(["-c".to_owned(), command]);
        Ok(AgentLaunch {
            argv,
            ..AgentLaunch::default()
        })
    }
}
