use std::sync::Arc;

use fugue_api::{Definition, Hints, Request};
use rmcp::model::{Tool, ToolAnnotations};

use crate::schema;

/// What a model is told once, before any tool: which tool replaces which habit. Clients cut it at 2 KB.
pub const INSTRUCTIONS: &str = include_str!("instructions.md");

/// All tools as a client lists them.
pub fn listed() -> Vec<Tool> {
    Request::definitions().iter().map(listing).collect()
}

fn listing(definition: &Definition) -> Tool {
    let said = definition.takes.get("description");
    let description = said.and_then(|said| said.as_str()).unwrap_or_default();
    Tool::new(
        definition.name,
        // A sentence is wrapped in the source and not in a listing.
        description.replace('\n', " "),
        Arc::new(schema::of_arguments(&definition.takes)),
    )
    .with_raw_output_schema(Arc::new(schema::of_result(
        &definition.gives,
        &Definition::refusal(),
    )))
    .with_annotations(annotations(definition.hints))
}

/// All four are said, because what is left out means the worst to a client.
fn annotations(hints: Hints) -> ToolAnnotations {
    let say = |read_only, destructive, idempotent, open_world| {
        ToolAnnotations::new()
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world)
    };
    match hints {
        Hints::ReadOnly => say(true, false, true, false),
        // What runs in a terminal may reach anywhere.
        Hints::Writes => say(false, false, false, true),
        Hints::Destructive => say(false, true, true, false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// Every property with a range, below it and above it.
    fn ranges(tool: &Definition) -> Vec<(String, u64, u64)> {
        let takes = tool.takes.as_value();
        let properties = takes["properties"].as_object().unwrap();
        properties
            .iter()
            .filter_map(|(name, property)| {
                let least = property.get("minimum")?.as_u64()?;
                let most = property.get("maximum")?.as_u64()?;
                Some((name.clone(), least, most))
            })
            .collect()
    }

    #[test]
    fn a_range_in_a_schema_is_the_one_that_is_checked() {
        let mut looked_at = 0;
        for tool in Request::definitions() {
            for (field, least, most) in ranges(&tool) {
                let refused = |given: i128| {
                    let mut args = Map::new();
                    args.insert(
                        field.clone(),
                        serde_json::from_str(&given.to_string()).unwrap(),
                    );
                    let required = tool.takes.get("required").and_then(Value::as_array);
                    for required in required.into_iter().flatten() {
                        let required = required.as_str().unwrap();
                        let good = match required {
                            "commands" => json!([{"command": "true"}]),
                            _ => json!("p1"),
                        };
                        args.entry(required).or_insert(good);
                    }
                    Request::parse(tool.name, Value::Object(args))
                        .and_then(|request| request.check())
                        .err()
                };
                for outside in [i128::from(least) - 1, i128::from(most) + 1] {
                    let error = refused(outside).expect("outside its range");
                    assert!(error.message.contains(&field), "{error:?}");
                }
                for inside in [least, most] {
                    assert_eq!(refused(i128::from(inside)), None, "{field} {inside}");
                }
                looked_at += 1;
            }
        }
        assert!(looked_at >= 5);
    }

    #[test]
    fn a_model_is_told_the_product_in_less_than_two_kilobytes() {
        assert!(INSTRUCTIONS.len() < 2048, "{} bytes", INSTRUCTIONS.len());
        for tool in listed() {
            assert!(INSTRUCTIONS.contains(&*tool.name), "{}", tool.name);
        }
    }
}
