//! The smallest program with fugue's two lasting verbs: what the tests start as a holder, and as a daemon that only is.

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
