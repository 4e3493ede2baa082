//! The last lines that an idle agent shows above its input box: an error, a refusal, or a usage limit.

use super::{AgentNotice, UsageLimit, bare, is_rule};

/// How many lines say how a turn ended.
const MAX_LINES: usize = 8;
const MAX_CHARS: usize = 1_000;

/// Texts of status lines above an input box.
const STATUS_MARKS: [&str; 3] = ["? for shortcuts", "Shift+Tab to ", "Ctrl+Y to "];

/// Texts with which Gemini CLI and Qwen Code end a turn that a person has interrupted.
const CANCEL_MARKS: [&str; 2] = ["Request cancelled", "Operation cancelled"];

/// Signs with which the agents repeat a prompt.
const PROMPT_SIGNS: [char; 3] = ['❯', '›', '>'];

/// The last lines above the cursor's row, without frames and rules.
pub fn notice_in_lines(lines: &[String], cursor_row: usize) -> AgentNotice {
    let above = lines.get(..cursor_row).unwrap_or(lines);
    // The row above an input box with a frame is its upper edge; a row without text or a rule separates it otherwise.
    let is_outside = |line: &&String| is_rule(line, &['─', '▄']) || line.trim().is_empty();
    let from = above.iter().rposition(|line| is_outside(&line));
    let mut last: Vec<&str> = above[..from.unwrap_or(above.len())]
        .iter()
        .rev()
        .map(|line| bare(line))
        .filter(|line| !line.is_empty() && !STATUS_MARKS.iter().any(|mark| line.contains(mark)))
        .take(MAX_LINES)
        .collect();
    last.reverse();
    // What follows the last prompt; the prompt itself, if nothing follows.
    let is_prompt = |line: &&str| line.starts_with(PROMPT_SIGNS);
    if let Some(prompt) = last.iter().rposition(is_prompt) {
        let is_last = prompt + 1 == last.len();
        last.drain(..prompt + usize::from(!is_last));
    }
    let text = last.join("\n");
    let omitted = text.chars().count().saturating_sub(MAX_CHARS);
    AgentNotice {
        limit: find_limit(&text),
        is_cancelled: CANCEL_MARKS.iter().any(|mark| text.contains(mark)),
        message: text.chars().skip(omitted).collect(),
    }
}

/// Words with which the agents state a usage limit, in lower case. Claude Code: `You've hit your session limit · resets 3pm`;
/// Codex: `You've hit your usage limit.`; Gemini CLI: `Usage limit reached for gemini-2.5-pro.`, `You have exhausted your daily quota`.
const LIMIT_MARKS: [&str; 8] = [
    "hit your usage limit",
    "hit your session limit",
    "hit your weekly limit",
    "usage limit reached",
    "exceeded your current quota",
    "have exhausted your",
    "quota exceeded",
    "rate limit exceeded",
];

/// Words before the time at which a limit ends, in lower case.
const RESUME_MARKS: [&str; 5] = [
    "access resets at ",
    "try again at ",
    "try again in ",
    "resets at ",
    "resets ",
];

/// The usage limit that a text states.
pub fn find_limit(text: &str) -> Option<UsageLimit> {
    // Letters outside ASCII keep their length, so offsets fit both texts.
    let lower = text.to_ascii_lowercase().replace('’', "'");
    let is_limit = LIMIT_MARKS.iter().any(|mark| lower.contains(mark));
    is_limit.then(|| UsageLimit {
        resume_at: resume_time(text),
    })
}

/// When a limit ends, in the words of the agent.
pub fn resume_time(text: &str) -> Option<String> {
    const MAX_TIME_CHARS: usize = 60;
    let lower = text.to_ascii_lowercase();
    let (at, mark) = RESUME_MARKS
        .iter()
        .find_map(|mark| Some((lower.find(mark)?, mark)))?;
    let rest = &text[at + mark.len()..];
    let end = rest
        .find(['\n', '·', '∙'])
        .into_iter()
        .chain(rest.find(". "))
        .min();
    let time = rest[..end.unwrap_or(rest.len())]
        .trim()
        .trim_end_matches('.');
    (!time.is_empty()).then(|| time.chars().take(MAX_TIME_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_from_other_errors_and_its_end_is_in_the_agents_words() {
        for (text, resume_at) in [
            (
                "You've hit your session limit · resets 3pm (Europe/Berlin)",
                Some("3pm (Europe/Berlin)"),
            ),
            (
                "■ You’ve hit your usage limit. Upgrade to Plus to continue using Codex, or try again at 3:05 PM.",
                Some("3:05 PM"),
            ),
            (
                "✕ Usage limit reached for gemini-2.5-pro.\nAccess resets at 3:05 PM UTC.\n/model to switch models.",
                Some("3:05 PM UTC"),
            ),
            ("[API Error: You exceeded your current quota]", None),
        ] {
            let limit = find_limit(text).expect(text);
            assert_eq!(limit.resume_at.as_deref(), resume_at, "{text}");
        }
        for text in ["stream error: 500", "the limit of the loop is 3", ""] {
            assert_eq!(find_limit(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_lines_are_those_above_the_box() {
        let rule = "─".repeat(40);
        let lines = ["", "● one", "  two", "", &rule, "❯ ", &rule, "  ? for help"];
        let notice = notice_in_lines(&lines.map(str::to_owned), 5);
        assert_eq!(notice.message, "● one\ntwo");
        let lines = ["• one", "", "■ failed", "", "", "› Ask", "", "  model"];
        let notice = notice_in_lines(&lines.map(str::to_owned), 5);
        assert_eq!(notice.message, "• one\n■ failed");
        let lines = [
            "■ usage limit reached",
            "› again",
            "■ failed",
            "",
            "› Ask",
            "",
            "  m",
        ];
        let notice = notice_in_lines(&lines.map(str::to_owned), 4);
        assert_eq!(notice.message, "■ failed");
        assert_eq!(notice.limit, None, "it is that of an earlier turn");
        let lines = ["● two", "❯ think", "", "❯ ", "", "  m"];
        let notice = notice_in_lines(&lines.map(str::to_owned), 3);
        assert_eq!(notice.message, "❯ think");
        assert_eq!(notice_in_lines(&[], 3), AgentNotice::default());
    }
}
