use std::{collections::BTreeMap, process::ExitCode};

use fugue_api::{Error, tools::CreatePane};

use crate::{cli::CliContext, verbs};

/// Open a pane with a shell or a command.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue new -n sh\n  fugue new -n build -c web -e CI=1 -- 'make -j4'"
)]
pub struct NewArgs {
    #[command(flatten)]
    pane: CreatePane,
    #[command(flatten)]
    env: EnvArgs,
    /// One word is a command line for the shell; several words are a program and its arguments.
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
                env: self.env.into_map(),
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

/// Environment variables, which the command line gives one by one and a tool call as a map.
#[derive(clap::Args)]
pub struct EnvArgs {
    /// Set an environment variable.
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_variable)]
    env: Vec<(String, String)>,
}

impl EnvArgs {
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.env.into_iter().collect()
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("wanted NAME=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
