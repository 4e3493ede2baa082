//! `config.toml` with every key at its default, commented out below its description.

use fugue_core::settings::Settings;
use serde_json::Value;

const HEADER: &str = "Settings of fugue. Every key stands here with its default: remove the `#` in front of a key to change it. \
                      `fugue daemon reload` puts changes into force, `fugue config show` prints what is in force.";
const EXAMPLE_AGENT: &str =
    "#[agents.aider]\n#command = [\"aider\", \"--message-file\", \"{prompt_file}\"]\n";
// The width of the comments.
const COLUMNS: usize = 96;

/// The text of the file. Comments are the descriptions in the schema, which are the comments of the fields in the source.
pub fn default_file() -> String {
    let schema = super::schema();
    let properties = &schema.as_value()["properties"];
    let mut text = comment(HEADER);
    // Serialisation keeps the order of the fields, tables last.
    let defaults = toml::to_string(&Settings::default()).unwrap_or_default();
    let mut table = properties;
    for line in defaults.lines().filter(|line| !line.is_empty()) {
        text.push('\n');
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            table = &properties[name]["properties"];
            text.push_str(&comment(&description(&properties[name])));
            match name {
                "agents" => text.push_str(EXAMPLE_AGENT),
                // Active, because a key below a commented-out header would belong to no table.
                _ => text.push_str(&format!("{line}\n")),
            }
            continue;
        }
        let key = line.split(" = ").next().unwrap_or(line);
        text.push_str(&comment(&description(&table[key])));
        text.push_str(&format!("#{line}\n"));
    }
    text
}

/// The description of a key, with its range.
fn description(property: &Value) -> String {
    let text = property["description"].as_str().unwrap_or_default();
    let text = text.replace('\n', " ");
    match (property["minimum"].as_f64(), property["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!("{text} Range: {least} to {most}."),
        (Some(least), None) if least > 0.0 => format!("{text} At least {least}."),
        _ => text,
    }
}

/// Lines that begin with `# `, broken at spaces.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 1 && last + 1 + word.chars().count() > COLUMNS {
            lines.push("#".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    /// The file with every commented-out key active.
    fn active() -> String {
        let is_prose = |line: &&str| !line.starts_with("# ");
        let line = |line: &str| format!("{}\n", line.strip_prefix('#').unwrap_or(line));
        default_file().lines().filter(is_prose).map(line).collect()
    }

    #[test]
    fn the_default_file_changes_nothing_and_has_every_key() {
        let path = Path::new("/c.toml");
        assert_eq!(parse(path, &default_file()), Ok(Settings::default()));
        let mut settings = parse(path, &active()).unwrap();
        let template = settings.agents.remove("aider").unwrap();
        assert_eq!(template.command[0], "aider");
        assert_eq!(settings, Settings::default());
        let keys = serde_json::to_value(Settings::default()).unwrap();
        let watch = keys["watch"].as_object().unwrap().keys();
        for key in keys.as_object().unwrap().keys().chain(watch) {
            let is_there = ["agents", "watch"].contains(&key.as_str())
                || default_file().contains(&format!("\n#{key} = "));
            assert!(is_there, "{key}");
        }
    }

    #[test]
    fn every_key_is_described_and_every_number_has_its_unit() {
        const UNITS: [&str; 8] = [
            "Seconds",
            "Hours",
            "Bytes",
            "Megabytes",
            "Lines",
            "lines",
            "panes",
            "events",
        ];
        const COUNTS: [&str; 3] = ["Entries", "Assessments", "Calls"];
        let text = default_file();
        let lines: Vec<&str> = text.lines().collect();
        let mut seen = 0;
        for (number, line) in lines.iter().enumerate() {
            let Some((key, value)) = line
                .strip_prefix('#')
                .and_then(|line| line.split_once(" = "))
            else {
                continue;
            };
            if key.contains(' ') || key == "command" {
                continue;
            }
            let above: Vec<&str> = lines[..number]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("# "))
                .copied()
                .collect();
            let said = above.join(" ");
            assert!(said.len() > 10, "{key} is not described");
            let is_number = value.parse::<f64>().is_ok();
            let has_unit = UNITS.iter().chain(&COUNTS).any(|unit| said.contains(unit));
            assert!(!is_number || has_unit, "{key}: {said}");
            seen += 1;
        }
        assert!(seen >= 28, "{seen}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}
