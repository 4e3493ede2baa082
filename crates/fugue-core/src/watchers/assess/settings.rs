//! The settings of watchers, in `config.toml` and in environment variables.

use std::str::FromStr;

use fugue_api::{Error, wire::SettingNames};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every setting of a watcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WatchSettings {
    /// Seconds of the wait after a report that names nothing to wait for.
    #[schemars(range(min = 0, max = 86_400))]
    pub default_wait_sec: f64,
    /// Seconds without a change after which a pane is quiet.
    #[schemars(range(min = 0, max = 86_400))]
    pub idle_threshold: f64,
    /// Seconds; accepted and unused: panes report quiet by an event.
    #[schemars(range(min = 0.01, max = 86_400))]
    pub idle_spin_poll_secs: f64,
    /// Seconds; accepted and unused, like `idle_spin_poll_secs`.
    #[schemars(range(min = 0.01, max = 86_400))]
    pub poll_secs: f64,
    /// Last lines of the pane in a prompt.
    #[schemars(range(min = 1, max = 10_000))]
    pub tail_lines: usize,
    /// Entries of the transcript in a prompt, including the plan, which is always kept.
    #[schemars(range(min = 2, max = 10_000))]
    pub max_transcript: usize,
    /// The assessor of decisions: `provider:model`, `URL#model` or `cmd:command`.
    pub assess_model: String,
    /// The assessor of the next step at a pause. Empty: `assess_model`.
    pub model: String,
    /// Whether Enter follows a typed line.
    pub inject_press_enter: bool,
    /// Assessments in an hour; more pause the watcher.
    #[schemars(range(min = 1, max = 3_600))]
    pub assess_max_per_hour: u32,
    /// Seconds that an assessment may take, including the second try.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub assess_timeout_sec: f64,
    /// Seconds that a `bash_wait` may take.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub bash_wait_max_sec: f64,
    /// Seconds after which a pane that does not rest is given up on.
    #[schemars(range(min = 0.1, max = 86_400))]
    pub spin_max_sec: f64,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            default_wait_sec: 10.0,
            idle_threshold: 3.0,
            idle_spin_poll_secs: 0.2,
            poll_secs: 0.8,
            tail_lines: 160,
            max_transcript: 200,
            assess_model: "openai:gpt-4o".into(),
            model: String::new(),
            inject_press_enter: true,
            assess_max_per_hour: 60,
            // An agent's command line as assessor can take a minute.
            assess_timeout_sec: 120.0,
            bash_wait_max_sec: 3600.0,
            spin_max_sec: 900.0,
        }
    }
}

/// A setting: its name in the environment, which is in lower case the key in the file.
struct SettingRow {
    name: &'static str,
    set: fn(&mut WatchSettings, &str) -> Result<(), String>,
}

impl SettingRow {
    /// The name and the value of the variable that overrides the setting.
    fn variable(
        &self,
        names: SettingNames,
        lookup: &impl Fn(&str) -> Option<String>,
    ) -> Option<(String, String)> {
        let ours = format!("FUGUE_{}", self.name);
        let short = match names {
            SettingNames::Prefixed => None,
            SettingNames::Short => Some(self.name.to_owned()),
        };
        [ours].into_iter().chain(short).find_map(|name| {
            let value = lookup(&name).filter(|value| !value.trim().is_empty())?;
            Some((name, value))
        })
    }
}

const ROWS: &[SettingRow] = &[
    SettingRow {
        name: "DEFAULT_WAIT_SEC",
        set: |s, text| number(&mut s.default_wait_sec, text),
    },
    SettingRow {
        name: "IDLE_THRESHOLD",
        set: |s, text| number(&mut s.idle_threshold, text),
    },
    SettingRow {
        name: "IDLE_SPIN_POLL_SECS",
        set: |s, text| number(&mut s.idle_spin_poll_secs, text),
    },
    SettingRow {
        name: "POLL_SECS",
        set: |s, text| number(&mut s.poll_secs, text),
    },
    SettingRow {
        name: "TAIL_LINES",
        set: |s, text| number(&mut s.tail_lines, text),
    },
    SettingRow {
        name: "MAX_TRANSCRIPT",
        set: |s, text| number(&mut s.max_transcript, text),
    },
    SettingRow {
        name: "ASSESS_MODEL",
        set: |s, text| words(&mut s.assess_model, text),
    },
    SettingRow {
        name: "MODEL",
        set: |s, text| words(&mut s.model, text),
    },
    SettingRow {
        name: "INJECT_PRESS_ENTER",
        set: |s, text| switch(&mut s.inject_press_enter, text),
    },
    SettingRow {
        name: "ASSESS_MAX_PER_HOUR",
        set: |s, text| number(&mut s.assess_max_per_hour, text),
    },
    SettingRow {
        name: "ASSESS_TIMEOUT_SEC",
        set: |s, text| number(&mut s.assess_timeout_sec, text),
    },
    SettingRow {
        name: "BASH_WAIT_MAX_SEC",
        set: |s, text| number(&mut s.bash_wait_max_sec, text),
    },
    SettingRow {
        name: "SPIN_MAX_SEC",
        set: |s, text| number(&mut s.spin_max_sec, text),
    },
];

