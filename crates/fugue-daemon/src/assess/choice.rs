//! Parses `FUGUE_ASSESS_MODEL` into an assessor and checks that the caller has what the assessor needs.

use std::{ffi::OsString, fmt, net::IpAddr, path::PathBuf, time::Duration};

use fugue_api::{Error, ErrorKind, wire::CallerEnv};
use hyper::{Uri, header::HeaderValue};

use super::{
    command::AssessorCommand,
    http::{HttpEndpoint, TrustRoots},
    provider::{Provider, ProviderApi},
    proxy::Proxy,
};
use crate::pane::launch;

/// A configured assessor.
#[derive(Clone, Debug)]
pub struct Assessor {
    pub(super) who: AssessorKind,
    pub(super) limit: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum AssessorKind {
    Provider(Box<Provider>),
    Command(AssessorCommand),
}

/// An API key, which is sent in a header and never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl ApiKey {
    /// The value of the header: `prefix` and the key.
    pub(super) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Removes the key from a text, because some servers repeat the key in errors.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "(key)")
    }
}

const CHOICES: &str = "set FUGUE_ASSESS_MODEL to `openai:MODEL` (with OPENAI_API_KEY), `anthropic:MODEL` (ANTHROPIC_API_KEY), \
                       `gemini:MODEL` (GEMINI_API_KEY), `ollama:MODEL`, `URL#MODEL` for an OpenAI-compatible server (with \
                       FUGUE_ASSESS_API_KEY, if it wants a key), or `cmd:COMMAND` for a command that reads the prompt and prints the JSON";

/// The key for a server that is configured by a URL. A provider's key is not sent to such a server, because the URL and
/// the key may come from different people.
const KEY_FOR_A_URL: &str = "FUGUE_ASSESS_API_KEY";

impl Assessor {
    /// Parses the value of `FUGUE_ASSESS_MODEL` and checks that the caller has the key or program. Makes no request.
    pub fn new(choice: &str, caller: &CallerEnv, limit: Duration) -> Result<Self, Error> {
        let choice = choice.trim();
        let unknown = || Error::invalid(format!("no assessor `{choice}`")).hint(CHOICES);
        let who = if choice.starts_with("http://") || choice.starts_with("https://") {
            let Some((url, model)) = choice.split_once('#') else {
                return Err(Error::invalid(format!("`{choice}` names no model"))
                    .hint(format!("wanted `{choice}#MODEL`")));
            };
            let server = provider(ProviderApi::OpenAi, model, Some(url), caller)?;
            AssessorKind::Provider(Box::new(server))
        } else {
            let (kind, rest) = choice.split_once(':').ok_or_else(unknown)?;
            match kind {
                "cmd" => AssessorKind::Command(command(rest, caller)?),
                _ => {
                    let dialect = ProviderApi::named(kind).ok_or_else(unknown)?;
                    AssessorKind::Provider(Box::new(provider(dialect, rest, None, caller)?))
                }
            }
        };
        Ok(Self { who, limit })
    }
}

fn command(line: &str, caller: &CallerEnv) -> Result<AssessorCommand, Error> {
    if line.trim().is_empty() {
        return Err(
            Error::invalid("`cmd:` names no command").hint("wanted for example `cmd:claude -p`")
        );
    }
    Ok(AssessorCommand {
        line: line.to_owned(),
        cwd: PathBuf::from(OsString::from(&caller.cwd)),
        env: launch::inherited(caller),
    })
}

fn provider(
    dialect: ProviderApi,
    model: &str,
    url: Option<&str>,
    caller: &CallerEnv,
) -> Result<Provider, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-:/@+".contains(c);
    let model = model.trim();
    if model.is_empty() || !model.chars().all(fits) {
        return Err(Error::invalid(format!("no model can be called `{model}`")).hint(CHOICES));
    }
    let (base, whose) = match url {
        Some(url) => (Some(url.to_owned()), "FUGUE_ASSESS_MODEL"),
        None => match first(caller, dialect.base_names()) {
            Some((name, base)) => (Some(base), name),
            None => (None, ""),
        },
    };
    // A base URL in the provider's own variable comes from the same environment as the key, and the provider's own programs
    // send the key there too.
    let key_names = match url {
        Some(_) => &[KEY_FOR_A_URL][..],
        None => dialect.key_names(),
    };
    let key = first(caller, key_names);
    // A private server may need no key; the provider's server does.
    if key.is_none() && base.is_none() && !dialect.key_names().is_empty() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "no assessor: `{}:{model}` needs {}, which is not set",
                dialect.name(),
                dialect.key_names().join(" or ")
            ),
        )
        .hint(CHOICES));
    }
    let base = base.map_or_else(
        || dialect.home().to_owned(),
        |base| dialect.with_default_path(&base),
    );
    let mut place = endpoint(&base, caller).ok_or_else(|| {
        Error::invalid(format!(
            "{whose}: wanted a URL such as `{}`",
            dialect.home()
        ))
    })?;
    if let Some((name, _)) = &key
        && place.roots.is_none()
        && !is_loopback(&place.host)
    {
        return Err(
            Error::invalid(format!("{name} would go to `{}` unencrypted", place.host)).hint(
                format!("use https, or unset {name} if the server wants no key"),
            ),
        );
    }
    let key = key.map(|(name, key)| checked_key(name, key)).transpose()?;
    if place.roots.is_some() {
        place.proxy =
            Proxy::for_host(&place.host, |name| variable(caller, name)).map_err(|wanted| {
                Error::invalid(wanted)
                    .hint("a proxy of another kind: `cmd:COMMAND` can ask through it")
            })?;
    }
    Ok(Provider {
        dialect,
        model: model.to_owned(),
        place,
        key,
    })
}

