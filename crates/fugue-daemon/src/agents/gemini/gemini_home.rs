//! The home directory that a Gemini CLI worker has (`GEMINI_CLI_HOME`): the user's settings with those of the worker added, and
//! links to everything else in the user's own directory. What Gemini CLI writes (logins, chats, permissions) goes through the
//! links. The settings file is a copy, so the user's own file stays as it is.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
};

use fugue_api::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use super::super::{WorkerAssignment, files};

const HOME: &str = "GEMINI_CLI_HOME";
const TRUST_LIST: &str = "GEMINI_CLI_TRUSTED_FOLDERS_PATH";

/// Files that Gemini CLI creates at a login. A link to a file that does not exist yet lets a worker's login last.
const LOGIN_FILES: [&str; 4] = [
    "gemini-credentials.json",
    "google_accounts.json",
    "installation_id",
    "oauth_creds.json",
];

/// The settings of a worker.
pub struct WorkerSettings {
    pub server: Value,
    pub hooks: Map<String, Value>,
    pub policy: PathBuf,
}

/// Creates the home directory and returns the variables that name it.
pub fn write(
    assignment: &WorkerAssignment<'_>,
    settings: WorkerSettings,
) -> Result<BTreeMap<String, String>, Error> {
    let user = user_home(assignment);
    let own = assignment.dir.join("home");
    let merged = merged(user.as_deref(), settings)?;
    link_user_files(user.as_deref(), &own)
        .map_err(|error| home_error(&own, &error))
        .and_then(|()| files::write(&own.join(".gemini"), "settings.json", &merged.to_string()))?;
    let mut env = BTreeMap::from([(HOME.to_owned(), files::text(&own))]);
    // Gemini CLI replaces this file when a folder is trusted, and would replace a link.
    if let Some(list) = trust_list(assignment) {
        env.insert(TRUST_LIST.to_owned(), files::text(&list));
    }
    Ok(env)
}

/// The user's list of trusted folders.
pub fn trust_list(assignment: &WorkerAssignment<'_>) -> Option<PathBuf> {
    let named = assignment.env.get(TRUST_LIST).map(PathBuf::from);
    named.or_else(|| Some(user_home(assignment)?.join(".gemini/trustedFolders.json")))
}

fn user_home(assignment: &WorkerAssignment<'_>) -> Option<PathBuf> {
    let named = assignment.env.get(HOME).filter(|home| !home.is_empty());
    named
        .or_else(|| assignment.env.get("HOME"))
        .map(PathBuf::from)
}

/// The user's settings with those of the worker. Settings that Gemini CLI could not read either are refused.
fn merged(user: Option<&Path>, worker: WorkerSettings) -> Result<Value, Error> {
    let dir = user.map(|home| home.join(".gemini"));
    let file = dir.as_ref().map(|dir| dir.join("settings.json"));
    let text = file.as_ref().map(fs::read_to_string);
    let mut settings = match text {
        Some(Ok(text)) => serde_json::from_str::<Map<String, Value>>(&without_comments(&text))
            .map_err(|error| error.to_string()),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        Some(Err(_)) | None => Ok(Map::new()),
    }
    .map_err(|why| {
        let file = file.unwrap_or_default();
        Error::invalid(format!(
            "agent: Gemini CLI cannot read its settings in {}: {why}",
            file.display()
        ))
        .hint("correct the file; nothing was started")
    })?;
    let object = |value: &mut Value| {
        if !value.is_object() {
            *value = json!({});
        }
    };
    let servers = settings.entry("mcpServers").or_insert(json!({}));
    object(servers);
    servers["fugue"] = worker.server;
    let hooks = settings.entry("hooks").or_insert(json!({}));
    object(hooks);
    for (event, ours) in worker.hooks {
        match (&mut hooks[&event], ours) {
            (Value::Array(theirs), Value::Array(ours)) => theirs.extend(ours),
            (theirs, ours) => *theirs = ours,
        }
    }
    // With this setting, the user's directory of policies is read only if it is in the list.
    let policies = settings.entry("policyPaths").or_insert_with(|| {
        let own = dir
            .map(|dir| dir.join("policies"))
            .filter(|dir| dir.is_dir());
        json!(
            own.as_deref()
                .map(files::text)
                .into_iter()
                .collect::<Vec<_>>()
        )
    });
    if let Value::Array(paths) = policies {
        paths.push(json!(files::text(&worker.policy)));
    }
    Ok(Value::Object(settings))
}

fn link_user_files(user: Option<&Path>, own: &Path) -> io::Result<()> {
    // An earlier daemon may have died while it created the directory.
    match fs::remove_dir_all(own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let gemini = own.join(".gemini");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&gemini)?;
    let Some(user) = user else {
        return Ok(());
    };
    for name in [".agents", ".env"] {
        link_existing(&user.join(name), &own.join(name))?;
    }
    let theirs = user.join(".gemini");
    if !theirs.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&theirs)? {
        let name = entry?.file_name();
        if name != "settings.json" {
            link_existing(&theirs.join(&name), &gemini.join(&name))?;
        }
    }
    for name in LOGIN_FILES {
        let link = gemini.join(name);
        if link.symlink_metadata().is_err() {
            symlink(theirs.join(name), link)?;
        }
    }
    Ok(())
}

