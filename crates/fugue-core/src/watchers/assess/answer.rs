//! The answers of an assessor. Any other text is an [`AnswerMisfit`], whose message is sent back to the assessor.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::clean::{is_unseen, one_line};

/// The limit of a line that a watcher types: short enough for a person to read at a glance.
pub const MAX_INJECTION: usize = 160;

/// The limit of an answer in bytes. A valid answer has a few hundred characters.
pub const MAX_ANSWER: usize = 64 * 1024;

/// A kind of answer, with its schema and its parser.
pub trait ModelAnswer: Sized {
    /// The name of the schema in requests to providers.
    const NAME: &'static str;
    /// The JSON schema in the subset that every provider accepts: all properties required, no additional ones, no lengths.
    fn schema() -> Value;
    /// Parses the only JSON object in a text. Text around the object is ignored, because models add code fences and
    /// sentences; no object or several objects are a misfit.
    fn parse(text: &str) -> Result<Self, AnswerMisfit>;
}

/// The decision about a quiet pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "action",
    content = "injection_prompt",
    rename_all = "snake_case"
)]
pub enum Decision {
    /// The goal is reached.
    Stop,
    /// The goal is not reached: type this line.
    Continue(Injection),
}

/// The proposed next step for a person who paused a watcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStepAnswer {
    /// None only where the goal is reached.
    pub injection_prompt: Option<Injection>,
    pub achieved: bool,
}

/// A line that may be typed: not empty, at most [`MAX_INJECTION`] characters, all of them visible.
///
/// Any other text is refused and never cut or repaired: half a command is another command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Injection(String);

/// Why a text is not an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerMisfit(String);

impl fmt::Display for AnswerMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AnswerMisfit {}

impl Injection {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Injection {
    type Error = AnswerMisfit;

    fn try_from(text: String) -> Result<Self, AnswerMisfit> {
        // Surrounding space has no meaning.
        let line = text.trim();
        let length = line.chars().count();
        if line.is_empty() {
            return Err(AnswerMisfit(
                "injection_prompt: wanted a line to type, got an empty one".into(),
            ));
        }
        if line.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            return Err(AnswerMisfit(
                "injection_prompt: wanted one line, got several".into(),
            ));
        }
        if let Some(c) = line.chars().find(|c| is_unseen(*c)) {
            return Err(AnswerMisfit(format!(
                "injection_prompt: wanted visible characters only, got U+{:04X}",
                u32::from(c)
            )));
        }
        if length > MAX_INJECTION {
            return Err(AnswerMisfit(format!(
                "injection_prompt: wanted at most {MAX_INJECTION} characters, got {length}"
            )));
        }
        Ok(Self(line.to_owned()))
    }
}

impl From<Injection> for String {
    fn from(injection: Injection) -> Self {
        injection.0
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Stop,
    Continue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDecision {
    action: Action,
    #[serde(default)]
    injection_prompt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNextStep {
    #[serde(default)]
    injection_prompt: Option<String>,
    achieved: bool,
}

impl ModelAnswer for Decision {
    const NAME: &'static str = "decision";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["stop", "continue"]},
                "injection_prompt": line_schema("null with stop"),
            },
            "required": ["action", "injection_prompt"],
            "additionalProperties": false,
        })
    }

    fn parse(text: &str) -> Result<Self, AnswerMisfit> {
        let raw: RawDecision = parse_only_object(text)?;
        match (raw.action, non_blank(raw.injection_prompt)) {
            (Action::Stop, None) => Ok(Self::Stop),
            (Action::Stop, Some(_)) => Err(AnswerMisfit(
                "action is stop, so injection_prompt must be null".into(),
            )),
            (Action::Continue, Some(line)) => line.try_into().map(Self::Continue),
            (Action::Continue, None) => Err(AnswerMisfit(
                "action is continue, so injection_prompt must say what to type".into(),
            )),
        }
    }
}

