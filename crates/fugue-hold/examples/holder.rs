//! The smallest program with the verb `hold`: what the tests start as a holder.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(verb) if verb == "hold" => fugue_hold::run(args),
        _ => ExitCode::from(2),
    }
}