impl WatchSettings {
    /// These settings, overridden by variables of the caller's environment. An empty variable is ignored. `lookup` returns a
    /// variable of the caller.
    pub fn overlaid(
        mut self,
        names: SettingNames,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        for row in ROWS {
            let Some((name, value)) = row.variable(names, &lookup) else {
                continue;
            };
            (row.set)(&mut self, value.trim())
                .and_then(|()| self.wrong().map_or(Ok(()), |(_, wanted)| Err(wanted)))
                .map_err(|wanted| {
                    Error::invalid(format!("{name}: {wanted}, got `{}`", value.trim()))
                        .hint(format!("set {name} to something else, or unset it"))
                })?;
        }
        Ok(self)
    }

    /// The keys that [`Self::overlaid`] overrides, with the names of the variables.
    pub fn overridden_keys(
        names: SettingNames,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let variable = |row: &SettingRow| {
            let (name, _) = row.variable(names, &lookup)?;
            Some((row.name.to_lowercase(), name))
        };
        ROWS.iter().filter_map(variable).collect()
    }

    /// For settings from a file: an error that names the key.
    pub fn checked(self) -> Result<Self, Error> {
        match self.wrong() {
            None => Ok(self),
            Some((key, wanted)) => Err(Error::invalid(format!("{key}: {wanted}"))
                .hint("`fugue config default` prints every key")),
        }
    }

    /// The assessor at a pause.
    pub fn next_step_model(&self) -> &str {
        let model = self.model.trim();
        if model.is_empty() {
            &self.assess_model
        } else {
            model
        }
    }

    /// The first key that is out of range, and the allowed values.
    fn wrong(&self) -> Option<(&'static str, String)> {
        // A day: longer is a typing error.
        let day = 86_400.0;
        let times = [
            ("default_wait_sec", self.default_wait_sec, 0.0),
            ("idle_threshold", self.idle_threshold, 0.0),
            ("idle_spin_poll_secs", self.idle_spin_poll_secs, 0.01),
            ("poll_secs", self.poll_secs, 0.01),
            ("assess_timeout_sec", self.assess_timeout_sec, 0.1),
            ("bash_wait_max_sec", self.bash_wait_max_sec, 0.1),
            ("spin_max_sec", self.spin_max_sec, 0.1),
        ];
        for (key, seconds, least) in times {
            if !(least..=day).contains(&seconds) {
                return Some((key, format!("wanted {least} to {day} seconds")));
            }
        }
        let counts = [
            ("tail_lines", self.tail_lines, 1, 10_000),
            // The plan and at least one other entry.
            ("max_transcript", self.max_transcript, 2, 10_000),
            (
                "assess_max_per_hour",
                self.assess_max_per_hour as usize,
                1,
                3600,
            ),
        ];
        for (key, count, least, most) in counts {
            if !(least..=most).contains(&count) {
                return Some((key, format!("wanted {least} to {most}")));
            }
        }
        self.assess_model.trim().is_empty().then(|| {
            (
                "assess_model",
                "wanted `provider:model` or `cmd:command`".into(),
            )
        })
    }
}

fn number<T: FromStr>(to: &mut T, text: &str) -> Result<(), String> {
    *to = text.parse().map_err(|_| "wanted a number".to_owned())?;
    Ok(())
}

fn words(to: &mut String, text: &str) -> Result<(), String> {
    text.clone_into(to);
    Ok(())
}

