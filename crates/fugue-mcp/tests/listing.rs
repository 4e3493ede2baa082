//! All tools as a client lists them, against the file that holds them: a change of contract shows in the diff.
//!
//! `FUGUE_BLESS=1 cargo test -p fugue-mcp --test listing` writes the file anew.

use std::{collections::BTreeMap, fs, path::Path};

use fugue_api::ToolReply;
use rmcp::model::Tool;
use serde_json::{Value, json};

/// The limit of what a model pays for all tools: names, descriptions and input schemas in compact JSON. The agreed limit is
/// 12,288; the rest is for tools and arguments to come.
const MAX_LISTING_BYTES: usize = 11_388;

/// The limit of all output schemas in compact JSON.
const MAX_OUTPUT_SCHEMA_BYTES: usize = 12_288;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/listing.json");

#[test]
fn the_listing_is_the_one_that_was_agreed_on() {
    let listed = fugue_mcp::tool_listing();
    let now = serde_json::to_string_pretty(&listed).expect("a listing is JSON") + "\n";
    if std::env::var_os("FUGUE_BLESS").is_some() {
        fs::write(GOLDEN, &now).expect("the golden file is written");
    }
    let then = fs::read_to_string(Path::new(GOLDEN)).unwrap_or_default();
    assert!(
        now == then,
        "the listing has changed (FUGUE_BLESS=1 agrees to it):\n{}",
        difference(&then, &now)
    );
}

#[test]
fn names_descriptions_and_input_schemas_are_bounded() {
    let listed = fugue_mcp::tool_listing();
    let paid: usize = listed.iter().map(paid_for).sum();
    println!(
        "names, descriptions and input schemas: {paid} bytes of {} tools; instructions {}",
        listed.len(),
        fugue_mcp::INSTRUCTIONS.len()
    );
    assert!(paid <= MAX_LISTING_BYTES, "{paid} bytes");
}

#[test]
fn output_schemas_are_at_most_12_kib() {
    let mut sizes: Vec<(usize, String)> = fugue_mcp::tool_listing()
        .iter()
        .map(|tool| {
            (
                json!(tool.output_schema).to_string().len(),
                tool.name.to_string(),
            )
        })
        .collect();
    sizes.sort();
    let sum: usize = sizes.iter().map(|(size, _)| size).sum();
    println!("output schemas: {sum} bytes, {sizes:?}");
    assert!(sum <= MAX_OUTPUT_SCHEMA_BYTES, "{sum} bytes: {sizes:?}");
}

#[test]
fn the_security_page_says_what_every_tool_can_do() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = fs::read_to_string(page).expect("docs/security.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for tool in fugue_mcp::tool_listing() {
        let name = format!("`{}`", tool.name);
        let is_named = |row: &&&str| {
            row.split('|')
                .nth(1)
                .is_some_and(|cell| cell.contains(&name))
        };
        assert_eq!(rows.iter().filter(is_named).count(), 1, "rows for {name}");
    }
}

#[test]
fn a_strict_checker_finds_nothing_to_say() {
    for tool in fugue_mcp::tool_listing() {
        let input = Value::Object((*tool.input_schema).clone());
        let output = tool.output_schema.as_ref().expect("an output schema");
        let output = Value::Object((**output).clone());
        for schema in [&input, &output] {
            assert_eq!(schema["type"], "object", "{}", tool.name);
            strict(&tool.name, schema);
        }
        for (name, property) in input["properties"].as_object().expect("properties") {
            let said = property["description"].as_str().unwrap_or_default();
            assert!(
                (4..=150).contains(&said.len()),
                "{}: {name}: {said:?}",
                tool.name
            );
        }
        let annotations = json!(tool.annotations);
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(annotations[hint].is_boolean(), "{}: {hint}", tool.name);
        }
    }
}

