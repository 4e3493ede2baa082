use fugue_core::assess::{Decision, Injection, MAX_INJECTION, ModelAnswer, NextStepAnswer};

/// Any text as a model's answer: it is refused with one line, or is one line that may be typed and is equal after a round trip
/// through JSON.
pub fn answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Decision::parse(&text) {
        Ok(Decision::Continue(line)) => check_line(&line),
        Ok(Decision::Stop) => {}
        Err(misfit) => check_refusal(&misfit.to_string()),
    }
    match NextStepAnswer::parse(&text) {
        Ok(NextStepAnswer {
            injection_prompt,
            achieved,
        }) => {
            assert!(achieved || injection_prompt.is_some());
            injection_prompt.iter().for_each(check_line);
        }
        Err(misfit) => check_refusal(&misfit.to_string()),
    }
}

fn check_line(line: &Injection) {
    let text = line.as_str();
    assert!(!text.trim().is_empty() && text.chars().count() <= MAX_INJECTION);
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert_eq!(Injection::try_from(text.to_owned()).as_ref(), Ok(line));
}

fn check_refusal(said: &str) {
    assert!(!said.is_empty() && said.chars().count() <= 400, "{said}");
    assert!(!said.chars().any(char::is_control), "{said:?}");
}
