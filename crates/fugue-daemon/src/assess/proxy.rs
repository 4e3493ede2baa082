//! Connections through the HTTP proxy that the caller's variables name for `https`.
//!
//! A server without TLS is a private server on this machine or network and is never reached through a proxy.

use std::io;

use hyper::Uri;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The limit of the proxy's response to `CONNECT`, which has a few lines.
const MAX_HEAD: usize = 8 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    host: String,
    port: u16,
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
        let spared = ["NO_PROXY", "no_proxy"]
            .iter()
            .find_map(|name| variable(name));
        if is_near(host) || spared.is_some_and(|list| is_spared(host, &list)) {
            return Ok(None);
        }
        // A value without a scheme is common.
        let url = if url.contains("://") {
            url
        } else {
            format!("http://{url}")
        };
        let uri: Option<Uri> = url.parse().ok();
        let plain = |uri: &Uri| {
            let authority = uri.authority()?.as_str();
            let is_plain = uri.scheme_str() == Some("http") && !authority.contains('@');
            is_plain.then(|| Self {
                host: uri.host().unwrap_or_default().to_owned(),
                port: uri.port_u16().unwrap_or(80),
            })
        };
        match uri.as_ref().and_then(plain) {
            Some(proxy) => Ok(Some(proxy)),
            None => Err(format!(
                "{name}: wanted `http://HOST:PORT`, without a name and password"
            )),
        }
    }

    /// Opens a connection to `host` and `port` through the proxy.
    pub async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let proxy = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = TcpStream::connect((proxy, self.port)).await?;
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        // Byte by byte, because the bytes after the response head come from the server.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == MAX_HEAD {
                return Err(io::Error::other("the proxy's response is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head);
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        if status == "200" {
            Ok(stream)
        } else {
            Err(io::Error::other(format!("the proxy answered {status:.8}")))
        }
    }
}

/// Whether a host is this machine.
fn is_near(host: &str) -> bool {
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}

/// Whether `NO_PROXY` lists the host, by curl's rules: names and their subdomains, with or without a leading dot, or `*`.
fn is_spared(host: &str, list: &str) -> bool {
    list.split(',').map(str::trim).any(|name| {
        let name = name.trim_start_matches('.');
        let rest = host.strip_suffix(name);
        name == "*"
            || (!name.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, vars: &[(&str, &str)], expected: Result<Option<(&str, u16)>, &str>) {
        let lookup = |name: &str| {
            let found = vars.iter().find(|(var, _)| *var == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match (Proxy::for_host(host, lookup), expected) {
            (Ok(got), Ok(wanted)) => {
                let wanted = wanted.map(|(host, port)| Proxy {
                    host: host.into(),
                    port,
                });
                assert_eq!(got, wanted, "{host} {vars:?}");
            }
            (Err(error), Err(says)) => assert!(error.starts_with(says), "{error}"),
            (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn the_callers_variables_name_the_proxy() {
        let proxy = ("HTTPS_PROXY", "http://proxy.example:3128/");
        let found = Ok(Some(("proxy.example", 3128)));
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
            "a.example",
            &[("HTTPS_PROXY", "http://me:pw@h:1")],
            Err("HTTPS_PROXY: wanted"),
        );
    }
}
