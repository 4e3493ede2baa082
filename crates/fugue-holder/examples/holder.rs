//! A minimal program with the two long-running verbs of fugue, `hold` and `daemon`. The tests start it as a holder, and
//! as a daemon that only occupies a process.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(verb) if verb == "hold" => fugue_holder::run(args),
        Some(verb) if verb == "daemon" => {
            let _ = writeln!(std::io::stdout(), "serving");
            loop {
                std::thread::park();
            }
        }
        _ => ExitCode::from(2),
    }
}
