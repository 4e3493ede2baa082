//! Conversion of schemars' schemas into short schemas that strict validators accept.
//!
//! schemars describes Rust types exactly: an `Option` is nullable, a `u32` has its own format, an enum with documented
//! variants is a `oneOf` of constants. Strict validators and some model vendors reject nullable types and unknown
//! formats, and all three cost a model's context.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// The input schema of a tool without the unlisted arguments, with the `default` of only the named arguments: descriptions name
/// all defaults, because Codex removes the keyword.
pub fn arguments_schema(
    schema: &Schema,
    defaults: &[&str],
    unlisted: &[&str],
) -> Map<String, Value> {
    let mut schema = plain(schema);
    // The description is part of the tool entry.
    schema.remove("description");
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    shorten(&mut schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| !unlisted.contains(&name.as_str()));
        for (name, property) in properties {
            if let Value::Object(property) = property
                && !defaults.contains(&name.as_str())
            {
                property.remove("default");
            }
        }
    }
    schema
}

/// Removes keywords that the server validates and that cost a model's context: ranges, lengths of lists, and the prohibition of
/// further properties.
fn shorten(schema: &mut Map<String, Value>) {
    for keyword in [
        "additionalProperties",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
    ] {
        schema.remove(keyword);
    }
    let shorten_value = |value: &mut Value| {
        if let Value::Object(schema) = value {
            shorten(schema);
        }
    };
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(shorten_value);
    }
    if let Some(items) = schema.get_mut("items") {
        shorten_value(items);
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.iter_mut().for_each(shorten_value);
    }
}

/// The output schema of a tool: one flat object with the properties of all reply variants.
///
/// The schema holds names, types and enums; of rows and other inner objects, names and types only. No property is required,
/// because the schema has to accept errors too: they are sent as text alone, but Gemini CLI parses a text that is JSON and
/// validates the result.
pub fn result_schema(reply: &Schema) -> Map<String, Value> {
    let mut properties = Map::new();
    for variant in object_variants(plain(reply)) {
        for (name, property) in variant {
            merge(&mut properties, name, property);
        }
    }
    properties.values_mut().for_each(reduce);
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
    ])
}

/// Reduces a part of an output schema to types, enums and the inner properties.
fn reduce(value: &mut Value) {
    let Value::Object(schema) = value else {
        return;
    };
    for keyword in ["description", "required", "minimum", "maximum", "format"] {
        schema.remove(keyword);
    }
    // A map whose keys are an enum lists all keys.
    if schema.remove("additionalProperties") == Some(json!(false))
        && let Some(Value::Object(properties)) = schema.get_mut("properties")
        && let Some(mut value) = properties.values().next().cloned()
    {
        reduce(&mut value);
        schema.remove("properties");
        schema.insert("additionalProperties".to_owned(), value);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            reduce(property);
            if let Value::Object(property) = property {
                property.remove("enum");
            }
        }
    }
    if let Some(items) = schema.get_mut("items") {
        reduce(items);
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.iter_mut().for_each(reduce);
    }
}

/// The properties of each form of an object: its own (fields of a struct) together with those of each alternative (variants
/// of an enum, also of a flattened one).
fn object_variants(mut schema: Map<String, Value>) -> Vec<Map<String, Value>> {
    let own = match schema.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let choices = ["anyOf", "oneOf"].map(|key| schema.remove(key));
    let Some(Value::Array(choices)) = choices.into_iter().flatten().next() else {
        return vec![own];
    };
    choices
        .into_iter()
        .filter_map(|choice| match choice {
            Value::Object(choice) => Some(object_variants(choice)),
            _ => None,
        })
        .flatten()
        .map(|choice| {
            let mut variant = own.clone();
            variant.extend(choice);
            variant
        })
        .collect()
}

/// Adds a property. Two enums of one name become one enum; other schemas of one name become an `anyOf`.
fn merge(properties: &mut Map<String, Value>, name: String, property: Value) {
    let Some(there) = properties.get_mut(&name) else {
        properties.insert(name, property);
        return;
    };
    let mut schemas = choices(there.take());
    for choice in choices(property) {
        if !schemas.contains(&choice) {
            schemas.push(choice);
        }
    }
    *there = match (words(&schemas), schemas.as_slice()) {
        (Some(values), _) => json!({"type": "string", "enum": values}),
        (None, [only]) => only.clone(),
        (None, several) => json!({"anyOf": several}),
    };
}

/// The alternatives of a schema, without descriptions.
fn choices(mut schema: Value) -> Vec<Value> {
    if let Value::Object(schema) = &mut schema {
        schema.remove("description");
    }
    match schema.get_mut("anyOf") {
        Some(Value::Array(choices)) => std::mem::take(choices),
        _ => vec![schema],
    }
}

/// The values of schemas that are all enums of strings.
fn words(schemas: &[Value]) -> Option<Vec<Value>> {
    let mut words = Vec::new();
    for schema in schemas {
        let values = match (schema.get("const"), schema.get("enum")) {
            (Some(value @ Value::String(_)), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) => values.clone(),
            _ => return None,
        };
        for value in values {
            if !words.contains(&value) {
                words.push(value);
            }
        }
    }
    Some(words)
}

fn plain(schema: &Schema) -> Map<String, Value> {
    let mut value = schema.clone().to_value();
    clean(&mut value);
    match value {
        Value::Object(object) => object,
        // The schema `true`; the arguments of a tool are always an object.
        _ => Map::new(),
    }
}

