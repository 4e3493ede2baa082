//! The binary: one file per verb, and the hidden verb `hold`, which runs the holder of a pane.

mod agent_settings;
mod cli;
mod doctor;
mod follow;
mod identity;
mod live;
mod out;
mod runs;
mod text;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    // Each pane has a holder process, which must stay small: it has neither an argument parser nor a runtime.
    if args.nth(1).is_some_and(|verb| verb == "hold") {
        return fugue_holder::run(args);
    }
    cli::main()
}
