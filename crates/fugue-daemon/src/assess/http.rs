//! A single POST request per connection. Dropping the future closes the socket.
//!
//! Redirects are not followed, because a key belongs to a single host, and the size of the reply is limited.

use std::{io, path::PathBuf, sync::Arc};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http1,
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use super::{AssessError, proxy::Proxy};

/// An answer has a few kilobytes; the limit leaves room for a server that sends reasoning too.
const MAX_BODY: usize = 1 << 20;

/// The address of a server.
#[derive(Clone, Debug)]
pub(super) struct HttpEndpoint {
    /// As in a URL: an IPv6 address has brackets.
    pub host: String,
    pub port: u16,
    pub authority: String,
    /// The prefix of every path.
    pub path: String,
    /// The trusted certificates, for TLS.
    pub roots: Option<TrustRoots>,
    /// The HTTP proxy, if the server is not reached directly.
    pub proxy: Option<Proxy>,
}

/// The caller's trusted root certificates, otherwise the system's.
#[derive(Clone, Debug)]
pub(super) struct TrustRoots {
    pub file: Option<PathBuf>,
    pub dir: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct HttpReply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpEndpoint {
    pub async fn post(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: String,
    ) -> Result<HttpReply, AssessError> {
        let mut request = Request::post(format!("{}{path}", self.path))
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("fugue/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.unreachable(error))?;
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = match &self.proxy {
            None => TcpStream::connect((host, self.port)).await,
            Some(proxy) => proxy.tunnel(&self.host, self.port).await,
        };
        let stream = stream.map_err(|error| self.unreachable(error))?;
        match &self.roots {
            None => self.exchange(stream, request).await,
            Some(roots) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|error| self.unreachable(error))?;
                let config = roots
                    .config()
                    .await
                    .map_err(|error| self.unreachable(error))?;
                let stream = TlsConnector::from(config)
                    .connect(name, stream)
                    .await
                    .map_err(|error| self.unreachable(error))?;
                self.exchange(stream, request).await
            }
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<Full<Bytes>>,
    ) -> Result<HttpReply, AssessError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error))?;
        let talk = async move {
            let response = sender
                .send_request(request)
                .await
                .map_err(|error| self.unreachable(error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
            let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
                Some(_) => AssessError::Garbled(format!("more than {MAX_BODY} bytes")),
                None => self.unreachable(error),
            })?;
            Ok(HttpReply {
                status,
                body: body.to_bytes().to_vec(),
            })
        };
        // The connection is polled here and not in a separate task, so that the connection is closed when this future is dropped.
        let driven = async {
            let _ = connection.await;
            std::future::pending().await
        };
        tokio::select! {
            reply = talk => reply,
            () = driven => Err(self.unreachable("the connection was closed")),
        }
    }

    fn unreachable(&self, error: impl ToString) -> AssessError {
        AssessError::Unreachable(format!("{}: {}", self.authority, error.to_string()))
    }
}

impl TrustRoots {
    /// Loads the certificates for each request: requests are rare, and certificates change while a daemon runs for weeks.
    async fn config(&self) -> io::Result<Arc<ClientConfig>> {
        let Self { file, dir } = self.clone();
        let loading = tokio::task::spawn_blocking(move || {
            if file.is_some() || dir.is_some() {
                rustls_native_certs::load_certs_from_paths(file.as_deref(), dir.as_deref())
            } else {
                rustls_native_certs::load_native_certs()
            }
        });
        let loaded = loading.await.map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(loaded.certs);
        if roots.is_empty() {
            return Err(io::Error::other(match loaded.errors.first() {
                Some(error) => format!("no trusted certificates: {error}"),
                None => {
                    "no trusted certificates; install ca-certificates or set SSL_CERT_FILE".into()
                }
            }));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}
