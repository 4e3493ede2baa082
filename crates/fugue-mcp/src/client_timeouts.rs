use std::time::Duration;

/// How long a tool call may wait before the reply, by client.
///
/// A client gives up on a call after a timeout of its own, and the model never receives the reply. So every wait ends
/// shortly before that timeout, with a reply that names the way to continue. The work itself continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTimeouts {
    /// `--max-wait-ms`, which takes precedence over the table.
    max_wait: Option<Duration>,
}

/// The longest wait by the beginning of the client's name, a little below the client's own timeout.
const MAX_WAITS: &[(&str, Duration)] = &[
    // The interactive client moves a call to the background after 120 s, and the model continues without the result.
    ("claude-code", Duration::from_secs(110)),
    // Times out after 300 s, with or without progress notifications.
    ("codex", Duration::from_secs(285)),
    // Times out after 600 s.
    ("gemini-cli", Duration::from_secs(570)),
    // Times out after 600 s.
    ("qwen-cli", Duration::from_secs(570)),
];

/// The SDKs' default timeout is 60 s, and most clients keep that default.
const MAX_WAIT_OF_UNKNOWN_CLIENT: Duration = Duration::from_secs(50);

impl ClientTimeouts {
    pub fn new(max_wait: Option<Duration>) -> Self {
        Self { max_wait }
    }

    pub fn configured(self) -> Option<Duration> {
        self.max_wait
    }

    /// The longest wait for a client with this name (`clientInfo.name`).
    pub fn max_wait(self, client: Option<&str>) -> Duration {
        self.max_wait.unwrap_or_else(|| {
            let name = client.unwrap_or_default().to_ascii_lowercase();
            MAX_WAITS
                .iter()
                .find(|(prefix, _)| name.starts_with(prefix))
                .map_or(MAX_WAIT_OF_UNKNOWN_CLIENT, |(_, max_wait)| *max_wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(client: Option<&str>, seconds: u64) {
        assert_eq!(
            ClientTimeouts::default().max_wait(client),
            Duration::from_secs(seconds),
            "{client:?}"
        );
    }

    #[test]
    fn known_clients_are_answered_before_their_timeout() {
        check(Some("claude-code"), 110);
        check(Some("codex-mcp-client"), 285);
        check(Some("gemini-cli-mcp-client"), 570);
        check(Some("qwen-cli-mcp-client-fugue"), 570);
        check(Some("Claude-Code"), 110);
    }

    #[test]
    fn unknown_clients_have_the_timeout_of_an_sdk() {
        check(None, 50);
        check(Some(""), 50);
        check(Some("mcp"), 50);
        check(Some("my-claude-code"), 50);
    }

    #[test]
    fn a_configured_wait_takes_precedence_over_the_table() {
        let configured = ClientTimeouts::new(Some(Duration::from_millis(1500)));
        for client in [None, Some("claude-code"), Some("anything")] {
            assert_eq!(configured.max_wait(client), Duration::from_millis(1500));
        }
    }
}