fn switch(to: &mut bool, text: &str) -> Result<(), String> {
    *to = match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => true,
        "false" | "0" | "no" | "off" => false,
        _ => return Err("wanted true or false".into()),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaid(vars: &[(&str, &str)]) -> Result<WatchSettings, Error> {
        let lookup = |name: &str| {
            let found = vars.iter().find(|(var, _)| *var == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        WatchSettings::default().overlaid(SettingNames::Short, lookup)
    }

    fn check(vars: &[(&str, &str)], change: impl Fn(&mut WatchSettings)) {
        let mut wanted = WatchSettings::default();
        change(&mut wanted);
        assert_eq!(overlaid(vars), Ok(wanted), "{vars:?}");
    }

    #[test]
    fn short_names_hold_only_where_they_are_meant() {
        for row in ROWS {
            // Nothing that a setting could be: whatever is read is refused.
            let lookup = |name: &str| (name == row.name).then(|| "\0".to_owned());
            let settings = WatchSettings::default().overlaid(SettingNames::Prefixed, lookup);
            assert_eq!(settings, Ok(WatchSettings::default()), "{}", row.name);
        }
    }

    #[test]
    fn both_names_are_read_and_ours_wins() {
        check(&[], |_| {});
        check(&[("DEFAULT_WAIT_SEC", "0.01")], |s| {
            s.default_wait_sec = 0.01
        });
        check(&[("FUGUE_IDLE_THRESHOLD", "0.05")], |s| {
            s.idle_threshold = 0.05
        });
        check(&[("TAIL_LINES", "10"), ("FUGUE_TAIL_LINES", "20")], |s| {
            s.tail_lines = 20
        });
        check(&[("TAIL_LINES", "10"), ("FUGUE_TAIL_LINES", "")], |s| {
            s.tail_lines = 10
        });
        check(&[("INJECT_PRESS_ENTER", "False")], |s| {
            s.inject_press_enter = false
        });
        check(&[("ASSESS_MODEL", "cmd:claude -p")], |s| {
            s.assess_model = "cmd:claude -p".into()
        });
        check(&[("MODEL", "")], |_| {});
    }

    #[test]
    fn every_key_of_the_file_has_a_variable() {
        let json = serde_json::to_value(WatchSettings::default()).unwrap();
        let keys: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
        for row in ROWS {
            assert!(keys.contains(&row.name.to_lowercase()), "{}", row.name);
        }
        assert_eq!(keys.len(), ROWS.len());
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        for (name, value, says) in [
            ("DEFAULT_WAIT_SEC", "soon", "wanted a number"),
            ("DEFAULT_WAIT_SEC", "-1", "wanted 0 to 86400 seconds"),
            ("FUGUE_POLL_SECS", "NaN", "wanted 0.01 to 86400 seconds"),
            ("SPIN_MAX_SEC", "inf", "wanted 0.1 to 86400 seconds"),
            ("TAIL_LINES", "0", "wanted 1 to 10000"),
            ("TAIL_LINES", "1.5", "wanted a number"),
            ("MAX_TRANSCRIPT", "1", "wanted 2 to 10000"),
            ("FUGUE_INJECT_PRESS_ENTER", "maybe", "wanted true or false"),
            ("ASSESS_MAX_PER_HOUR", "0", "wanted 1 to 3600"),
        ] {
            let error = overlaid(&[(name, value)]).unwrap_err();
            assert_eq!(error.message, format!("{name}: {says}, got `{value}`"));
        }
    }

    #[test]
    fn a_wrong_value_in_the_file_names_its_key() {
        let settings = WatchSettings {
            tail_lines: 0,
            ..WatchSettings::default()
        };
        assert_eq!(
            settings.checked().unwrap_err().message,
            "tail_lines: wanted 1 to 10000"
        );
        assert!(WatchSettings::default().checked().is_ok());
    }

    #[test]
    fn a_pause_asks_whoever_decides_unless_told_otherwise() {
        check(&[("MODEL", "openai:o")], |s| s.model = "openai:o".into());
        assert_eq!(WatchSettings::default().next_step_model(), "openai:gpt-4o");
        let settings = overlaid(&[("MODEL", "ollama:q")]).unwrap();
        assert_eq!(settings.next_step_model(), "ollama:q");
    }
}
