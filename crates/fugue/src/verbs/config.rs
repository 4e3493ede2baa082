use std::process::ExitCode;

use fugue_api::{
    Error,
    settings::{SettingRow, SettingSource, SettingsReport},
    wire::{Request, Response, SettingNames},
};
use fugue_daemon::config;
use serde::Serialize;

use crate::{
    cli::CliContext,
    out::{WordTone, clean},
};

/// Show the configuration.
#[derive(clap::Subcommand)]
#[command(
    after_help = "Examples:\n  fugue config show\n  fugue config default > ~/.config/fugue/config.toml"
)]
pub enum ConfigCommand {
    /// Print the path of the file, which need not exist.
    Path,
    /// Print the settings in force, as the daemon has them, and where each comes from.
    ///
    /// A variable of your environment holds for the watchers that you start. Without a daemon, the settings that the next one
    /// will have.
    Show,
    /// Print a config.toml with every key, its default, unit and range.
    Default,
}

/// The document of `config show`.
#[derive(Serialize)]
struct ShownSettings<'a> {
    #[serde(flatten)]
    report: &'a SettingsReport,
    /// Whether the settings are those of a running daemon.
    from_daemon: bool,
    /// Keys whose value in the file is not the value in force.
    changed_in_file: Vec<String>,
}

impl ConfigCommand {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        match self {
            Self::Path => {
                let path = cx.paths.config.to_string_lossy();
                if cx.out.is_json() {
                    cx.out.document(&serde_json::json!({"path": path}))?;
                } else {
                    cx.out.line(&*path)?;
                }
            }
            Self::Default if cx.out.is_json() => {
                cx.out
                    .document(&fugue_core::settings::Settings::default())?;
            }
            Self::Default => cx.out.lines(config::default_file().trim_end())?,
            Self::Show => show(cx).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn show(cx: &CliContext) -> Result<(), Error> {
    let in_file = config::load(&cx.paths.config).and_then(|loaded| {
        let lookup = |name: &str| std::env::var(name).ok();
        config::report(&cx.paths.config, &loaded, SettingNames::Prefixed, lookup)
    });
    let in_daemon = match cx.client.ask_running(Request::Settings).await? {
        Some(Response::Settings { report }) => Some(report),
        Some(other) => return Err(Error::unexpected(&other)),
        None => None,
    };
    let Some(report) = in_daemon else {
        if let Some(error) = cx.client.other_protocol().await {
            return Err(error);
        }
        let report = in_file?;
        if !cx.out.is_json() {
            print_rows(cx, &report)?;
            cx.out
                .note("no daemon runs; these are the settings of the next");
            return Ok(());
        }
        return cx.out.document(&ShownSettings {
            report: &report,
            from_daemon: false,
            changed_in_file: Vec::new(),
        });
    };
    // A file that cannot be read now is not what the daemon has.
    let (rows, trouble) = match in_file {
        Ok(report) => (Some(report.settings), None),
        Err(error) => (None, Some(error)),
    };
    let changed_in_file =
        rows.map_or_else(Vec::new, |rows| differing_keys(&report.settings, &rows));
    if cx.out.is_json() {
        return cx.out.document(&ShownSettings {
            report: &report,
            from_daemon: true,
            changed_in_file,
        });
    }
    print_rows(cx, &report)?;
    if !changed_in_file.is_empty() {
        cx.out.note(&format!(
            "changed in the file since the daemon read it: {}; `fugue daemon reload` puts that into force",
            changed_in_file.join(", ")
        ));
    }
    if let Some(error) = trouble {
        cx.out
            .note(&format!("the file cannot be used now: {}", error.message));
    }
    Ok(())
}

/// The keys whose values differ, or that only one side has.
fn differing_keys(ours: &[SettingRow], theirs: &[SettingRow]) -> Vec<String> {
    let value = |rows: &[SettingRow], key: &str| {
        let row = rows.iter().find(|row| row.key == key);
        row.map(|row| row.value.clone())
    };
    let mut keys: Vec<&str> = ours
        .iter()
        .chain(theirs)
        .map(|row| row.key.as_str())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| value(ours, key) != value(theirs, key));
    keys.into_iter().map(str::to_owned).collect()
}

fn print_rows(cx: &CliContext, report: &SettingsReport) -> Result<(), Error> {
    let rows: Vec<_> = report.settings.iter().map(row).collect();
    cx.out.table(&["KEY", "VALUE", "FROM"], &rows)?;
    cx.out.note(&format!("the file: {}", report.file));
    Ok(())
}

fn row(row: &SettingRow) -> Vec<(String, WordTone)> {
    let (from, tone) = match row.source {
        SettingSource::Default => ("default".to_owned(), WordTone::Faint),
        SettingSource::File => ("file".to_owned(), WordTone::Plain),
        SettingSource::Environment => {
            let name = row.variable.as_deref().unwrap_or_default();
            (format!("environment: {name}"), WordTone::Plain)
        }
    };
    vec![
        (row.key.clone(), WordTone::Plain),
        (clean(&row.value.to_string()), WordTone::Plain),
        (from, tone),
    ]
}
