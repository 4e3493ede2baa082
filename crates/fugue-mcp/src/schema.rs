//! Makes schemas that strict checkers take and models read cheaply, out of what schemars writes.
//!
//! schemars is exact about Rust: an `Option` may be null, a `u32` has a format of its own, an enum with documented
//! variants is a choice of constants. Strict checkers and some model vendors refuse the first two, and a model pays
//! for all three by the byte.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// The schema of a tool's arguments.
pub fn of_arguments(schema: &Schema) -> Map<String, Value> {
    let mut schema = plain(schema);
    // The tool itself carries it.
    schema.remove("description");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(cheaper);
    }
    schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Leaves out what a model knows anyway: a flag is off, the first of several words holds, a number is not negative, a
/// limit is beyond all use. The door
/// checks them all the same.
fn cheaper(property: &mut Value) {
    let Value::Object(property) = property else {
        return;
    };
    if property.get("default") == Some(&json!(false)) {
        property.remove("default");
    }
    // The first of several words is what holds where none is said.
    let first = property.get("enum").and_then(|words| words.get(0)).cloned();
    if first.is_some() && property.get("default") == first.as_ref() {
        property.remove("default");
    }
    if property.get("minItems") == Some(&json!(1)) {
        property.remove("minItems");
    }
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    if number(property.get("minimum")).is_some_and(|least| least <= 1.0) {
        property.remove("minimum");
    }
    if number(property.get("maximum")).is_some_and(|most| most > 10_000.0) {
        property.remove("maximum");
    }
}

/// The schema of a tool's result: one object at the top, also where the reply is one of several, and also for a
/// refusal. The TypeScript SDK checks the structured part of a refusal against this schema too, and a client built on
/// it would otherwise throw the refusal away and tell its model about the schema.
pub fn of_result(gives: &Schema, refusal: &Schema) -> Map<String, Value> {
    let gives = plain(gives);
    let mut shapes: Vec<Map<String, Value>> = match gives.get("anyOf") {
        Some(Value::Array(choices)) => choices
            .iter()
            .filter_map(|choice| choice.as_object().cloned())
            .collect(),
        _ => vec![gives],
    };
    shapes.push(plain(refusal));
    let mut properties = Map::new();
    let mut ways = Vec::new();
    for mut shape in shapes {
        ways.push(json!({"required": shape.remove("required").unwrap_or_else(|| json!([]))}));
        if let Some(Value::Object(own)) = shape.remove("properties") {
            for (name, property) in own {
                merge(&mut properties, name, property);
            }
        }
    }
    Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("anyOf".to_owned(), Value::Array(ways)),
    ])
}

/// A name that two shapes use for different things may be either.
fn merge(properties: &mut Map<String, Value>, name: String, property: Value) {
    let merged = match properties.get(&name) {
        None => property,
        Some(there) if *there == property => property,
        Some(there) => json!({"anyOf": [there, property]}),
    };
    properties.insert(name, merged);
}

fn plain(schema: &Schema) -> Map<String, Value> {
    let mut value = schema.clone().to_value();
    clean(&mut value);
    match value {
        Value::Object(object) => object,
        // `true`: anything goes, which for a tool is an object.
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
    // Rust's widths, and nothing a JSON checker knows; `date-time` and its like are left.
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
    // A list of types is what strict checkers stumble over; a choice says the same.
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

/// A property that may be left out is left out, never null.
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
                // What is said of the property is closer to the point than what is said of its type.
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// `oneOf: [{const: "a", description: …}, …]` says in many words what `enum` says in one.
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
        assert_eq!(Value::Object(of_arguments(&schema)), wanted);
    }

    #[test]
    fn what_may_be_left_out_is_never_null() {
        check(
            json!({"$schema": "x", "title": "T", "type": "object", "required": ["must"], "properties": {
                "may": {"type": ["integer", "null"], "format": "uint64", "minimum": 2, "default": null},
                "must": {"type": ["string", "null"]},
                "choice": {"description": "ours", "anyOf": [{"description": "theirs", "type": "string", "enum": ["a"]}, {"type": "null"}]},
            }}),
            json!({"type": "object", "required": ["must"], "properties": {
                "may": {"type": "integer", "minimum": 2},
                "must": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "choice": {"description": "ours", "type": "string", "enum": ["a"]},
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
    fn a_result_is_one_object_whatever_it_may_be() {
        let choice = |name: &str, kind: &str| json!({"type": "object", "required": [name], "properties": {name: {"type": kind}, "both": {"type": kind}}});
        let gives = json!({"anyOf": [choice("a", "string"), choice("b", "string")]});
        let refusal = choice("kind", "integer");
        let schema = of_result(
            &Schema::try_from(gives).unwrap(),
            &Schema::try_from(refusal).unwrap(),
        );
        assert_eq!(
            Value::Object(schema),
            json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "both": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "b": {"type": "string"},
                    "kind": {"type": "integer"},
                },
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["kind"]}],
            })
        );
    }
}