impl ModelAnswer for NextStepAnswer {
    const NAME: &'static str = "next_step";

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "injection_prompt": line_schema("null if the goal is achieved"),
                "achieved": {"type": "boolean"},
            },
            "required": ["injection_prompt", "achieved"],
            "additionalProperties": false,
        })
    }

    fn parse(text: &str) -> Result<Self, AnswerMisfit> {
        let raw: RawNextStep = parse_only_object(text)?;
        let line = non_blank(raw.injection_prompt);
        if line.is_none() && !raw.achieved {
            return Err(AnswerMisfit(
                "achieved is false, so injection_prompt must say what to type".into(),
            ));
        }
        Ok(Self {
            injection_prompt: line.map(Injection::try_from).transpose()?,
            achieved: raw.achieved,
        })
    }
}

/// Uses `anyOf` instead of a list of types, because all providers accept `anyOf`.
fn line_schema(when_null: &str) -> Value {
    json!({
        "description": format!("one line to type, at most {MAX_INJECTION} characters; {when_null}"),
        "anyOf": [{"type": "string"}, {"type": "null"}],
    })
}

/// Replaces a blank line by `None`, because models write "" for null.
fn non_blank(line: Option<String>) -> Option<String> {
    line.filter(|line| !line.trim().is_empty())
}

/// Parses the only JSON object of a text.
fn parse_only_object<T: DeserializeOwned>(text: &str) -> Result<T, AnswerMisfit> {
    if text.len() > MAX_ANSWER {
        return Err(AnswerMisfit(format!(
            "wanted one short JSON object, got {} bytes",
            text.len()
        )));
    }
    let found = objects(text);
    let [object] = found[..] else {
        let got = match found.len() {
            0 if text.trim().is_empty() => "nothing".into(),
            0 => format!("`{}`", one_line(text, 80)),
            n => format!("{n} objects"),
        };
        return Err(AnswerMisfit(format!("wanted one JSON object, got {got}")));
    };
    // Parsed from the text again, because only then a repeated field is an error.
    serde_json::from_str(object).map_err(|error| AnswerMisfit(one_line(&error.to_string(), 200)))
}