fn checked_key(name: &str, key: String) -> Result<ApiKey, Error> {
    let key = ApiKey(key.trim().to_owned());
    match key.header("") {
        Some(_) => Ok(key),
        None => Err(
            Error::invalid(format!("{name} holds characters that no key has"))
                .hint(format!("look at {name} for a line end or a quote")),
        ),
    }
}

fn endpoint(base: &str, caller: &CallerEnv) -> Option<HttpEndpoint> {
    let uri: Uri = base.trim_end_matches('/').parse().ok()?;
    let host = uri.host()?;
    let tls = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    // A query would be lost, and a user name and password would appear in errors.
    if uri.query().is_some() || uri.authority()?.as_str().contains('@') {
        return None;
    }
    Some(HttpEndpoint {
        host: host.to_owned(),
        port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        authority: uri.authority()?.to_string(),
        path: uri.path().trim_end_matches('/').to_owned(),
        roots: tls.then(|| TrustRoots {
            file: variable(caller, "SSL_CERT_FILE").map(PathBuf::from),
            dir: variable(caller, "SSL_CERT_DIR").map(PathBuf::from),
        }),
        proxy: None,
    })
}

/// Whether requests to this host stay on the machine.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => v6.to_canonical().is_loopback(),
        Ok(IpAddr::V4(v4)) => v4.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The first of these variables that is set in the caller's environment, with the value.
