//! `fugue attach` as a person meets it: the real binary in a real terminal, whose screen is looked at.

#[path = "attach/attached.rs"]
mod attached;
#[path = "attach/drawn.rs"]
mod drawn;
#[path = "attach/hostile.rs"]
mod hostile;
#[path = "attach/lives.rs"]
mod lives;
#[path = "attach/looks.rs"]
mod looks;
#[path = "attach/programs.rs"]
mod programs;

use std::time::Duration;

use fugue_testkit::TestEnv;

const LIMIT: Duration = Duration::from_secs(240);

/// An environment whose shells have a prompt that says nothing of the machine.
fn test_env() -> TestEnv {
    let test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    let bashrc = "PS1='$ '\nunset HISTFILE\n";
    std::fs::write(test_env.home().join(".bashrc"), bashrc).expect("an rc file");
    let mut test_env = test_env;
    test_env.set_env("SHELL", "/bin/bash");
    test_env
}

/// Waits until so many shells show their prompt with nothing behind it.
#[track_caller]
fn prompts(person: &mut attached::Attached, count: usize) -> String {
    person.until(&format!("{count} prompts"), |screen| {
        let at_prompt = |part: &&str| part.trim() == "$";
        let parts = screen.lines().flat_map(|line| line.split('│'));
        parts.filter(at_prompt).count() >= count
    })
}
