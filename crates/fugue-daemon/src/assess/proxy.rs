//! Connections through the HTTP proxy that the caller's variables name for `https`.
//!
//! A server without TLS is a private server on this machine or network and is never reached through a proxy.

use std::io;

use hyper::{Uri, header::HeaderValue};
use hyper_util::client::{
    legacy::connect::{HttpConnector, proxy::Tunnel},
    proxy::matcher::{Intercept, Matcher},
};
use tokio::net::TcpStream;
use tower_service::Service;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    uri: Uri,
    /// The name and password of the proxy's URL, as a header.
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// The proxy for `host`, if configured. An error names the variable and the expected form. `variable` returns a
    /// variable of the caller.
    pub fn for_host(
        host: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let Some((name, url)) = names.iter().find_map(|name| Some((name, variable(name)?))) else {
            return Ok(None);
        };
        let no_proxy = ["NO_PROXY", "no_proxy"]
            .iter()
            .find_map(|name| variable(name));
        let find = |proxy: &str, no_proxy: Option<&str>| {
            let server: Uri = format!("https://{host}").parse().ok()?;
            let matcher = Matcher::builder()
                .https(proxy)
                .no(no_proxy.unwrap_or_default());
            matcher.build().intercept(&server)
        };
        if is_near(host) || find("http://any", no_proxy.as_deref()).is_none() {
            return Ok(None);
        }
        match find(&url, None).filter(|proxy| proxy.uri().scheme_str() == Some("http")) {
            Some(proxy) => Ok(Some(Self::from(&proxy))),
            None => Err(format!("{name}: wanted `http://HOST:PORT`")),
        }
    }

    /// Opens a connection to `host` and `port` through the proxy.
    pub async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let server: Uri = format!("https://{host}:{port}")
            .parse()
            .map_err(io::Error::other)?;
        let mut tunnel = Tunnel::new(self.uri.clone(), HttpConnector::new());
        if let Some(authorization) = &self.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let stream = tunnel.call(server).await;
        let stream = stream.map_err(|error| {
            io::Error::other(format!("no tunnel through the proxy {}: {error}", self.uri))
        })?;
        Ok(stream.into_inner())
    }
}

impl From<&Intercept> for Proxy {
    fn from(proxy: &Intercept) -> Self {
        Self {
            uri: proxy.uri().clone(),
            authorization: proxy.basic_auth().cloned(),
        }
    }
}

/// Whether a host is this machine.
fn is_near(host: &str) -> bool {
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, vars: &[(&str, &str)], expected: Result<Option<&str>, &str>) {
        let lookup = |name: &str| {
            let found = vars.iter().find(|(var, _)| *var == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match (Proxy::for_host(host, lookup), expected) {
            (Ok(got), Ok(wanted)) => {
                let got = got.map(|proxy| proxy.uri.to_string());
                assert_eq!(got.as_deref(), wanted, "{host} {vars:?}");
            }
            (Err(error), Err(says)) => assert!(error.starts_with(says), "{error}"),
            (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn the_callers_variables_name_the_proxy() {
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128/");
        let found = Ok(Some("http://proxy.example:3128/"));
        check("api.openai.com", &[], Ok(None));
        check("api.openai.com", &[proxy], found);
        check(
            "api.openai.com",
            &[("all_proxy", "proxy.example:3128")],
            found,
        );
        check(
            "api.openai.com",
            &[proxy, ("NO_PROXY", "a.example, .openai.com")],
            Ok(None),
        );
        check(
            "api.openai.com",
            &[proxy, ("no_proxy", "openai.com")],
            Ok(None),
        );
        check("api.openai.com", &[proxy, ("NO_PROXY", "*")], Ok(None));
        check("api.openai.com", &[proxy, ("NO_PROXY", "ai.com,,x")], found);
        for near in ["localhost", "127.0.0.1", "[::1]"] {
            check(near, &[proxy], Ok(None));
        }
        check(
            "a.example",
            &[("ALL_PROXY", "socks5://h:1")],
            Err("ALL_PROXY: wanted"),
        );
        check(
            "192.0.2.7",
            &[proxy, ("NO_PROXY", "192.0.2.0/24")],
            Ok(None),
        );
    }

    #[test]
    fn a_name_and_password_become_a_header_and_are_not_in_errors() {
        let url = "http://me:secret@h:1";
        let variable = |name: &str| (name == "HTTPS_PROXY").then(|| url.to_owned());
        let proxy = Proxy::for_host("a.example", variable).unwrap().unwrap();
        assert_eq!(proxy.uri.to_string(), "http://h:1/");
        let header = proxy.authorization.as_ref().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic bWU6c2VjcmV0");
        assert!(!format!("{proxy:?}").contains("bWU6"));
    }
}
