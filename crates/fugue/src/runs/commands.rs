//! The commands of a run, from the command line and from a file.

use std::io::Read;

use fugue_api::Error;
use serde_json::{Value, json};

/// Where commands come from.
#[derive(clap::Args)]
pub struct Commands {
    /// Command lines, each one word of this one: quote them.
    #[arg(value_name = "CMD")]
    lines: Vec<String>,
    /// Read more commands from a file (`-`: stdin): one per line, where empty lines and those with `#` in front are
    /// passed over, or a JSON list of strings or objects.
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,
    /// Names for the commands, in their order; may be given several times.
    #[arg(short, long = "name", value_name = "NAME")]
    names: Vec<String>,
}

impl Commands {
    /// The list as a tool takes it: what is wrong in it is for the tool to say.
    pub fn list(&self) -> Result<Vec<Value>, Error> {
        let lines = self.lines.iter().map(|line| json!({"command": line}));
        let mut list: Vec<Value> = lines.collect();
        if let Some(file) = &self.file {
            list.extend(parse(&read(file)?).map_err(|said| {
                Error::invalid(format!("--file: {file}: {said}"))
                    .hint("one command per line, or a JSON list of strings or objects")
            })?);
        }
        if list.is_empty() {
            return Err(Error::invalid(match &self.file {
                Some(file) => format!("--file: {file}: there is no command in it"),
                None => "CMD: no command was given".to_owned(),
            })
            .hint("give command lines, each in quotes, or --file"));
        }
        if self.names.len() > list.len() {
            let (names, commands) = (self.names.len(), list.len());
            return Err(Error::invalid(format!(
                "--name: {names} names for {commands} commands"
            )));
        }
        for (one, name) in list.iter_mut().zip(&self.names) {
            if let Value::Object(one) = one {
                one.insert("name".to_owned(), json!(name));
            }
        }
        Ok(list)
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
        let said = parse("[\"make\",\n]").expect_err("no JSON");
        assert!(said.contains("line 2"), "{said}");
    }
}
