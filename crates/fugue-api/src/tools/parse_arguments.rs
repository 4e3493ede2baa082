//! Parsing of arguments from JSON, with errors in the words of tool descriptions.

use serde::de::DeserializeOwned;

use crate::Error;

/// The limit of a given value in an error, in characters.
const MAX_VALUE_CHARS: usize = 100;

/// Parses the arguments of one tool. An error names the argument, the wanted form and the given value.
pub(super) fn parse_arguments<T: DeserializeOwned>(args: serde_json::Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let path = error.path().to_string();
        // An unknown value of an enum has the path `mode.?`.
        let path = path.trim_end_matches(['?', '.']).to_owned();
        let message = reword(&error.into_inner().to_string());
        Error::invalid(if path.is_empty() {
            message
        } else {
            format!("{path}: {message}")
        })
    })
}

/// Replaces serde's form of a type error, which names Rust types, by `wanted …, got …`.
fn reword(message: &str) -> String {
    let mismatch = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "));
    if let Some((given, wanted)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("wanted {}, got {}", wanted_form(wanted), given_value(given));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ")
        && let Some((given, wanted)) = rest.rsplit_once(", expected ")
    {
        return format!("wanted {wanted}, got {}", given_value(given));
    }
    match message.strip_prefix("unknown field ") {
        Some(rest) => match rest.rsplit_once(", expected ") {
            Some((given, known)) => {
                format!("no argument {}; wanted {known}", given_value(given))
            }
            None => format!("no argument {}", given_value(rest)),
        },
        None => message.replacen("missing field", "missing argument", 1),
    }
}

fn wanted_form(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        // A value of an enum.
        "string or map" => "a string",
        other => match other.strip_prefix("struct ") {
            Some(_) => "an object",
            None => other,
        },
    }
}

/// The description of a given value, cut to [`MAX_VALUE_CHARS`].
fn given_value(given: &str) -> String {
    let given = match given {
        "sequence" => "a list",
        "map" => "an object",
        other => other,
    };
    match given.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &given[..end]),
        None => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::ToolCall;

    /// Words of Rust and serde that a caller cannot understand.
    const FOREIGN: &[&str] = &[
        "struct", "enum", "variant", "sequence", "tuple", "unit", "expected", "u16", "u32", "u64",
        "f64", "Vec", "Option", "::",
    ];

    /// A value of every JSON type.
    fn values() -> [Value; 6] {
        [
            json!(null),
            json!(true),
            json!(-7.5),
            json!("\u{1}"),
            json!([[]]),
            json!({"a": []}),
        ]
    }

    fn fits(schema: &Value, value: &Value) -> bool {
        if let Some(choices) = schema["anyOf"].as_array() {
            return choices.iter().any(|choice| fits(choice, value));
        }
        let of_type = |name: &str| match name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            // The list and the object hold items of types that no argument has.
            "array" | "object" => false,
            other => panic!("type {other}"),
        };
        match &schema["type"] {
            Value::String(name) => of_type(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).any(of_type),
            // An enum of documented constants.
            _ => value.is_null(),
        }
    }

    fn required(schema: &Value, args: &mut Map<String, Value>) {
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            let good = if name == "commands" {
                json!(["true"])
            } else {
                json!("p1")
            };
            args.entry(name).or_insert(good);
        }
    }

    #[track_caller]
    fn refused(tool: &str, args: Value, path: &str) {
        let message = ToolCall::parse(tool, args.clone()).unwrap_err().message;
        assert!(
            message.starts_with(path) && message.contains("wanted"),
            "{tool} {args}: {message}"
        );
        for word in FOREIGN {
            assert!(!message.contains(word), "{tool} {args}: {message}");
        }
    }

    #[test]
    fn a_wrong_type_is_refused_by_the_name_of_its_argument() {
        let mut checked = 0;
        for tool in ToolCall::definitions() {
            let schema = tool.arguments.as_value();
            for (name, property) in schema["properties"].as_object().unwrap() {
                for value in values() {
                    if fits(property, &value) {
                        continue;
                    }
                    let mut args = Map::from_iter([(name.clone(), value)]);
                    required(schema, &mut args);
                    refused(tool.name, Value::Object(args), name);
                    checked += 1;
                }
            }
        }
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn a_wrong_type_inside_of_commands_is_refused_by_its_place() {
        for tool in ["fugue_run_parallel", "fugue_run_pipeline"] {
            for value in [json!(null), json!(7), json!(["true"])] {
                refused(
                    tool,
                    json!({"commands": ["true", value]}),
                    "commands[1]: wanted a command line, or an object with `command`, got ",
                );
            }
            refused(
                tool,
                json!({"commands": [{"command": 7}]}),
                "commands[0].command: wanted a string, got integer `7`",
            );
            refused(
                tool,
                json!({"commands": [{"command": "a", "name": []}]}),
                "commands[0].name: wanted a string, got a list",
            );
            refused(
                tool,
                json!({"commands": [{"command": "a", "dir": "/"}]}),
                "commands[0].dir: no argument `dir`; wanted ",
            );
            refused(
                tool,
                json!({"commands": "true"}),
                "commands: wanted a list, got string \"true\"",
            );
        }
    }

    #[test]
    fn a_command_is_a_line_or_an_object() {
        for tool in ["fugue_run_parallel", "fugue_run_pipeline"] {
            let parse =
                |commands: Value| ToolCall::parse(tool, json!({"commands": commands})).unwrap();
            assert_eq!(
                parse(json!(["true", {"command": "false", "name": "no"}])),
                parse(json!([{"command": "true"}, {"command": "false", "name": "no"}])),
            );
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let error = ToolCall::parse(
            "read_pane",
            json!({"pane_id": "p1", "lines": "x".repeat(5000)}),
        );
        assert!(error.unwrap_err().message.len() < 200);
    }
}