fn first(caller: &CallerEnv, names: &[&'static str]) -> Option<(&'static str, String)> {
    names
        .iter()
        .find_map(|name| Some((*name, variable(caller, name)?)))
}

/// A variable of the caller. An empty value or a value that is not UTF-8 counts as unset.
fn variable(caller: &CallerEnv, name: &str) -> Option<String> {
    let found = caller
        .env
        .iter()
        .find(|(key, _)| OsString::from(key) == name);
    let value = OsString::from(&found?.1).into_string().ok()?;
    (!value.trim().is_empty()).then(|| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(choice: &str, vars: &[(&str, &str)]) -> Result<AssessorKind, Error> {
        let text = |text: &str| OsString::from(text).into();
        let caller = CallerEnv {
            cwd: text("/"),
            env: vars
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            umask: 0o022,
            setting_names: fugue_api::wire::SettingNames::Prefixed,
        };
        Assessor::new(choice, &caller, Duration::from_secs(1)).map(|assessor| assessor.who)
    }

    fn check(choice: &str, vars: &[(&str, &str)], expected: &str) {
        let shown = match chosen(choice, vars) {
            Ok(AssessorKind::Command(command)) => format!("cmd {}", command.line),
            Ok(AssessorKind::Provider(p)) => {
                let key = if p.key.is_some() { "with" } else { "without" };
                let tls = if p.place.roots.is_some() {
                    "https"
                } else {
                    "http"
                };
                let HttpEndpoint {
                    host, port, path, ..
                } = p.place;
                format!(
                    "{} {} {tls} {host} {port} {path} {key} key",
                    p.dialect.name(),
                    p.model
                )
            }
            Err(error) => error.message,
        };
        assert_eq!(shown, expected, "{choice} {vars:?}");
    }

    #[test]
    fn a_choice_names_who_is_asked_and_where() {
        let key = ("OPENAI_API_KEY", "k");
        check(
            "openai:gpt-4o",
            &[key],
            "openai gpt-4o https api.openai.com 443 /v1 with key",
        );
        check(
            "openai:m",
            &[("OPENAI_BASE_URL", "http://localhost:8000/v1/")],
            "openai m http localhost 8000 /v1 without key",
        );
        check(
            "http://127.0.0.1:8000/v1#org/m",
            &[],
            "openai org/m http 127.0.0.1 8000 /v1 without key",
        );
        check(
            "https://[::1]:8443#m",
            &[key],
            "openai m https [::1] 8443  without key",
        );
        check(
            "https://a.example/v1#m",
            &[key, (KEY_FOR_A_URL, "k")],
            "openai m https a.example 443 /v1 with key",
        );
        for host in ["127.0.0.1", "127.8.9.1", "localhost", "LocalHost", "[::1]"] {
            check(
                &format!("http://{host}:8000#m"),
                &[(KEY_FOR_A_URL, "k")],
                &format!("openai m http {host} 8000  with key"),
            );
        }
        // Without a key there is nothing to protect.
        check("http://box#m", &[key], "openai m http box 80  without key");
        check(
            "anthropic:claude-sonnet-5",
            &[("ANTHROPIC_API_KEY", "k")],
            "anthropic claude-sonnet-5 https api.anthropic.com 443  with key",
        );
        check(
            "gemini:gemini-3.8-flash",
            &[("GOOGLE_API_KEY", "k")],
            "gemini gemini-3.8-flash https generativelanguage.googleapis.com 443  with key",
        );
        check(
            "ollama:qwen3:8b",
            &[],
            "ollama qwen3:8b http 127.0.0.1 11434  without key",
        );
        check(
            "ollama:q",
            &[("OLLAMA_HOST", "box:9")],
            "ollama q http box 9  without key",
        );
        check(
            "ollama:q",
            &[("OLLAMA_HOST", "0.0.0.0")],
            "ollama q http 127.0.0.1 11434  without key",
        );
        check(
            "ollama:q",
            &[("OLLAMA_HOST", "https://o.example")],
            "ollama q https o.example 443  without key",
        );
        check(
            " cmd:claude -p 'be brief' ",
            &[],
            "cmd claude -p 'be brief'",
        );
    }

    #[test]
    fn nothing_configured_is_said_with_the_choices() {
        let missing = "no assessor: `openai:gpt-4o` needs OPENAI_API_KEY, which is not set";
        check("openai:gpt-4o", &[], missing);
        check("openai:gpt-4o", &[("OPENAI_API_KEY", " ")], missing);
        check(
            "gemini:g",
            &[],
            "no assessor: `gemini:g` needs GEMINI_API_KEY or GOOGLE_API_KEY, which is not set",
        );
        let hint = chosen("openai:gpt-4o", &[]).unwrap_err().hint.unwrap();
        for choice in [
            "openai:",
            "anthropic:",
            "gemini:",
            "ollama:",
            "URL#",
            "cmd:",
        ] {
            assert!(hint.contains(choice), "{hint}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_at_once() {
        check("gpt-4o", &[], "no assessor `gpt-4o`");
        check("mistral:x", &[], "no assessor `mistral:x`");
        check("cmd:  ", &[], "`cmd:` names no command");
        check(
            "openai:",
            &[("OPENAI_API_KEY", "k")],
            "no model can be called ``",
        );
        check(
            "gemini:../x?y",
            &[("GEMINI_API_KEY", "k")],
            "no model can be called `../x?y`",
        );
        check(
            "https://a.example/v1",
            &[],
            "`https://a.example/v1` names no model",
        );
        check(
            "http://#m",
            &[],
            "FUGUE_ASSESS_MODEL: wanted a URL such as `https://api.openai.com/v1`",
        );
        check(
            "openai:m",
            &[("OPENAI_BASE_URL", "ftp://x")],
            "OPENAI_BASE_URL: wanted a URL such as `https://api.openai.com/v1`",
        );
        check(
            "openai:m",
            &[("OPENAI_BASE_URL", "https://me:pw@x/v1")],
            "OPENAI_BASE_URL: wanted a URL such as `https://api.openai.com/v1`",
        );
        check(
            "openai:m",
            &[("OPENAI_API_KEY", "a\nb")],
            "OPENAI_API_KEY holds characters that no key has",
        );
    }

    #[test]
    fn no_key_leaves_the_machine_unencrypted() {
        for host in [
            "box",
            "10.0.0.1",
            "[fe80::1]",
            "localhost.example",
            "0.0.0.0",
        ] {
            check(
                &format!("http://{host}:8000/v1#m"),
                &[(KEY_FOR_A_URL, "k")],
                &format!("FUGUE_ASSESS_API_KEY would go to `{host}` unencrypted"),
            );
            check(
                "anthropic:m",
                &[
                    ("ANTHROPIC_API_KEY", "k"),
                    ("ANTHROPIC_BASE_URL", &format!("http://{host}")),
                ],
                &format!("ANTHROPIC_API_KEY would go to `{host}` unencrypted"),
            );
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        for choice in ["openai:m", "cmd:true"] {
            let who = chosen(choice, &[("OPENAI_API_KEY", "sk-secret")]).unwrap();
            assert!(!format!("{who:?}").contains("secret"));
        }
    }
}
