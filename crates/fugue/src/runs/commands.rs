//! The commands of a run that come from a file, and their names.

use std::io::Read;

use fugue_api::Error;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Arguments that complete the command lines of a run.
#[derive(clap::Args)]
pub struct CommandSource {
    /// Read more commands from a file (`-`: stdin): one per line, without empty lines and lines that begin with `#`, or
    /// a JSON list of strings or objects.
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// Name of a command; the option can be repeated, in the order of the commands.
    #[arg(short, long = "name", value_name = "NAME")]
    names: Vec<String>,
}

impl CommandSource {
    /// Adds the commands of the file and sets the names. `set_name` names one command.
    pub fn add_to<C: DeserializeOwned>(
        &self,
        commands: &mut Vec<C>,
        set_name: impl Fn(&mut C, String),
    ) -> Result<(), Error> {
        if let Some(file) = &self.file {
            let in_file = |message: String| Error::invalid(format!("--file: {file}: {message}"));
            let hint = "one command per line, or a JSON list of strings or objects";
            let list = parse(&read(file)?).map_err(|message| in_file(message).hint(hint))?;
            for (index, command) in list.into_iter().enumerate() {
                let command = serde_json::from_value(command)
                    .map_err(|error| in_file(format!("commands[{index}]: {error}")).hint(hint))?;
                commands.push(command);
            }
        }
        if commands.is_empty() {
            return Err(Error::invalid(match &self.file {
                Some(file) => format!("--file: {file}: there is no command in it"),
                None => "CMD: no command was given".to_owned(),
            })
            .hint("give command lines, each in quotes, or --file"));
        }
        if self.names.len() > commands.len() {
            let (names, commands) = (self.names.len(), commands.len());
            return Err(Error::invalid(format!(
                "--name: {names} names for {commands} commands"
            )));
        }
        for (command, name) in commands.iter_mut().zip(&self.names) {
            set_name(command, name.clone());
        }
        Ok(())
    }
}

fn read(file: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.map_err(|error| Error::invalid(format!("--file: {file}: {error}")))?;
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("--file: {file}: is not UTF-8")))
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let command = |one| match one {
            Value::String(line) => json!({"command": line}),
            other => other,
        };
        return Ok(list.into_iter().map(command).collect());
    }
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(|line| json!({"command": line})).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_lines_or_a_list() {
        for (text, wanted) in [
            ("", json!([])),
            ("make\n", json!([{"command": "make"}])),
            (
                "# first\n\n  make all  \r\n\t# x\necho a # b\nname: x",
                json!([{"command": "make all"}, {"command": "echo a # b"}, {"command": "name: x"}]),
            ),
            (
                " [\"make\", {\"command\": \"ls\", \"cwd\": \"/\"}, 7]",
                json!([{"command": "make"}, {"command": "ls", "cwd": "/"}, 7]),
            ),
        ] {
            assert_eq!(parse(text).map(Value::from), Ok(wanted), "{text:?}");
        }
        let message = parse("[\"make\",\n]").expect_err("no JSON");
        assert!(message.contains("line 2"), "{message}");
    }
}
