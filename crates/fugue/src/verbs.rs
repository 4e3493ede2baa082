//! One file per verb.

pub mod answer;
pub mod ask;
pub mod close;
pub mod config;
pub mod corpus;
pub mod daemon;
pub mod events;
pub mod expect;
pub mod hook;
pub mod ls;
pub mod mcp;
pub mod message;
pub mod new;
pub mod notify;
pub mod parallel;
pub mod pipeline;
pub mod read;
pub mod resize;
pub mod send;
pub mod spawn;
pub mod status;
pub mod wait;

use fugue_api::{
    Error, Handle, Kind, OsText, Tool,
    panes::{State, StateBy},
    wire::Caller,
};

use crate::{cli::Desk, out::Tone};

/// Where this process is and what it has: a pane it makes starts from here.
pub fn caller() -> Result<Caller, Error> {
    let cwd = std::env::current_dir().map_err(|error| {
        Error::new(Kind::Unavailable, format!("the current directory: {error}"))
            .hint("cd somewhere that exists")
    })?;
    // There is no way to read the mask but to set it, so it is set back at once; nothing else runs yet.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    Ok(Caller {
        cwd: OsText::from(cwd.into_os_string()),
        env: std::env::vars_os()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        umask: umask.as_raw_mode(),
    })
}

/// Calls a tool and gives its own reply.
pub async fn call<T: Tool>(desk: &Desk, args: T) -> Result<T::Reply, Error> {
    let handed = desk.client.call(args.into()).await?;
    T::Reply::try_from(handed.reply)
}

/// A state in a word and a colour.
pub fn state_word(state: &StateBy) -> (String, Tone) {
    match state.state {
        State::Running => ("running".into(), Tone::Good),
        State::Idle => ("idle".into(), Tone::Plain),
        State::NeedsInput => {
            let prompt = state.prompt.as_deref().filter(|prompt| !prompt.is_empty());
            (
                prompt.map_or_else(
                    || "needs input".into(),
                    |prompt| format!("needs input: {prompt}"),
                ),
                Tone::Needy,
            )
        }
        State::Exited | State::Closed => {
            let word = if state.state == State::Exited {
                "exited"
            } else {
                "closed"
            };
            match (&state.exit_code, &state.signal) {
                (Some(0), _) => (format!("{word} 0"), Tone::Faint),
                (Some(code), _) => (format!("{word} {code}"), Tone::Bad),
                (None, Some(signal)) => (format!("{word} {signal}"), Tone::Bad),
                (None, None) => (format!("{word} ?"), Tone::Faint),
            }
        }
    }
}

/// Quotes a word so that a POSIX shell reads it as one.
pub fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_quoted_word_is_one_word() {
        for (word, text) in [
            ("ls", "ls"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(super::quoted(word), text);
        }
    }
}
