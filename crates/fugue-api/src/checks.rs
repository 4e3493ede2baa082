//! Validation of tool arguments: ranges and shapes that their types do not express. Each error names the argument.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Error, PaneId};

/// The longest timeout of a run, in milliseconds: a week.
pub(crate) const MAX_TIMEOUT_MS: u64 = 7 * 24 * 3_600_000;
/// The longest wait for an event or an answer, in seconds: a day. A client can repeat the call.
pub(crate) const MAX_WAIT_SECS: f64 = 86_400.0;
/// The limit of `max_output_chars`.
pub(crate) const MAX_OUTPUT_CHARS: u64 = 16_000_000;
/// The limit of texts that a model reads whole: message bodies, answers, reports.
const MAX_TEXT_CHARS: usize = 8_000;
/// The limit of a shell command: Linux refuses a longer program argument (`MAX_ARG_STRLEN`).
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;
/// The limit of the commands that a watcher runs.
const MAX_WATCHER_COMMAND_BYTES: usize = 8_000;

pub(crate) fn check_command(field: &str, command: &str) -> Result<(), Error> {
    check_command_within(field, command, MAX_COMMAND_BYTES)
}

pub(crate) fn check_watcher_command(field: &str, command: Option<&str>) -> Result<(), Error> {
    command.map_or(Ok(()), |command| {
        check_command_within(field, command, MAX_WATCHER_COMMAND_BYTES)
    })
}

fn check_command_within(field: &str, command: &str, max_bytes: usize) -> Result<(), Error> {
    check_text(field, command)?;
    if command.len() > max_bytes {
        return Err(Error::invalid(format!(
            "{field}: wanted at most {max_bytes} bytes, got {}",
            command.len()
        ))
        .hint("put it into a file and run that"));
    }
    Ok(())
}

/// A name of a pane, task or step. Names that look like pane ids are refused, because tools accept both.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Error> {
    let is_valid = !name.trim().is_empty()
        && name.chars().count() <= 64
        && !name.chars().any(char::is_control);
    if !is_valid {
        return Err(Error::invalid(format!(
            "{field}: wanted 1 to 64 printable characters, got {name:?}"
        )));
    }
    if name.parse::<PaneId>().is_ok() {
        return Err(
            Error::invalid(format!("{field}: `{name}` looks like a pane id"))
                .hint("choose another name"),
        );
    }
    Ok(())
}

pub(crate) fn check_distinct_names(names: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if let Some(duplicate) = seen.replace(name) {
            return Err(
                Error::invalid(format!("commands: two are named `{duplicate}`"))
                    .hint("give each a name of its own, or none"),
            );
        }
    }
    Ok(())
}

pub(crate) fn check_env(field: &str, env: &BTreeMap<String, String>) -> Result<(), Error> {
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) {
            return Err(Error::invalid(format!(
                "{field}: `{key}` cannot be the name of a variable"
            )));
        }
        check_no_nul(field, value)?;
    }
    Ok(())
}

/// A program argument or path that must not be empty.
pub(crate) fn check_text(field: &str, text: &str) -> Result<(), Error> {
    check_not_empty(field, text)?;
    check_no_nul(field, text)
}

pub(crate) fn check_optional_text(field: &str, text: Option<&str>) -> Result<(), Error> {
    text.map_or(Ok(()), |text| check_text(field, text))
}

pub(crate) fn check_not_empty(field: &str, text: &str) -> Result<(), Error> {
    if text.trim().is_empty() {
        Err(Error::invalid(format!("{field}: is empty")))
    } else {
        Ok(())
    }
}

pub(crate) fn check_no_nul(field: &str, text: &str) -> Result<(), Error> {
    if text.contains('\0') {
        Err(Error::invalid(format!("{field}: contains a NUL character")))
    } else {
        Ok(())
    }
}

/// A pane id, pane name or tmux target that may be left out.
pub(crate) fn check_optional_pane(field: &str, pane: Option<&str>) -> Result<(), Error> {
    pane.map_or(Ok(()), |pane| check_not_empty(field, pane))
}

/// A text of at most [`MAX_TEXT_CHARS`] characters.
pub(crate) fn check_length(field: &str, text: &str) -> Result<(), Error> {
    let chars = text.chars().count();
    if chars <= MAX_TEXT_CHARS {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted at most {MAX_TEXT_CHARS} characters, got {chars}"
        ))
        .hint("put it into a file and send the path"))
    }
}

/// A worker or agent name, which becomes part of a branch, a file name and an id.
pub(crate) fn check_identifier(field: &str, text: &str) -> Result<(), Error> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_valid = (1..=64).contains(&text.len())
        && text.chars().all(is_allowed)
        && !text.starts_with(['-', '.'])
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.ends_with(".lock");
    if is_valid {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 1 to 64 letters, digits, `-`, `_` or `.`, got {text:?}"
        )))
    }
}

/// The id of an inbox or worker, which need not have been created by fugue.
pub(crate) fn check_inbox_id(field: &str, id: &str) -> Result<(), Error> {
    let is_valid =
        !id.trim().is_empty() && id.chars().count() <= 256 && !id.chars().any(char::is_control);
    if is_valid {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 1 to 256 printable characters, got {id:?}"
        )))
    }
}

pub(crate) fn check_range(field: &str, value: u64, min: u64, max: u64) -> Result<(), Error> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted {min} to {max}, got {value}"
        )))
    }
}

pub(crate) fn check_seconds(field: &str, value: f64, max: f64) -> Result<(), Error> {
    if (0.0..=max).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 0 to {max} seconds, got {value}"
        )))
    }
}

/// For `skip_serializing_if`.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}
