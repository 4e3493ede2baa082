use std::process::ExitCode;

use fugue_api::{Error, nearest};

use crate::{
    cli,
    out::{CliOutput, terminal_width},
};

/// Show the help of a verb, on one screen, with an example.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue help daemon restart")]
pub struct HelpArgs {
    #[arg(value_name = "VERB")]
    verb: Vec<String>,
}

impl HelpArgs {
    pub fn run(self, out: &CliOutput) -> Result<ExitCode, Error> {
        let mut command = cli::command();
        if let Some(width) = terminal_width() {
            command = command.term_width(width);
        }
        // Gives every verb its full name.
        command.build();
        for word in &self.verb {
            let found = command.find_subcommand(word).cloned();
            command = found.ok_or_else(|| unknown(&command, word))?;
        }
        let help = command.render_help();
        let text = match out.has_colour() {
            true => help.ansi().to_string(),
            false => help.to_string(),
        };
        out.bytes(text.as_bytes())?;
        if !self.verb.is_empty() {
            out.note(&format!(
                "\n`fugue {} --help` says more",
                self.verb.join(" ")
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn unknown(command: &clap::Command, word: &str) -> Error {
    let names = || command.get_subcommands().map(clap::Command::get_name);
    let error = Error::invalid(format!("no verb is called `{word}`"));
    match nearest(word, names()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`fugue help` lists the verbs"),
    }
}
