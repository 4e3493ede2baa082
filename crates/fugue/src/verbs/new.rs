use std::process::ExitCode;

use fugue_api::{Error, tools::CreatePane};

use crate::{cli::CliContext, verbs};

/// Open a pane: a shell, or a command.
#[derive(clap::Args)]
pub struct NewArgs {
    #[command(flatten)]
    pane: CreatePane,
    /// A variable for it.
    #[arg(short, long = "env", value_name = "K=V", value_parser = variable)]
    env: Vec<(String, String)>,
    /// One word is a command line for the shell; several are a program and its arguments.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl NewArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let command = match self.command.as_slice() {
            [] => None,
            [line] => Some(line.clone()),
            words => Some(
                words
                    .iter()
                    .map(|word| verbs::quoted(word))
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        };
        let made = verbs::call(
            cx,
            CreatePane {
                command,
                env: self.env.into_iter().collect(),
                ..self.pane
            },
        )
        .await?;
        if cx.out.is_json() {
            cx.out.document(&made)?;
        } else {
            cx.out.line(made.pane_id.to_string())?;
            if let Some(note) = &made.note {
                cx.out.note(&format!("not ready: {note}"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub fn variable(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
