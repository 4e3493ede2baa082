use std::net::SocketAddr;

use fugue_api::{Error, ErrorKind};
use http::{HeaderMap, Method, StatusCode, Uri, header};

use super::Entry;

/// The check of every request before any other code, for all methods and paths.
///
/// Web pages in a browser can reach a loopback port. The check of `Host` stops DNS rebinding, the check of `Origin` stops
/// requests of web pages, and the token stops other users of the machine.
pub struct Guard {
    port: u16,
    /// Names and addresses without a port, in lower case.
    hosts: Vec<String>,
    entry: Entry,
}

/// The response to a refused request.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub error: Error,
}

impl Guard {
    pub fn new(address: SocketAddr, more_hosts: Vec<String>, entry: Entry) -> Self {
        let mut hosts = vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "[::1]".to_owned(),
        ];
        let own = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        // 0.0.0.0 is a listening address, not a valid Host.
        if !address.ip().is_unspecified() && !hosts.contains(&own) {
            hosts.push(own);
        }
        hosts.extend(more_hosts.into_iter().map(|host| host.to_ascii_lowercase()));
        Self {
            port: address.port(),
            hosts,
            entry,
        }
    }

    /// Accepted values of `Host`, with the port.
    pub fn hosts(&self) -> Vec<String> {
        self.hosts
            .iter()
            .map(|host| format!("{host}:{}", self.port))
            .collect()
    }

    /// Accepted values of `Origin`: the server's own addresses, which some clients send.
    pub fn origins(&self) -> Vec<String> {
        self.hosts
            .iter()
            .map(|host| format!("http://{host}:{}", self.port))
            .collect()
    }

    pub fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        largest_body: usize,
    ) -> Result<(), Refusal> {
        self.right_host(headers)?;
        self.right_origin(headers)?;
        no_token_in_query(uri)?;
        self.right_token(headers)?;
        bearable_body(method, headers, largest_body)
    }

    fn right_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = only(headers, header::HOST).map(str::to_ascii_lowercase);
        if host
            .as_ref()
            .is_some_and(|host| self.hosts().contains(host))
        {
            return Ok(());
        }
        Err(Refusal {
            status: StatusCode::FORBIDDEN,
            error: Error::invalid(format!(
                "Host: wanted one of {}, got {}",
                self.hosts().join(", "),
                host.as_deref().unwrap_or("none, or several")
            )),
        })
    }

    fn right_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if !headers.contains_key(header::ORIGIN) {
            // Only browsers send it.
            return Ok(());
        }
        let origin = only(headers, header::ORIGIN).map(str::to_ascii_lowercase);
        if origin
            .as_ref()
            .is_some_and(|origin| self.origins().contains(origin))
        {
            return Ok(());
        }
        Err(Refusal {
            status: StatusCode::FORBIDDEN,
            error: Error::invalid(format!(
                "Origin: no page may call this server, least of all {}",
                origin.as_deref().unwrap_or("one with several origins")
            )),
        })
    }

    fn right_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = match &self.entry {
            Entry::Anybody => return Ok(()),
            Entry::Token(token) => token,
        };
        let shown = only(headers, header::AUTHORIZATION)
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match shown {
            Some((_, shown)) if token.is(shown.trim()) => Ok(()),
            shown => Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                error: Error::invalid(format!(
                    "Authorization: wanted `Bearer` and the token, got {}",
                    if shown.is_some() {
                        "another token"
                    } else {
                        "none"
                    }
                ))
                .hint("the server says on its stderr which file has the token"),
            }),
        }
    }
}

/// Refuses a token in the URL, even a valid token, because URLs are stored in histories and logs. The response does not
/// contain the token.
fn no_token_in_query(uri: &Uri) -> Result<(), Refusal> {
    let query = uri.query().unwrap_or_default().to_ascii_lowercase();
    let is_secret = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, part));
        ["token", "bearer", "auth", "key", "secret", "password"]
            .iter()
            .any(|word| name.contains(word))
            || value.bytes().filter(u8::is_ascii_hexdigit).count() >= 64
    };
    if !query.split(['&', ';']).any(is_secret) {
        return Ok(());
    }
    Err(Refusal {
        status: StatusCode::BAD_REQUEST,
        error: Error::invalid("no token may be in the address, which others keep and log")
            .hint("send it as `Authorization: Bearer` and the token"),
    })
}

/// The body of a POST is counted again while it arrives; other methods have no use for one.
fn bearable_body(method: &Method, headers: &HeaderMap, largest: usize) -> Result<(), Refusal> {
    let declared = headers.get(header::CONTENT_LENGTH).map(|length| {
        length
            .to_str()
            .ok()
            .and_then(|length| length.parse::<u64>().ok())
    });
    let bearable = match declared {
        Some(Some(length)) => length <= largest as u64,
        Some(None) => false,
        None => method == Method::POST || !headers.contains_key(header::TRANSFER_ENCODING),
    };
    if bearable {
        return Ok(());
    }
    Err(Refusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        error: Error::new(
            ErrorKind::InvalidArgument,
            format!("the body may have {largest} bytes, and of a known number unless it is a POST"),
        ),
    })
}

