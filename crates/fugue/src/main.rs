//! The binary: one file per verb, and the hidden role of a pane's holder.

mod cli;
mod follow;
mod identity;
mod live;
mod out;
mod runs;
mod text;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    // A holder is one of many and must stay small: it gets neither a parser nor a runtime.
    if words.nth(1).is_some_and(|word| word == "hold") {
        return fugue_holder::run(words);
    }
    cli::main()
}
