use std::sync::Arc;

use fugue_api::{ToolCall, ToolDefinition, ToolHints};
use rmcp::model::{Tool, ToolAnnotations};

use crate::schema;

/// The server instructions that a model receives once per connection. Clients truncate them at 2 KB.
pub const INSTRUCTIONS: &str = include_str!("instructions.md");

/// All tools, as in the result of `tools/list`.
pub fn tool_listing() -> Vec<Tool> {
    ToolCall::definitions().iter().map(tool_entry).collect()
}

fn tool_entry(definition: &ToolDefinition) -> Tool {
    let description = definition.arguments.get("description");
    let description = description
        .and_then(|text| text.as_str())
        .unwrap_or_default();
    Tool::new(
        definition.name,
        // Line breaks of the doc comment.
        description.replace('\n', " "),
        Arc::new(schema::arguments_schema(&definition.arguments)),
    )
    .with_raw_output_schema(Arc::new(schema::result_schema(&definition.reply)))
    .with_annotations(annotations(definition.hints))
}

/// All four hints, because clients assume the worst for a missing hint.
fn annotations(hints: ToolHints) -> ToolAnnotations {
    let hints_of = |read_only, destructive, idempotent, open_world| {
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world)
    };
    match hints {
        ToolHints::ReadOnly => hints_of(true, false, true, false),
        // A command in a terminal may reach the network.
        ToolHints::Writes => hints_of(false, false, false, true),
        ToolHints::Destructive => hints_of(false, true, true, false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// The name, minimum and maximum of each property with a range.
    fn ranges(tool: &ToolDefinition) -> Vec<(String, u64, u64)> {
        let arguments = tool.arguments.as_value();
        let properties = arguments["properties"].as_object().unwrap();
        properties
            .iter()
            .filter_map(|(name, property)| {
                let minimum = property.get("minimum")?.as_u64()?;
                let maximum = property.get("maximum")?.as_u64()?;
                Some((name.clone(), minimum, maximum))
            })
            .collect()
    }

    #[test]
    fn ranges_in_schemas_equal_the_validated_ranges() {
        let mut checked = 0;
        for tool in ToolCall::definitions() {
            for (field, minimum, maximum) in ranges(&tool) {
                let refused = |given: i128| {
                    let mut args = Map::new();
                    args.insert(
                        field.clone(),
                        serde_json::from_str(&given.to_string()).unwrap(),
                    );
                    let required = tool.arguments.get("required").and_then(Value::as_array);
                    for required in required.into_iter().flatten() {
                        let required = required.as_str().unwrap();
                        let good = match required {
                            "commands" => json!([{"command": "true"}]),
                            _ => json!("p1"),
                        };
                        args.entry(required).or_insert(good);
                    }
                    ToolCall::parse(tool.name, Value::Object(args))
                        .and_then(|request| request.check())
                        .err()
                };
                for outside in [i128::from(minimum) - 1, i128::from(maximum) + 1] {
                    let error = refused(outside).expect("outside its range");
                    assert!(error.message.contains(&field), "{error:?}");
                }
                for inside in [minimum, maximum] {
                    assert_eq!(refused(i128::from(inside)), None, "{field} {inside}");
                }
                checked += 1;
            }
        }
        assert!(checked >= 5);
    }

    #[test]
    fn the_instructions_name_every_tool_in_less_than_two_kilobytes() {
        assert!(INSTRUCTIONS.len() < 2048, "{} bytes", INSTRUCTIONS.len());
        for tool in tool_listing() {
            assert!(INSTRUCTIONS.contains(&*tool.name), "{}", tool.name);
        }
    }
}
