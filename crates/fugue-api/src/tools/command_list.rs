//! The `commands` of runs: plain command lines, objects with further settings, or both in one list.

use std::{fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Parses a list whose items are strings or objects, for `#[serde(deserialize_with = …)]`.
pub(super) fn deserialize<'de, D, C>(deserializer: D) -> Result<Vec<C>, D::Error>
where
    D: Deserializer<'de>,
    C: Deserialize<'de> + for<'a> From<&'a str>,
{
    let items = Vec::<CommandItem<C>>::deserialize(deserializer)?;
    Ok(items.into_iter().map(|item| item.0).collect())
}

/// The schema of such a list, for `#[schemars(schema_with = …)]`.
pub(super) fn schema<C: JsonSchema, const MAX: usize>(generator: &mut SchemaGenerator) -> Schema {
    let object = generator.subschema_for::<C>();
    json_schema!({
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, object]},
        "minItems": 1,
        "maxItems": MAX,
    })
}

struct CommandItem<C>(C);

impl<'de, C: Deserialize<'de> + for<'a> From<&'a str>> Deserialize<'de> for CommandItem<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor(PhantomData))
    }
}

struct ItemVisitor<C>(PhantomData<C>);

impl<'de, C: Deserialize<'de> + for<'a> From<&'a str>> Visitor<'de> for ItemVisitor<C> {
    type Value = CommandItem<C>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command line, or an object with `command`")
    }

    fn visit_str<E>(self, line: &str) -> Result<Self::Value, E> {
        Ok(CommandItem(C::from(line)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        C::deserialize(MapAccessDeserializer::new(map)).map(CommandItem)
    }
}
