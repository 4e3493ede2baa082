use std::process::ExitCode;

use fugue_api::{Error, ErrorKind};
use fugue_core::settings::Settings;

use crate::cli::Desk;

/// The settings: where they are, which hold, which there are.
#[derive(clap::Subcommand)]
pub enum Config {
    /// Where the file is, or would be.
    Path,
    /// What holds now.
    Show,
    /// Every key with its default.
    Default,
}

impl Config {
    pub fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let settings = match self {
            Self::Path => {
                let path = desk.paths.config.to_string_lossy();
                if desk.out.is_json() {
                    desk.out.document(&serde_json::json!({"path": path}))?;
                } else {
                    desk.out.line(&*path)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            Self::Show => fugue_daemon::config::load(&desk.paths.config)?,
            Self::Default => Settings::default(),
        };
        if desk.out.is_json() {
            desk.out.document(&settings)?;
        } else {
            let text = toml::to_string(&settings)
                .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
            desk.out.lines(text.trim_end())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
