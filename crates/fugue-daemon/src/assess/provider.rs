//! The four APIs, as far as a request with a schema for the answer needs.

use fugue_core::assess::{ModelAnswer, Prompt, one_line};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{
    AssessError,
    choice::ApiKey,
    http::{HttpEndpoint, HttpReply},
};

/// The limit of a server's error text.
const MAX_ERROR_CHARS: usize = 300;

/// Enough for an answer of a few hundred characters and for the reasoning of a model before the answer.
const MAX_TOKENS: u32 = 8_192;

/// Ollama cuts a prompt that is longer than its context at the front, where the rules are. The longest prompt has about
/// 40,000 characters.
const OLLAMA_CONTEXT: u32 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderApi {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

/// A model behind an API.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub dialect: ProviderApi,
    pub model: String,
    pub place: HttpEndpoint,
    pub key: Option<ApiKey>,
}

impl Provider {
    pub async fn ask<A: ModelAnswer>(&self, prompt: &Prompt<A>) -> Result<String, AssessError> {
        let body = self.dialect.question(&self.model, prompt).to_string();
        let path = self.dialect.path(&self.model);
        let reply = self.place.post(&path, &self.headers(), body).await?;
        self.answer(&reply)
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        let (name, prefix) = match self.dialect {
            ProviderApi::OpenAi | ProviderApi::Ollama => (AUTHORIZATION, "Bearer "),
            ProviderApi::Anthropic => (HeaderName::from_static("x-api-key"), ""),
            ProviderApi::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
        };
        if let Some(value) = self.key.as_ref().and_then(|key| key.header(prefix)) {
            headers.push((name, value));
        }
        if self.dialect == ProviderApi::Anthropic {
            let version = HeaderValue::from_static("2023-06-01");
            headers.push((HeaderName::from_static("anthropic-version"), version));
        }
        headers
    }

    fn answer(&self, reply: &HttpReply) -> Result<String, AssessError> {
        let body = serde_json::from_slice::<Value>(&reply.body).ok();
        if !(200..300).contains(&reply.status) {
            return Err(AssessError::Refused {
                status: reply.status,
                said: self.error_text(reply, body.as_ref()),
            });
        }
        body.as_ref()
            .and_then(|body| self.dialect.text(body))
            .ok_or_else(|| AssessError::Garbled(self.error_text(reply, body.as_ref())))
    }

    /// The server's error text, or the start of the body, without the key.
    fn error_text(&self, reply: &HttpReply, body: Option<&Value>) -> String {
        let error = body.map(|body| &body["error"]);
        let words = error.and_then(|error| error["message"].as_str().or(error.as_str()));
        let said = match words {
            Some(words) => words.to_owned(),
            None => String::from_utf8_lossy(&reply.body).into_owned(),
        };
        let said = match &self.key {
            Some(key) => key.redact(&said),
            None => said,
        };
        match one_line(&said, MAX_ERROR_CHARS) {
            empty if empty.is_empty() => "nothing more".into(),
            said => said,
        }
    }
}

impl ProviderApi {
    pub fn named(name: &str) -> Option<Self> {
        [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama]
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Variables that may hold the key. Empty if the API needs no key.
    pub fn key_names(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["OPENAI_API_KEY"],
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Self::Ollama => &[],
        }
    }

    /// Variables that may hold the base URL, the same as the provider's own programs read.
    pub fn base_names(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["OPENAI_BASE_URL"],
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::Gemini => &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
            Self::Ollama => &["OLLAMA_HOST"],
        }
    }

    /// The default base URL.
    pub fn home(self) -> &'static str {
        match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Gemini => "https://generativelanguage.googleapis.com",
            Self::Ollama => "http://127.0.0.1:11434",
        }
    }

    /// Completes a base URL. `OLLAMA_HOST` may be only a host, and may be the address to which the server binds.
    pub fn with_default_path(self, base: &str) -> String {
        if self != Self::Ollama || base.contains("://") {
            return base.to_owned();
        }
        let host = base
            .trim_end_matches('/')
            .replacen("0.0.0.0", "127.0.0.1", 1);
        if host.contains(':') {
            format!("http://{host}")
        } else {
            format!("http://{host}:11434")
        }
    }

    fn path(self, model: &str) -> String {
        match self {
            Self::OpenAi => "/chat/completions".into(),
            Self::Anthropic => "/v1/messages".into(),
            Self::Gemini => format!("/v1beta/models/{model}:generateContent"),
            Self::Ollama => "/api/chat".into(),
        }
    }

    fn question<A: ModelAnswer>(self, model: &str, prompt: &Prompt<A>) -> Value {
        let (system, user, schema) = (&prompt.system, &prompt.user, A::schema());
        let messages = json!([
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]);
        match self {
            Self::OpenAi => json!({
                "model": model,
                "messages": messages,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": A::NAME, "strict": true, "schema": schema},
                },
            }),
            Self::Anthropic => json!({
                "model": model,
                "max_tokens": MAX_TOKENS,
                "system": system,
                "messages": [{"role": "user", "content": user}],
                "output_config": {"format": {"type": "json_schema", "schema": schema}},
            }),
            Self::Gemini => json!({
                "systemInstruction": {"parts": [{"text": system}]},
                "contents": [{"role": "user", "parts": [{"text": user}]}],
                "generationConfig": {
                    "responseMimeType": "application/json",
                    "responseJsonSchema": schema,
                },
            }),
            Self::Ollama => json!({
                "model": model,
                "messages": messages,
                "stream": false,
                "format": schema,
                "options": {"num_ctx": OLLAMA_CONTEXT},
            }),
        }
    }

    /// The model's text in a reply of the API, also if the model refused. `None` if the body is no such reply.
    fn text(self, body: &Value) -> Option<String> {
        let parts = |list: &Value, is_thought: fn(&Value) -> bool| {
            let texts = list.as_array()?.iter().filter(|part| !is_thought(part));
            let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
            Some(texts.concat())
        };
        match self {
            Self::OpenAi => {
                let message = &body["choices"][0]["message"];
                let said = message["content"].as_str().or(message["refusal"].as_str());
                said.map(str::to_owned)
            }
            Self::Anthropic => parts(&body["content"], |part| part["type"] != "text"),
            Self::Gemini => parts(&body["candidates"][0]["content"]["parts"], |part| {
                part["thought"] == true
            }),
            Self::Ollama => body["message"]["content"].as_str().map(str::to_owned),
        }
    }
}
