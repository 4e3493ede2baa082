use std::sync::Arc;

use fugue_api::{ToolCall, ToolDefinition, ToolGroup, ToolHints};
use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::json;

use crate::schema;

/// The server instructions that a model receives once per connection. Clients truncate them at 2 KB.
pub const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Tools that Claude Code puts into the model's context at once. The others are found by a search.
const ALWAYS_LOADED: &[&str] = &[
    "create_pane",
    "read_pane",
    "fugue_expect",
    "fugue_run_parallel",
    "fugue_run_pipeline",
];

/// Arguments whose schemas have the `default` keyword: those of the documents that the tools were designed from.
const LISTED_DEFAULTS: &[(&str, &[&str])] = &[
    (
        "fugue_expect",
        &["timeout_ms", "action", "poll_interval_ms", "lines"],
    ),
    ("fugue_run_parallel", &["layout", "timeout_ms", "cleanup"]),
    (
        "fugue_run_pipeline",
        &["stop_on_error", "timeout_ms", "cleanup"],
    ),
    ("wait_for_event", &["timeout_secs"]),
];

/// Arguments that are accepted and not listed, because models have no use for them: idempotent starts are for programs, and a
/// pane of tmux is for people. They would cost every model a few hundred bytes of its context.
const UNLISTED_ARGUMENTS: &[(&str, &[&str])] = &[
    ("create_pane", &["run_id"]),
    ("fugue_expect", &["run_id"]),
    ("fugue_run_parallel", &["run_id", "backend"]),
    ("fugue_run_pipeline", &["run_id", "backend"]),
    ("spawn_worker", &["backend"]),
];

/// All tools, as in the result of `tools/list`.
pub fn tool_listing() -> Vec<Tool> {
    ToolCall::definitions().iter().map(tool_entry).collect()
}

/// The tools of some groups, in the order of the listing.
pub fn tools_of_groups(groups: &[ToolGroup]) -> Vec<Tool> {
    ToolCall::definitions()
        .iter()
        .filter(|definition| groups.contains(&definition.group))
        .map(tool_entry)
        .collect()
}

/// The [`INSTRUCTIONS`] without the list items about tools that are not offered.
pub fn instructions(offered: &[Tool]) -> String {
    let missing: Vec<&str> = ToolCall::NAMES
        .iter()
        .copied()
        .filter(|name| offered.iter().all(|tool| tool.name != *name))
        .collect();
    let is_kept = |line: &&str| {
        !line.starts_with("- ")
            || missing.iter().all(|name| {
                !line
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|word| word == *name)
            })
    };
    INSTRUCTIONS
        .lines()
        .filter(is_kept)
        .collect::<Vec<_>>()
        .join("\n")
}

fn tool_entry(definition: &ToolDefinition) -> Tool {
    let named_in = |table: &[(&str, &'static [&'static str])]| {
        let row = table.iter().find(|(tool, _)| *tool == definition.name);
        row.map_or(&[][..], |(_, arguments)| arguments)
    };
    let (defaults, unlisted) = (named_in(LISTED_DEFAULTS), named_in(UNLISTED_ARGUMENTS));
    let description = definition.arguments.get("description");
    let description = description
        .and_then(|text| text.as_str())
        .unwrap_or_default();
    let tool = Tool::new(
        definition.name,
        // Line breaks of the doc comment.
        description.replace('\n', " "),
        Arc::new(schema::arguments_schema(
            &definition.arguments,
            defaults,
            unlisted,
        )),
    )
    .with_raw_output_schema(Arc::new(schema::result_schema(&definition.reply)))
    .with_annotations(annotations(definition.hints));
    if !ALWAYS_LOADED.contains(&definition.name) {
        return tool;
    }
    let mut meta = MetaObject::new();
    meta.0
        .insert("anthropic/alwaysLoad".to_owned(), json!(true));
    tool.with_meta(meta)
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
    use serde_json::{Map, Value};

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
    fn the_instructions_name_every_tool_in_at_most_450_tokens() {
        // 4.2 bytes per token of o200k.
        assert!(INSTRUCTIONS.len() <= 1_900, "{} bytes", INSTRUCTIONS.len());
        for tool in tool_listing() {
            assert!(INSTRUCTIONS.contains(&*tool.name), "{}", tool.name);
        }
    }

    #[test]
    fn a_group_has_its_own_tools_and_instructions() {
        let mut sum = 0;
        for group in [
            ToolGroup::Panes,
            ToolGroup::Runs,
            ToolGroup::Team,
            ToolGroup::Watch,
        ] {
            let offered = tools_of_groups(&[group]);
            assert!(offered.len() >= 4, "{group:?}");
            sum += offered.len();
            let text = instructions(&offered);
            for tool in tool_listing() {
                let is_offered = offered.iter().any(|other| other.name == tool.name);
                let is_named = text.contains(&*tool.name);
                assert!(is_named || !is_offered, "{group:?} {}: {text}", tool.name);
                let is_common_word = ["pause", "clear"].contains(&&*tool.name);
                assert!(
                    !is_named || is_offered || is_common_word,
                    "{group:?} {}: {text}",
                    tool.name
                );
            }
        }
        assert_eq!(sum, tool_listing().len());
        assert_eq!(instructions(&tool_listing()), INSTRUCTIONS.trim_end());
    }
}