#[test]
fn every_default_is_in_a_description() {
    let mut checked = 0;
    for tool in fugue_api::ToolCall::definitions() {
        let arguments = tool.arguments.as_value();
        for (name, property) in arguments["properties"].as_object().expect("properties") {
            let default = match property.get("default") {
                None | Some(Value::Null) => continue,
                Some(Value::String(word)) => word.clone(),
                Some(Value::Number(number)) => number.to_string().replace(".0", ""),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Array(_) | Value::Object(_)) => String::new(),
            };
            let said = property["description"].as_str().unwrap_or_default();
            assert!(
                said.to_lowercase().contains("default") && said.contains(&default)
                    || default.is_empty(),
                "{}: {name} has the default {default}: {said:?}",
                tool.name
            );
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
}

/// The defaults of the documents that the tools were designed from.
#[test]
fn designed_defaults_are_listed() {
    let designed = json!({
        "fugue_expect": {"timeout_ms": 60000, "action": "notify", "poll_interval_ms": 200, "lines": 100},
        "fugue_run_parallel": {"layout": "hidden", "timeout_ms": 300000, "cleanup": true},
        "fugue_run_pipeline": {"stop_on_error": true, "timeout_ms": 600000, "cleanup": false},
        "wait_for_event": {"timeout_secs": 300.0},
    });
    for tool in fugue_mcp::tool_listing() {
        let properties = json!(tool.input_schema)["properties"].clone();
        let defaults: serde_json::Map<String, Value> = properties
            .as_object()
            .expect("properties")
            .iter()
            .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
            .collect();
        let wanted = designed.get(&*tool.name).cloned().unwrap_or(json!({}));
        assert_eq!(Value::Object(defaults), wanted, "{}", tool.name);
    }
}

/// The words of a task by which people and models look for a tool.
#[test]
fn tools_are_found_by_the_words_of_a_task() {
    let listed = fugue_mcp::tool_listing();
    for (tool, words) in [
        ("create_pane", "background process"),
        ("fugue_expect", "wait until a server is ready"),
        ("spawn_worker", "subagent"),
        ("wait_for_event", "worker events"),
        ("watch_me", "Keep going"),
    ] {
        let entry = listed.iter().find(|entry| entry.name == tool);
        let description = entry.and_then(|entry| entry.description.as_deref());
        assert!(
            description.is_some_and(|text| text.contains(words)),
            "{tool} is not found by {words:?}"
        );
    }
}

/// The replies of `replies.json`, which together have every field: of every tool, in each form that its reply has.
#[test]
fn every_reply_fits_the_advertised_schema_that_lists_all_its_fields() {
    let samples: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(include_str!("replies.json")).expect("replies by tool");
    let runs = ["fugue_expect", "fugue_run_parallel", "fugue_run_pipeline"];
    for tool in fugue_mcp::tool_listing() {
        let schema = json!(tool.output_schema);
        let replies: Vec<Value> = match &*tool.name {
            "fugue_wait" => runs.iter().flat_map(|run| samples[*run].clone()).collect(),
            name => samples[name].clone(),
        };
        for reply in &replies {
            let wire = json!({"tool": tool.name, "reply": reply});
            let parsed: ToolReply = serde_json::from_value(wire.clone()).expect("a reply");
            assert_eq!(json!(parsed), wire, "the sample has only known fields");
        }
        for reply in &replies {
            assert!(fits(&schema, reply), "{}: {reply} in {schema}", tool.name);
        }
        for field in schema["properties"].as_object().expect("properties").keys() {
            let is_given = replies.iter().any(|reply| reply.get(field).is_some());
            assert!(is_given, "no sample reply of {} has `{field}`", tool.name);
        }
    }
}

/// Gemini CLI validates the text of an error, which is JSON, by the output schema of the tool.
#[test]
fn every_output_schema_accepts_an_error() {
    let error = json!(fugue_api::Error::invalid("m").hint("h"));
    for tool in fugue_mcp::tool_listing() {
        let schema = json!(tool.output_schema);
        let keywords: Vec<&String> = schema.as_object().expect("a schema").keys().collect();
        assert_eq!(keywords, ["type", "properties"], "{}", tool.name);
        for (name, value) in error.as_object().expect("an object") {
            let property = &schema["properties"][name];
            assert!(
                property.is_null() || fits(property, value),
                "{}: {name}",
                tool.name
            );
        }
    }
}

/// Whether a value fits the keywords that output schemas have. An object with a list of properties has no others.
fn fits(schema: &Value, value: &Value) -> bool {
    let is_of_type = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => panic!("type {other}"),
    };
    let fits_properties = match (value, schema["properties"].as_object()) {
        (Value::Object(fields), Some(known)) => fields.iter().all(|(name, field)| {
            let property = known.get(name);
            property.is_some_and(|property| fits(property, field))
        }),
        _ => true,
    };
    let list = |key: &str| schema[key].as_array().map(Vec::as_slice);
    let required = list("required").unwrap_or_default();
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    is_of_type
        && fits_properties
        && required
            .iter()
            .all(|name| value.get(name.as_str().expect("a name")).is_some())
        && list("enum").is_none_or(|values| values.contains(value))
        && schema.get("const").is_none_or(|constant| constant == value)
        && list("anyOf").is_none_or(|choices| choices.iter().any(|choice| fits(choice, value)))
        && items.iter().all(|item| fits(&schema["items"], item))
}

fn strict(tool: &str, schema: &Value) {
    match schema {
        Value::Object(fields) => {
            for word in ["$ref", "$schema", "$defs", "title", "nullable"] {
                let named_so = fields.get(word).is_some_and(|value| !value.is_object());
                assert!(!named_so, "{tool} says {word}: {schema}");
            }
            if let Some(format) = fields.get("format").and_then(Value::as_str) {
                assert_eq!(format, "date-time", "{tool}: {schema}");
            }
            assert!(
                !fields.get("type").is_some_and(Value::is_array),
                "{tool} has a union: {schema}"
            );
            fields.values().for_each(|inner| strict(tool, inner));
        }
        Value::Array(items) => items.iter().for_each(|inner| strict(tool, inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn paid_for(tool: &Tool) -> usize {
    let paid = json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema});
    paid.to_string().len()
}

/// The lines that only one of the two has, in order; good enough to see what happened.
fn difference(then: &str, now: &str) -> String {
    let (then, now): (Vec<&str>, Vec<&str>) = (then.lines().collect(), now.lines().collect());
    let same_head = then.iter().zip(&now).take_while(|(a, b)| a == b).count();
    let rest = |lines: &[&str]| lines.len() - same_head;
    let same_tail = then
        .iter()
        .rev()
        .zip(now.iter().rev())
        .take_while(|(a, b)| a == b)
        .count()
        .min(rest(&then))
        .min(rest(&now));
    let shown = |sign: char, lines: &[&str]| -> String {
        let changed = &lines[same_head..lines.len() - same_tail];
        changed
            .iter()
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    format!(
        "from line {}:\n{}{}",
        same_head + 1,
        shown('-', &then),
        shown('+', &now)
    )
}
