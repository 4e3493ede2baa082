use std::process::ExitCode;

use fugue_api::{Error, ToolCall, ToolDefinition, nearest};
use serde_json::{Map, Value, json};

use crate::out::CliOutput;

/// Print the JSON schemas of tools and of config.toml.
///
/// Of a tool: its arguments and its reply, which is also what its verb prints with --json. Without a name: of everything.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  fugue schema read_pane\n  fugue schema config")]
pub struct SchemaArgs {
    /// A tool, or `config`.
    #[arg(value_name = "TOOL")]
    of: Option<String>,
}

/// The name of the schema of `config.toml`.
const CONFIG: &str = "config";

impl SchemaArgs {
    pub fn run(self, out: &CliOutput) -> Result<ExitCode, Error> {
        let tools = ToolCall::definitions();
        let config = || fugue_daemon::config::schema().to_value();
        let document = match self.of.as_deref() {
            None => {
                let tools = tools.iter();
                let tools: Map<String, Value> = tools
                    .map(|tool| (tool.name.to_owned(), of_tool(tool)))
                    .collect();
                json!({"tools": tools, CONFIG: config()})
            }
            Some(CONFIG) => config(),
            Some(name) => {
                let tool = tools.iter().find(|tool| tool.name == name);
                of_tool(tool.ok_or_else(|| unknown(name))?)
            }
        };
        if out.is_json() {
            out.document(&document)?;
        } else {
            let text = serde_json::to_string_pretty(&document)
                .map_err(|error| Error::internal(error.to_string()))?;
            out.lines(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn of_tool(tool: &ToolDefinition) -> Value {
    json!({"verb": tool.verb, "arguments": tool.arguments, "reply": tool.reply})
}

fn unknown(name: &str) -> Error {
    let names = ToolCall::NAMES.iter().copied().chain([CONFIG]);
    let error = Error::invalid(format!("no tool is called `{name}`"));
    match nearest(name, names.clone()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("tools: {}", names.collect::<Vec<_>>().join(", "))),
    }
}
