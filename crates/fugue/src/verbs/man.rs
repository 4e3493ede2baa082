use std::{path::PathBuf, process::ExitCode};

use fugue_api::Error;

use crate::{cli, out::CliOutput};

/// Write the manual pages into an existing directory: one for fugue, one for each verb. For packages.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue man target/man")]
pub struct ManArgs {
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl ManArgs {
    pub fn run(self, out: &CliOutput) -> Result<ExitCode, Error> {
        clap_mangen::generate_to(cli::command(), &self.dir).map_err(|error| {
            Error::unavailable(format!("{}: {error}", self.dir.display()))
                .hint("name a directory that exists and can be written")
        })?;
        out.note(&format!("manual pages are in {}", self.dir.display()));
        Ok(ExitCode::SUCCESS)
    }
}
