//! Looks up where and by what a new pane runs, before anything is started.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fugue_api::{Error, Kind, Request, wire::Caller};
use fugue_core::World;

use crate::{engine::House, pane::launch, shell};

pub fn look_up(request: &Request, caller: &Caller, house: &House) -> Result<World, Error> {
    let Request::CreatePane(args) = request else {
        return Err(Error::new(Kind::Internal, "only a new pane has a world"));
    };
    let cwd = directory(args.cwd.as_deref(), caller)?;
    let path = variable(caller, "PATH");
    let (wanted, interactive) = match (&args.shell, &args.command) {
        (Some(shell), command) => (vec![OsString::from(shell)], command.is_none()),
        (None, Some(_)) => (command_shells(&house.settings.shell), false),
        (None, None) => (person_shells(caller), true),
    };
    let shell = wanted
        .iter()
        .find_map(|name| find(name, path.as_deref(), &cwd))
        .ok_or_else(|| {
            let names: Vec<_> = wanted.iter().map(|name| name.to_string_lossy()).collect();
            Error::invalid(format!(
                "shell: no program `{}` on the caller's PATH",
                names.join("`, `")
            ))
            .hint("give an absolute path")
        })?;
    let secret = if interactive {
        secret()?
    } else {
        String::new()
    };
    let env = launch::environment(caller, args.env.clone());
    let integrated = interactive
        && shell::interactive(
            &shell,
            &house.paths.shell_files(),
            &secret,
            Path::new("steps"),
            &env,
        )
        .integrated;
    Ok(World {
        cwd,
        shell,
        secret: if integrated { secret } else { String::new() },
    })
}

/// Models write bash, whatever the person's own shell is.
fn command_shells(configured: &str) -> Vec<OsString> {
    if configured.is_empty() {
        vec!["bash".into(), "/bin/sh".into()]
    } else {
        vec![configured.into()]
    }
}

fn person_shells(caller: &Caller) -> Vec<OsString> {
    let own = variable(caller, "SHELL").filter(|shell| !shell.is_empty());
    own.into_iter()
        .chain(["bash".into(), "/bin/sh".into()])
        .collect()
}

fn directory(said: Option<&str>, caller: &Caller) -> Result<PathBuf, Error> {
    let here = PathBuf::from(OsString::from(&caller.cwd));
    let dir = said.map_or_else(|| here.clone(), |said| here.join(said));
    match fs::metadata(&dir) {
        Ok(found) if found.is_dir() => Ok(dir),
        Ok(_) => Err(Error::invalid(format!(
            "cwd: `{}` is not a directory",
            dir.display()
        ))),
        Err(error) => Err(
            Error::invalid(format!("cwd: `{}`: {}", dir.display(), plain(&error)))
                .hint("give a directory that exists; nothing was started"),
        ),
    }
}

/// The system's words without its number.
fn plain(error: &std::io::Error) -> String {
    let said = error.to_string();
    said.split(" (os error")
        .next()
        .unwrap_or(&said)
        .to_lowercase()
}

fn find(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    let runs = |file: &Path| {
        fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let named = Path::new(name);
    if named.components().count() > 1 || named.is_absolute() {
        let file = cwd.join(named);
        return runs(&file).then_some(file);
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path)
        .map(|dir| cwd.join(dir).join(named))
        .find(|file| runs(file))
}

fn variable(caller: &Caller, name: &str) -> Option<OsString> {
    caller
        .env
        .iter()
        .find(|(key, _)| OsString::from(key) == name)
        .map(|(_, value)| value.into())
}

/// 128 bits that no program of the pane knows, as text for the shell's marks.
fn secret() -> Result<String, Error> {
    let mut bytes = [0; 16];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Error::new(
            Kind::Internal,
            "the kernel gave no random numbers",
        )),
    }
}
