use std::process::ExitCode;

use fugue_api::Error;
use fugue_core::settings::Settings;

use crate::cli::CliContext;

/// Show the configuration.
#[derive(clap::Subcommand)]
pub enum ConfigCommand {
    /// Print the path of the file, which need not exist.
    Path,
    /// Print the current settings.
    Show,
    /// Print all keys with their defaults.
    Default,
}

impl ConfigCommand {
    pub fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let settings = match self {
            Self::Path => {
                let path = cx.paths.config.to_string_lossy();
                if cx.out.is_json() {
                    cx.out.document(&serde_json::json!({"path": path}))?;
                } else {
                    cx.out.line(&*path)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            Self::Show => fugue_daemon::config::load(&cx.paths.config)?,
            Self::Default => Settings::default(),
        };
        if cx.out.is_json() {
            cx.out.document(&settings)?;
        } else {
            let text =
                toml::to_string(&settings).map_err(|error| Error::internal(error.to_string()))?;
            cx.out.lines(text.trim_end())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