fn clean(value: &mut Value) {
    let Value::Object(schema) = value else {
        return;
    };
    for noise in ["$schema", "title"] {
        schema.remove(noise);
    }
    // The widths of Rust's numbers are not formats of JSON Schema. `date-time` and other standard formats remain.
    if schema
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| {
            format.starts_with("uint") || format.starts_with("int") || format == "double"
        })
    {
        schema.remove("format");
    }
    let required: Vec<String> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if !required.contains(name) {
                without_null(property);
            }
            clean(property);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            clean(inner);
        }
    }
    // Strict validators reject a list of types; an `anyOf` is equivalent.
    if let Some(Value::Array(types)) = schema.get("type") {
        let choices: Vec<Value> = types.iter().map(|name| json!({"type": name})).collect();
        schema.remove("type");
        schema.insert("anyOf".to_owned(), Value::Array(choices));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(choices)) = schema.get_mut(key) {
            choices.iter_mut().for_each(clean);
        }
    }
    constants_as_one_enum(schema);
}

/// Removes `null` from an optional property, which clients omit instead.
fn without_null(property: &mut Value) {
    let Value::Object(schema) = property else {
        return;
    };
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (key, value) in only {
                // The property's own keywords take precedence over the type's.
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// Replaces `oneOf: [{const: "a", description: …}, …]` by the shorter `enum`.
fn constants_as_one_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else {
        return;
    };
    let mut values = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(value), _) => values.push(value.clone()),
            (None, Some(Value::Array(several))) => values.extend(several.iter().cloned()),
            _ => return,
        }
    }
    schema.remove("oneOf");
    schema.entry("type").or_insert_with(|| json!("string"));
    schema.insert("enum".to_owned(), Value::Array(values));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: Value, wanted: Value) {
        let schema = Schema::try_from(given).unwrap();
        assert_eq!(
            Value::Object(arguments_schema(&schema, &["mode"], &["programs"])),
            wanted
        );
    }

    #[test]
    fn what_may_be_left_out_is_never_null() {
        check(
            json!({"$schema": "x", "title": "T", "type": "object", "required": ["must"], "properties": {
                "may": {"type": ["integer", "null"], "format": "uint64", "default": null},
                "must": {"type": ["string", "null"]},
                "choice": {"description": "ours", "anyOf": [{"description": "theirs", "type": "string", "enum": ["a"]}, {"type": "null"}]},
            }}),
            json!({"type": "object", "required": ["must"], "properties": {
                "may": {"type": "integer"},
                "must": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "choice": {"description": "ours", "type": "string", "enum": ["a"]},
            }}),
        );
    }

    #[test]
    fn what_the_server_validates_is_left_out() {
        check(
            json!({"type": "object", "additionalProperties": false, "properties": {
                "lines": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                "programs": {"type": "string"},
                "mode": {"type": "string", "default": "a"},
                "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [
                    {"type": "string"},
                    {"type": "object", "additionalProperties": false, "properties": {"n": {"type": "integer", "minimum": 1}}},
                ]}},
            }}),
            json!({"type": "object", "properties": {
                "lines": {"type": "integer"},
                "mode": {"type": "string", "default": "a"},
                "list": {"type": "array", "items": {"anyOf": [
                    {"type": "string"},
                    {"type": "object", "properties": {"n": {"type": "integer"}}},
                ]}},
            }}),
        );
    }

    #[test]
    fn documented_constants_are_one_enum() {
        check(
            json!({"type": "object", "properties": {"mode": {"default": "b", "oneOf": [
                {"const": "a", "type": "string", "description": "first"},
                {"enum": ["b", "c"], "type": "string"},
            ]}}}),
            json!({"type": "object", "properties": {"mode": {
                "default": "b", "type": "string", "enum": ["a", "b", "c"],
            }}}),
        );
    }

    #[test]
    fn a_real_choice_and_a_real_format_stay() {
        let choice = json!({"type": "object", "properties": {
            "at": {"type": "string", "format": "date-time"},
            "which": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        }});
        check(choice.clone(), choice);
    }

    #[test]
    fn a_result_is_one_flat_object_whatever_it_may_be() {
        let choice = |name: &str, kind: &str, kinds: &[&str]| {
            json!({"type": "object", "required": [name, "both"], "properties": {
                name: {"type": "string", "description": name},
                "both": {"type": kind, "description": "of both"},
                "kind": {"type": "string", "enum": kinds},
                "rows": {"type": "array", "items": {"type": "object", "required": ["x"], "properties": {
                    "x": {"type": "integer", "minimum": 0, "description": "a row's"},
                    "state": {"type": "string", "enum": ["on", "off"]},
                }}},
                "counts": {"type": "object", "additionalProperties": false, "properties": {"on": {"type": "integer"}, "off": {"type": "integer"}}},
            }})
        };
        let reply =
            json!({"anyOf": [choice("a", "string", &["s", "t"]), choice("b", "integer", &["u"])]});
        assert_eq!(
            Value::Object(result_schema(&Schema::try_from(reply).unwrap())),
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "both": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "kind": {"type": "string", "enum": ["s", "t", "u"]},
                    "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}, "state": {"type": "string"}}}},
                    "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "b": {"type": "string"},
                },
            })
        );
    }
}