fn link_existing(file: &Path, link: &Path) -> io::Result<()> {
    match file.exists() {
        true => symlink(file, link),
        false => Ok(()),
    }
}

fn home_error(home: &Path, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{}: {error}", home.display()),
    )
    .hint("the worker was not started; is the disk full?")
}

/// JSON without the comments of JavaScript, which Gemini CLI permits in its settings.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        let length = if found.starts_with('"') {
            let length = string_length(found);
            out.push_str(&found[..length]);
            length
        } else if found.starts_with("//") {
            found.find('\n').unwrap_or(found.len())
        } else if let Some(comment) = found.strip_prefix("/*") {
            comment.find("*/").map_or(found.len(), |end| end + 4)
        } else {
            out.push('/');
            1
        };
        rest = &found[length..];
    }
    out + rest
}

/// The length of the string literal that a text begins with.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{
        // the theme
        "ui": {"theme": "GitHub // \" /* not a comment */"}, /* and
        more */
        "mcpServers": {"mine": {"command": "x"}, "fugue": {"command": "fugue"}},
        "hooks": {"AfterAgent": [{"hooks": [{"command": "theirs"}]}]},
        "policyPaths": ["/p"]
    }"#;

    fn check<T>(
        settings: &str,
        then: impl FnOnce(&Path, Result<BTreeMap<String, String>, Error>) -> T,
    ) -> T {
        let dir = tempfile::tempdir().unwrap();
        let (user, own) = (dir.path().join("user"), dir.path().join("worker"));
        fs::create_dir_all(user.join(".gemini/policies")).unwrap();
        fs::create_dir(&own).unwrap();
        for (name, text) in [
            ("settings.json", settings),
            ("GEMINI.md", "be brief"),
            ("trustedFolders.json", "{}"),
        ] {
            fs::write(user.join(".gemini").join(name), text).unwrap();
        }
        let env = BTreeMap::from([("HOME".to_owned(), files::text(&user))]);
        let nothing = BTreeMap::new();
        let assignment = WorkerAssignment {
            prompt: "x",
            model: None,
            args: &[],
            dir: &own,
            cwd: Path::new("/"),
            worktree_of: None,
            fugue: Path::new("/bin/fugue"),
            identity: &nothing,
            env: &env,
            shell: Path::new("/bin/sh"),
        };
        let ours = || WorkerSettings {
            server: json!({"command": "ours"}),
            hooks: Map::from_iter([
                ("AfterAgent".to_owned(), json!([{"hooks": ["ours"]}])),
                ("BeforeAgent".to_owned(), json!([{"hooks": ["ours"]}])),
            ]),
            policy: "/w/policy.toml".into(),
        };
        // A daemon that died meanwhile leaves the directory for the next one.
        let _ = write(&assignment, ours());
        then(dir.path(), write(&assignment, ours()))
    }

    #[test]
    fn the_settings_of_a_worker_are_added_to_a_copy_of_the_users() {
        check(SETTINGS, |dir, env| {
            let env = env.unwrap();
            let home = Path::new(&env[HOME]).join(".gemini");
            let merged: Value =
                serde_json::from_str(&fs::read_to_string(home.join("settings.json")).unwrap())
                    .unwrap();
            assert_eq!(merged["ui"]["theme"], "GitHub // \" /* not a comment */");
            assert_eq!(
                merged["mcpServers"],
                json!({"mine": {"command": "x"}, "fugue": {"command": "ours"}})
            );
            assert_eq!(
                merged["hooks"]["AfterAgent"][0]["hooks"][0]["command"],
                "theirs"
            );
            assert_eq!(merged["hooks"]["AfterAgent"][1]["hooks"][0], "ours");
            assert_eq!(merged["hooks"]["BeforeAgent"][0]["hooks"][0], "ours");
            assert_eq!(merged["policyPaths"], json!(["/p", "/w/policy.toml"]));
            let user = dir.join("user/.gemini");
            assert_eq!(
                fs::read_to_string(user.join("settings.json")).unwrap(),
                SETTINGS
            );
            assert_eq!(
                fs::read_to_string(home.join("GEMINI.md")).unwrap(),
                "be brief"
            );
            assert_eq!(
                env[TRUST_LIST],
                files::text(&user.join("trustedFolders.json"))
            );
            fs::write(home.join("oauth_creds.json"), "a login").unwrap();
            assert_eq!(
                fs::read_to_string(user.join("oauth_creds.json")).unwrap(),
                "a login"
            );
        });
    }

    #[test]
    fn the_users_policies_stay_in_force() {
        check("{}", |dir, env| {
            let settings = Path::new(&env.unwrap()[HOME]).join(".gemini/settings.json");
            let merged: Value =
                serde_json::from_str(&fs::read_to_string(settings).unwrap()).unwrap();
            let policies = files::text(&dir.join("user/.gemini/policies"));
            assert_eq!(merged["policyPaths"], json!([policies, "/w/policy.toml"]));
        });
    }

    #[test]
    fn settings_that_gemini_cli_cannot_read_are_refused_by_name() {
        check("{\"ui\": ", |dir, outcome| {
            let error = outcome.unwrap_err();
            let file = files::text(&dir.join("user/.gemini/settings.json"));
            assert!(error.message.contains(&file), "{error}");
        });
    }
}
