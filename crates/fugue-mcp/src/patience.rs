use std::time::Duration;

/// How long a client may be kept waiting for the answer to one call.
///
/// Clients give up on a call, and what they gave up on is lost to their model. So every wait ends a little before
/// that, with an answer that says how to go on; the work itself goes on anyway.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// What the person said (`--max-wait-ms`), which beats the table.
    most: Option<Duration>,
}

/// The name a client gives itself begins with this, and it waits so long.
const CEILINGS: &[(&str, Duration)] = &[
    // Interactive, a call is moved to the background at 120 s and the model goes on without the result.
    ("claude-code", Duration::from_secs(110)),
    // Gives up at 300 s; progress does not help.
    ("codex", Duration::from_secs(285)),
    // Gives up at 600 s.
    ("gemini-cli", Duration::from_secs(570)),
];

// The SDKs' own default is 60 s, and most clients never change it.
const UNKNOWN_CLIENT: Duration = Duration::from_secs(50);

impl Patience {
    pub fn new(most: Option<Duration>) -> Self {
        Self { most }
    }

    /// The longest wait for a client of this name (`clientInfo.name`).
    pub fn of(self, client: Option<&str>) -> Duration {
        self.most.unwrap_or_else(|| {
            let name = client.unwrap_or_default().to_ascii_lowercase();
            CEILINGS
                .iter()
                .find(|(known, _)| name.starts_with(known))
                .map_or(UNKNOWN_CLIENT, |(_, ceiling)| *ceiling)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(client: Option<&str>, seconds: u64) {
        assert_eq!(
            Patience::default().of(client),
            Duration::from_secs(seconds),
            "{client:?}"
        );
    }

    #[test]
    fn every_known_client_is_answered_before_it_gives_up() {
        check(Some("claude-code"), 110);
        check(Some("codex-mcp-client"), 285);
        check(Some("gemini-cli-mcp-client"), 570);
        check(Some("Claude-Code"), 110);
    }

    #[test]
    fn a_client_nobody_knows_has_the_patience_of_an_sdk() {
        check(None, 50);
        check(Some(""), 50);
        check(Some("mcp"), 50);
        check(Some("my-claude-code"), 50);
    }

    #[test]
    fn what_the_person_said_beats_the_table() {
        let said = Patience::new(Some(Duration::from_millis(1500)));
        for client in [None, Some("claude-code"), Some("anything")] {
            assert_eq!(said.of(client), Duration::from_millis(1500));
        }
    }
}
