//! The agent `shell`: its prompt is a command line.

use super::{AgentLaunch, WorkerAssignment};

pub fn lay_out(assignment: &WorkerAssignment<'_>) -> AgentLaunch {
    let mut command = assignment.prompt.to_owned();
    // Some shells look for options behind `-c` too.
    if command.starts_with(['-', '+']) {
        command.insert(0, ' ');
    }
    let mut argv = vec![assignment.shell.to_string_lossy().into_owned()];
    argv.extend(assignment.args.iter().cloned());
    argv.extend(["-c".to_owned(), command]);
    AgentLaunch {
        argv,
        ..AgentLaunch::default()
    }
}
