//! Settings, the state directory and its disk.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::Path,
};

use fugue_client::display::quoted;
use fugue_daemon::inspection;

use super::{Cure, DoctorContext, Finding, cure_of};
use crate::out::format_size;

pub fn check_settings(context: &DoctorContext) -> Vec<Finding> {
    let path = context.paths.config.display();
    vec![match &context.settings {
        Err(error) => Finding::fail("settings", error.message.clone(), cure_of(error)),
        Ok(_) if context.paths.config.exists() => Finding::ok("settings", format!("{path}")),
        Ok(_) => Finding::ok("settings", format!("the defaults; {path} does not exist")),
    }]
}

/// The state directory is for its user alone: it has the socket, environments and all output.
pub fn check_modes(context: &DoctorContext) -> Vec<Finding> {
    let paths = &context.paths;
    if !paths.state.exists() {
        let path = paths.state.display();
        return vec![Finding::ok(
            "files",
            format!("{path} does not exist yet; the first daemon creates it"),
        )];
    }
    let all = [
        paths.state.clone(),
        paths.panes(),
        paths.leads(),
        paths.workers(),
        paths.spool(),
        paths.socket(),
        paths.database(),
    ];
    let troubles: Vec<Finding> = all.iter().filter_map(|path| mode_trouble(path)).collect();
    match troubles.is_empty() {
        true => vec![Finding::ok(
            "files",
            format!("{}, for you alone", paths.state.display()),
        )],
        false => troubles,
    }
}

fn mode_trouble(path: &Path) -> Option<Finding> {
    let fail = |message: String, cure| Some(Finding::fail("files", message, cure));
    let shown = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            let person = format!("you: make {shown} readable for yourself");
            return fail(format!("{shown}: {error}"), Cure::Person(person));
        }
    };
    let us = rustix::process::geteuid().as_raw();
    if found.file_type().is_symlink() {
        let person =
            format!("you: put a directory in the place of the link {shown}, or set XDG_STATE_HOME");
        return fail(format!("{shown} is a symbolic link"), Cure::Person(person));
    }
    if found.uid() != us {
        let message = format!("{shown} belongs to the user with id {}", found.uid());
        return fail(
            message,
            Cure::Command(format!(
                "sudo chown -R {us} {}",
                quoted(&path.to_string_lossy())
            )),
        );
    }
    let mode = found.permissions().mode() & 0o777;
    let wanted = match found.file_type() {
        kind if kind.is_dir() || kind.is_socket() => 0o700,
        _ => 0o600,
    };
    let is_open = mode & 0o077 != 0;
    if !is_open && mode & wanted == wanted {
        return None;
    }
    let trouble = match is_open {
        true => "others may use it",
        false => "you may not use it yourself",
    };
    fail(
        format!("{shown} has mode {mode:o}: {trouble}"),
        Cure::Command(format!(
            "chmod {wanted:o} {}",
            quoted(&path.to_string_lossy())
        )),
    )
}

pub fn check_disk(context: &DoctorContext) -> Vec<Finding> {
    let state = &context.paths.state;
    // The directory that exists, or would have the state.
    let Some(path) = state.ancestors().find(|path| path.exists()) else {
        return vec![Finding::ok(
            "disk",
            "the state directory does not exist yet",
        )];
    };
    let shown = state.display();
    if let Err(error) = inspection::check_disk(path, &context.settings()) {
        let message =
            error
                .message
                .replacen("nothing was started: ", "nothing can be started: ", 1);
        let ended = ended_bytes(context);
        let cure = match ended {
            Some(0) => Cure::Person(format!(
                "you: make room on the disk of {shown}; there is no output of ended panes to forget"
            )),
            Some(_) | None => Cure::Command("fugue gc --ended".to_owned()),
        };
        return vec![Finding::fail("disk", message, cure)];
    }
    let free = inspection::free_bytes(path).map_or("?".to_owned(), format_size);
    vec![Finding::ok("disk", format!("{free} are free for {shown}"))]
}

/// The output logs of panes whose processes have all ended, as `fugue gc --ended` finds them: those with the record of an end.
fn ended_bytes(context: &DoctorContext) -> Option<u64> {
    let panes = fs::read_dir(context.paths.panes()).ok()?;
    let mut bytes = 0;
    for pane in panes.flatten() {
        let files: Vec<_> = fs::read_dir(pane.path())
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        let has_ended = files
            .iter()
            .any(|file| file.file_name().to_string_lossy().starts_with("exit."));
        if has_ended {
            let sizes = files.iter().filter_map(|file| file.metadata().ok());
            bytes += sizes.map(|found| found.blocks() * 512).sum::<u64>();
        }
    }
    Some(bytes)
}
