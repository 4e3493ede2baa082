//! What works here, what does not, and what to do: checks that change nothing, side by side, within two seconds.

mod agents;
mod daemon;
mod files;
mod machine;
mod programs;

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use fugue_api::{Error, wire::CallerEnv};
use fugue_client::{client::Client, paths::UserPaths};
use fugue_core::settings::Settings;
use fugue_daemon::config::{self, LoadedSettings};
use serde::Serialize;

// What a person waits for without wondering.
const DEADLINE: Duration = Duration::from_millis(1800);
/// How long a program or the daemon may take to answer, so that its check still ends before the deadline.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1200);

/// What the checks examine.
pub struct DoctorContext {
    pub paths: UserPaths,
    pub caller: CallerEnv,
    pub client: Client,
    /// An error where the file is refused.
    settings: Result<LoadedSettings, Error>,
}

impl DoctorContext {
    pub fn new(paths: UserPaths, caller: CallerEnv, client: Client) -> Self {
        let settings = config::load(&paths.config);
        Self {
            paths,
            caller,
            client,
            settings,
        }
    }

    /// The settings, or the defaults where the file is refused, which is a finding of its own.
    fn settings(&self) -> Settings {
        match &self.settings {
            Ok(loaded) => loaded.settings.clone(),
            Err(_) => Settings::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// Something is weaker or missing, and the rest works.
    Warn,
    Fail,
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub message: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Who has to do what, where no command of this user mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// How a finding is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cure {
    Command(String),
    Person(String),
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            message: message.into(),
            command: None,
            person: None,
        }
    }

    fn warn(check: &'static str, message: impl Into<String>, cure: Cure) -> Self {
        Self::with_cure(check, Verdict::Warn, message, cure)
    }

    fn fail(check: &'static str, message: impl Into<String>, cure: Cure) -> Self {
        Self::with_cure(check, Verdict::Fail, message, cure)
    }

    fn with_cure(
        check: &'static str,
        verdict: Verdict,
        message: impl Into<String>,
        cure: Cure,
    ) -> Self {
        let (command, person) = match cure {
            Cure::Command(command) => (Some(command), None),
            Cure::Person(person) => (None, Some(person)),
        };
        Self {
            check,
            verdict,
            message: message.into(),
            command,
            person,
        }
    }
}

type Check = fn(&DoctorContext) -> Vec<Finding>;

/// In the order of the result.
const CHECKS: &[(&str, Check)] = &[
    ("daemon", daemon::check),
    ("settings", files::check_settings),
    ("files", files::check_modes),
    ("disk", files::check_disk),
    ("terminals", machine::check_terminals),
    ("descriptors", machine::check_descriptors),
    ("kernel", machine::check_kernel),
    ("logout", machine::check_logout),
    ("shells", programs::check_shells),
    ("tmux", programs::check_tmux),
    ("agents", agents::check),
    ("assessor", programs::check_assessor),
];

/// Runs all checks. One that does not end in time is a finding, and its thread is left behind.
pub fn examine(context: DoctorContext) -> Vec<Finding> {
    let context = Arc::new(context);
    let (sender, results) = mpsc::channel();
    for (index, (_, check)) in CHECKS.iter().enumerate() {
        let (context, sender) = (Arc::clone(&context), sender.clone());
        // A thread that cannot be started leaves its check without a result.
        let _ = thread::Builder::new().spawn(move || sender.send((index, check(&context))));
    }
    drop(sender);
    let deadline = Instant::now() + DEADLINE;
    let mut found = BTreeMap::new();
    while let Ok((index, findings)) =
        results.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        found.insert(index, findings);
    }
    let names = CHECKS.iter().enumerate();
    names
        .flat_map(|(index, (name, _))| {
            found
                .remove(&index)
                .unwrap_or_else(|| vec![unfinished(name)])
        })
        .collect()
}

fn unfinished(check: &'static str) -> Finding {
    let message = format!("this check has no result after {} ms", DEADLINE.as_millis());
    let person = "you: try again; if it stays so, a disk, a network file system or a program does not answer";
    Finding::fail(check, message, Cure::Person(person.to_owned()))
}

/// The command in a hint (`` `chmod 600 FILE` takes that away ``), else the whole hint as the task of the user.
fn cure_of(error: &Error) -> Cure {
    let hint = error.hint.clone().unwrap_or_default();
    match hint.split('`').nth(1) {
        Some(command) if hint.starts_with('`') && command.contains(' ') => {
            Cure::Command(command.to_owned())
        }
        _ => Cure::Person(format!("you: {hint}")),
    }
}