/// All outermost JSON objects in a text.
fn objects(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find('{').map(|at| from + at) {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        from = match stream.next() {
            Some(Ok(_)) => {
                let end = start + stream.byte_offset();
                found.push(&text[start..end]);
                end
            }
            Some(Err(_)) | None => start + 1,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(line: &str) -> Decision {
        Decision::Continue(Injection(line.to_owned()))
    }

    fn check(text: &str, expected: Result<Decision, &str>) {
        match (Decision::parse(text), expected) {
            (Ok(got), Ok(wanted)) => assert_eq!(got, wanted, "{text:?}"),
            (Err(misfit), Err(says)) => {
                assert!(misfit.0.contains(says), "{text:?}: {misfit}");
                assert!(misfit.0.chars().count() < 400, "{misfit}");
            }
            (got, wanted) => panic!("{text:?}: {got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn one_object_is_an_answer_whatever_is_around_it() {
        let stop = r#"{"action": "stop", "injection_prompt": null}"#;
        check(stop, Ok(Decision::Stop));
        check(&format!("```json\n{stop}\n```\n"), Ok(Decision::Stop));
        check(
            &format!("I looked at {{it}}: {stop} That is all."),
            Ok(Decision::Stop),
        );
        check(r#"{"action": "stop"}"#, Ok(Decision::Stop));
        check(
            r#"{"action": "stop", "injection_prompt": ""}"#,
            Ok(Decision::Stop),
        );
        check(
            r#"{"action": "continue", "injection_prompt": " run cargo test\n"}"#,
            Ok(go("run cargo test")),
        );
    }

    #[test]
    fn everything_else_is_a_misfit_that_says_what_is_wrong() {
        for (text, says) in [
            ("", "got nothing"),
            ("I think you should continue.", "got `I think you"),
            ("null", "wanted one JSON object"),
            ("[]", "wanted one JSON object"),
            (r#"{"action": "stop"} {"action": "stop"}"#, "got 2 objects"),
            (
                r#"{"action": "stop", "injection_prompt": "#,
                "wanted one JSON object",
            ),
            (r#"{"action": "pause"}"#, "pause"),
            (r#"{"action": "STOP"}"#, "STOP"),
            (r#"{"action": ["stop"]}"#, "expected"),
            (r#"{"injection_prompt": "x"}"#, "action"),
            (r#"{"action": "stop", "reason": "done"}"#, "reason"),
            (r#"{"action": "stop", "action": "continue"}"#, "duplicate"),
            (r#"{"answer": {"action": "stop"}}"#, "answer"),
            (
                r#"{"action": "stop", "injection_prompt": "rm x"}"#,
                "must be null",
            ),
            (
                r#"{"action": "continue", "injection_prompt": null}"#,
                "must say what to type",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "  "}"#,
                "must say what to type",
            ),
            (
                r#"{"action": "continue", "injection_prompt": 5}"#,
                "expected a string",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\nb"}"#,
                "several",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\u2028b"}"#,
                "several",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\u001b[31mb"}"#,
                "U+001B",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\u0003b"}"#,
                "U+0003",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\u202eb"}"#,
                "U+202E",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\u200bb"}"#,
                "U+200B",
            ),
            (
                r#"{"action": "continue", "injection_prompt": "a\udb40\udc69b"}"#,
                "U+E0069",
            ),
        ] {
            check(text, Err(says));
        }
    }

    #[test]
    fn a_line_is_at_most_160_characters_and_never_cut() {
        let said = |length: usize| {
            json!({"action": "continue", "injection_prompt": "é".repeat(length)}).to_string()
        };
        check(&said(160), Ok(go(&"é".repeat(160))));
        check(&said(161), Err("at most 160 characters, got 161"));
        check(&said(300), Err("at most 160 characters, got 300"));
        check(&"x".repeat(MAX_ANSWER + 1), Err("one short JSON object"));
    }

    #[test]
    fn hostile_braces_cost_little() {
        for text in [
            "{".repeat(60_000),
            r#"{"a":"#.repeat(12_000),
            r#"{"a":["#.repeat(10_000),
        ] {
            check(&text, Err("wanted one JSON object"));
        }
    }

    #[test]
    fn a_next_step_is_a_line_or_the_end() {
        let step = |text: &str| NextStepAnswer::parse(text).map_err(|misfit| misfit.0);
        let line = |text: &str| Some(Injection(text.to_owned()));
        assert_eq!(
            step(r#"{"injection_prompt": "run the tests", "achieved": false}"#),
            Ok(NextStepAnswer {
                injection_prompt: line("run the tests"),
                achieved: false
            })
        );
        assert_eq!(
            step(r#"{"injection_prompt": null, "achieved": true}"#),
            Ok(NextStepAnswer {
                injection_prompt: None,
                achieved: true
            })
        );
        assert_eq!(
            step(r#"{"injection_prompt": "tag the release", "achieved": true}"#),
            Ok(NextStepAnswer {
                injection_prompt: line("tag the release"),
                achieved: true
            })
        );
        assert!(step(r#"{"injection_prompt": null, "achieved": false}"#).is_err());
        assert!(step(r#"{"injection_prompt": "x"}"#).is_err());
        assert!(step(r#"{"injection_prompt": "a\tb", "achieved": false}"#).is_err());
    }

    #[test]
    fn a_stored_line_is_checked_again() {
        let stored = serde_json::to_string(&go("ls")).unwrap();
        assert_eq!(stored, r#"{"action":"continue","injection_prompt":"ls"}"#);
        assert_eq!(serde_json::from_str::<Decision>(&stored).unwrap(), go("ls"));
        assert!(serde_json::from_str::<Injection>(r#""a\nb""#).is_err());
    }
}
