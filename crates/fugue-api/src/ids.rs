use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The id of a run, chosen by the caller or generated. Ids are global and never reused.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct RunId(pub String);

impl RunId {
    const MAX_BYTES: usize = 64;

    /// A generated id: short enough to type, with enough random bits to be unique.
    pub fn fresh(random: [u8; 8]) -> Self {
        // Without vowels and look-alikes, so that ids are no words and easy to copy.
        const LETTERS: &[u8; 25] = b"23456789bcdfghjkmnpqrstvz";
        let mut bits = u64::from_le_bytes(random);
        let mut id = String::from("r-");
        for _ in 0..10 {
            id.push(char::from(LETTERS[(bits % 25) as usize]));
            bits /= 25;
        }
        Self(id)
    }

    pub fn check(&self) -> Result<(), Error> {
        let good = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        if self.0.is_empty() || self.0.len() > Self::MAX_BYTES || !self.0.chars().all(good) {
            return Err(Error::invalid(format!(
                "run_id: wanted 1 to {} letters, digits, `.`, `_`, `:` or `-`, got {:?}",
                Self::MAX_BYTES,
                self.0
            )));
        }
        Ok(())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let id = Self(text.to_owned());
        id.check().map(|()| id)
    }
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                text.strip_prefix($letter)
                    .filter(|digits| {
                        digits.bytes().all(|b| b.is_ascii_digit())
                            && (!digits.starts_with('0') || *digits == "0")
                    })
                    .and_then(|digits| digits.parse().ok())
                    .map($name)
                    .ok_or_else(|| {
                        Error::invalid(format!(
                            concat!("`{}` is not ", $what, " id; they look like `", $letter, "12`"),
                            text
                        ))
                    })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}

numbered!(
    /// The id of a pane, `p1`, `p2`, …: counted by the store and never reused.
    PaneId,
    "p",
    "a pane"
);
numbered!(
    /// The id of an event, `e1`, `e2`, …: ascending in the order of the events. `e0` precedes all.
    EventId,
    "e",
    "an event"
);
numbered!(
    /// The id of a question, `q1`, `q2`, …
    QuestionId,
    "q",
    "a question"
);

/// The name of a pane session.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct SessionName(pub String);

impl SessionName {
    /// The session of panes that are created without one.
    pub const MAIN: &str = "main";
    /// The session of panes that runs and workers open with layout `hidden`.
    pub const HIDDEN: &str = "__orchestration__";
    const MAX_CHARS: usize = 64;

    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty()
            || text.chars().count() > Self::MAX_CHARS
            || text.chars().any(char::is_control)
        {
            return Err(Error::invalid(format!(
                "session: wanted 1 to {} printable characters, got {text:?}",
                Self::MAX_CHARS
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

impl Default for SessionName {
    fn default() -> Self {
        Self(Self::MAIN.to_owned())
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A position in a pane's text: an opaque string for clients, which only grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Cursor(pub String);

impl FromStr for Cursor {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// A wall-clock time in milliseconds since 1970, serialized as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(self.0);
        humantime::format_rfc3339_millis(at).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = humantime::parse_rfc3339(&text).map_err(serde::de::Error::custom)?;
        let since = at
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(serde::de::Error::custom)?;
        Ok(Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A wall-clock time in whole seconds since 1970, which a reply serializes as a number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct UnixSeconds(pub u64);

impl From<Timestamp> for UnixSeconds {
    fn from(at: Timestamp) -> Self {
        Self(at.0 / 1000)
    }
}

impl From<UnixSeconds> for Timestamp {
    fn from(at: UnixSeconds) -> Self {
        Self(at.0.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_id_is_what_it_prints_and_nothing_else() {
        assert_eq!("p12".parse::<PaneId>().unwrap(), PaneId(12));
        for wrong in [
            "12",
            "p",
            "p01",
            "p-1",
            "p+1",
            "p1 ",
            "P1",
            "p99999999999999999999",
        ] {
            assert!(wrong.parse::<PaneId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_timestamp_survives_its_own_text() {
        let at = Timestamp(1_794_000_123_456);
        let json = serde_json::to_string(&at).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
        assert!(json.starts_with("\"2026-"), "{json}");
    }
}
