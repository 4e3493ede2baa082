//! The agents, and the texts of the screens at which they wait for a person.

use fugue_testkit::test_agents::{AgentLogin, TestAgent};

/// A release of an agent: the pinned one, or an older one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRelease {
    Claude,
    /// Claude Code 2.1.197.
    OlderClaude,
    Codex,
    Gemini,
    Qwen,
}

impl AgentRelease {
    pub fn agent(self) -> TestAgent {
        match self {
            Self::Claude | Self::OlderClaude => TestAgent::Claude,
            Self::Codex => TestAgent::Codex,
            Self::Gemini => TestAgent::Gemini,
            Self::Qwen => TestAgent::Qwen,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::OlderClaude => "Claude Code 2.1.197",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
        }
    }

    /// The name under which `spawn_worker` starts the agent.
    pub fn worker_agent(self) -> &'static str {
        match self {
            Self::Claude | Self::OlderClaude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    /// A person's command line for the agent, with a first prompt or without.
    pub fn command_line(self, prompt: Option<&str>) -> String {
        let (program, option) = match self {
            Self::Claude | Self::OlderClaude => ("claude", ""),
            Self::Codex => ("codex --no-daemon", ""),
            Self::Gemini => ("gemini", "-i "),
            Self::Qwen => ("qwen", "-i "),
        };
        match prompt {
            Some(prompt) => format!("{program} {option}'{prompt}'"),
            None => program.to_owned(),
        }
    }

    /// A text on the screen while the input box is shown and empty.
    pub fn input_box_mark(self) -> &'static str {
        match self {
            Self::Claude | Self::OlderClaude => "❯",
            Self::Codex => "›",
            Self::Gemini | Self::Qwen => "Type your message",
        }
    }
}

/// A screen that waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingScreen {
    /// Before a command runs.
    Permission,
    /// Of a folder that the home does not trust.
    Trust,
    /// Of a home without credentials.
    Login,
    /// Gemini CLI's prompt for the code of a login in a browser elsewhere.
    LoginCode,
    ModelPicker,
    /// A text in the input box that was not sent.
    Draft,
}

pub const DRAFT: &str = "half a thou";

impl WaitingScreen {
    pub fn name(self) -> &'static str {
        match self {
            Self::Permission => "permission dialog",
            Self::Trust => "trust dialog",
            Self::Login => "login screen",
            Self::LoginCode => "login code",
            Self::ModelPicker => "model picker",
            Self::Draft => "draft",
        }
    }

    pub fn login(self) -> AgentLogin {
        match self {
            Self::Login | Self::LoginCode => AgentLogin::LoggedOut,
            Self::Permission | Self::Trust | Self::ModelPicker | Self::Draft => {
                AgentLogin::LoggedIn
            }
        }
    }

    /// The line that a person types to get to the screen, if any.
    pub fn typed_text(self, agent: TestAgent) -> Option<&'static str> {
        match (self, agent) {
            // On its own, a new home shows the login screen only where Anthropic's servers can be reached.
            (Self::Login, TestAgent::Claude) => Some("/login"),
            (Self::ModelPicker, _) => Some("/model"),
            (Self::Draft, _) => Some(DRAFT),
            (Self::Permission | Self::Trust | Self::Login | Self::LoginCode, _) => None,
        }
    }

    /// The text by which a person recognises the screen. Reasons quote it, unless it is a draft.
    pub fn mark(self, agent: TestAgent) -> &'static str {
        use TestAgent::{Claude, Codex, Gemini, Qwen};
        match (self, agent) {
            (Self::Permission, Claude) => "Do you want to proceed?",
            (Self::Permission, Codex) => "Would you like to run the following command?",
            (Self::Permission, Gemini | Qwen) => "Allow execution of",
            (Self::Trust, Claude) => "Quick safety check",
            (Self::Trust, Codex) => "Trust this folder?",
            (Self::Trust, Gemini) => "Do you trust the files in this folder?",
            (Self::Trust, Qwen) => "Do you trust this folder?",
            (Self::Login, Claude) => "Select login method",
            (Self::Login, Codex) => "Choose how you want to use Codex",
            (Self::Login, Gemini) => "How would you like to authenticate",
            (Self::Login, Qwen) => "Connect a Provider",
            (Self::LoginCode, _) => "Enter the authorization code",
            (Self::ModelPicker, Claude) => "Select model",
            (Self::ModelPicker, Codex) => "Select Model and Effort",
            (Self::ModelPicker, Gemini | Qwen) => "Select Model",
            (Self::Draft, _) => DRAFT,
        }
    }
}