/// A header that was sent exactly once, as text.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values
        .next()
        .is_none()
        .then(|| value.to_str().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Token;

    const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn guard(address: &str, hosts: &[&str]) -> Guard {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let token = Token::parse(TOKEN).unwrap();
        Guard::new(address.parse().unwrap(), hosts, Entry::Token(token))
    }

    #[track_caller]
    fn check(guard: &Guard, lines: &[(&str, &str)], wanted: Option<u16>) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                header::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        for method in [
            Method::POST,
            Method::GET,
            Method::DELETE,
            Method::OPTIONS,
            Method::PUT,
            Method::HEAD,
        ] {
            let uri = Uri::from_static("/mcp");
            let got = guard.admit(&method, &uri, &headers, 100).err();
            let got = got.map(|refusal| refusal.status.as_u16());
            assert_eq!(got, wanted, "{method} {lines:?}");
        }
    }

    #[test]
    fn only_our_own_names_are_answered_to() {
        let guard = guard("127.0.0.1:7000", &[]);
        let auth = format!("Bearer {TOKEN}");
        let with = |host: &'static str| [("host", host), ("authorization", auth.as_str())];
        for host in [
            "127.0.0.1:7000",
            "localhost:7000",
            "LOCALHOST:7000",
            "[::1]:7000",
        ] {
            check(&guard, &with(host), None);
        }
        for host in [
            "evil.example:7000",
            "localhost.evil.example:7000",
            "127.0.0.1:7001",
            "127.0.0.1",
            "localhost:7000@evil.example",
            "",
        ] {
            check(&guard, &with(host), Some(403));
        }
        check(&guard, &[("authorization", &auth)], Some(403));
        check(
            &guard,
            &[
                ("host", "localhost:7000"),
                ("host", "evil.example"),
                ("authorization", &auth),
            ],
            Some(403),
        );
    }

    #[test]
    fn no_page_but_our_own_may_call() {
        let guard = guard("127.0.0.1:7000", &[]);
        let auth = format!("Bearer {TOKEN}");
        for (origin, wanted) in [
            ("http://localhost:7000", None),
            ("http://127.0.0.1:7000", None),
            ("https://localhost:7000", Some(403)),
            ("http://localhost:7001", Some(403)),
            ("http://localhost", Some(403)),
            ("https://evil.example", Some(403)),
            ("null", Some(403)),
            ("", Some(403)),
        ] {
            let lines = [
                ("host", "localhost:7000"),
                ("origin", origin),
                ("authorization", auth.as_str()),
            ];
            check(&guard, &lines, wanted);
        }
    }

    #[test]
    fn nobody_comes_in_without_the_token() {
        let guard = guard("127.0.0.1:7000", &[]);
        let host = ("host", "localhost:7000");
        check(&guard, &[host], Some(401));
        for wrong in [
            "".to_owned(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            TOKEN.to_owned(),
            format!("Basic {TOKEN}"),
            format!("Bearer {}", &TOKEN[1..]),
            format!("Bearer {TOKEN}0"),
            format!("Bearer {}", TOKEN.replace("ff", "fe")),
        ] {
            check(&guard, &[host, ("authorization", &wrong)], Some(401));
        }
        let right = format!("bearer {TOKEN}");
        check(&guard, &[host, ("authorization", &right)], None);
        check(
            &guard,
            &[host, ("authorization", &right), ("authorization", &right)],
            Some(401),
        );
    }

    #[test]
    fn a_large_body_is_refused_before_it_is_read() {
        let guard = guard("127.0.0.1:7000", &[]);
        let auth = format!("Bearer {TOKEN}");
        let with = |length: &'static str| {
            [
                ("host", "localhost:7000"),
                ("authorization", auth.as_str()),
                ("content-length", length),
            ]
        };
        check(&guard, &with("100"), None);
        for length in ["101", "99999999999999999999999", "-1", "x"] {
            check(&guard, &with(length), Some(413));
        }
    }

    #[test]
    fn a_token_in_the_address_is_refused_and_not_repeated() {
        for (query, refused) in [
            ("", false),
            ("?", false),
            ("?client=x&v=1", false),
            (&*format!("?token={TOKEN}"), true),
            ("?a=1&access_token=x", true),
            (&*format!("?{TOKEN}"), true),
            (&*format!("?x={}", TOKEN.to_uppercase()), true),
        ] {
            let uri = format!("/mcp{query}").parse().unwrap();
            let got = no_token_in_query(&uri).err();
            assert_eq!(got.is_some(), refused, "{query}");
            if let Some(got) = got {
                assert_eq!(got.status.as_u16(), 400);
                assert!(!got.error.to_string().contains(TOKEN));
            }
        }
    }

    #[test]
    fn a_name_for_others_is_one_that_was_given() {
        let guard = guard("0.0.0.0:7000", &["Box.Example"]);
        let auth = format!("Bearer {TOKEN}");
        for (host, wanted) in [
            ("box.example:7000", None),
            ("0.0.0.0:7000", Some(403)),
            ("other.example:7000", Some(403)),
        ] {
            check(&guard, &[("host", host), ("authorization", &auth)], wanted);
        }
    }
}
