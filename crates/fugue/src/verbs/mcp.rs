use std::{net::SocketAddr, process::ExitCode, time::Duration};

use fugue_api::{Error, wire::Request};
use fugue_mcp::{ClientTimeouts, McpServer, TransportKind, http};

use crate::{cli::CliContext, identity::Role};

/// Serve MCP to an agent, on stdin and stdout or by HTTP.
#[derive(clap::Args)]
pub struct McpArgs {
    /// Serve streamable HTTP here (`/mcp`) instead of stdin and stdout.
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<SocketAddr>,
    /// A name that requests from elsewhere may have as their Host; an address that other machines reach needs one.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// The session whose inbox this connection is.
    #[arg(long, value_name = "S")]
    pub session: Option<String>,
    /// The longest a call may wait before it answers early; default by client.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_wait_ms: Option<u64>,
}

impl McpArgs {
    /// Over HTTP each client has its own inbox, and this process none.
    pub fn role(&self) -> Role {
        match self.http {
            None => Role::Agent,
            Some(_) => Role::Person,
        }
    }

    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let transport = match self.http {
            Some(_) => TransportKind::Http,
            None => TransportKind::Stdio,
        };
        let max_wait = self.max_wait_ms.map(Duration::from_millis);
        let server = McpServer::new(cx.client.clone(), transport)
            .timeouts(ClientTimeouts::new(max_wait))
            .session(self.session);
        // The daemon starts while the client says hello. If it cannot, the first call says why.
        let client = cx.client.clone();
        tokio::spawn(async move { client.ask(Request::DaemonStatus).await });
        match self.http {
            None => fugue_mcp::serve_stdio(server).await?,
            Some(address) => {
                cx.paths.prepare()?;
                let token = cx.paths.state.join("mcp-token");
                let settings = http::HttpSettings::new(address, self.allow_host, &token)?;
                let listening = http::HttpListener::at(settings).await?;
                let url = format!("http://{}{}", listening.address(), http::PATH);
                if cx.out.is_json() {
                    cx.out
                        .document(&serde_json::json!({"url": url, "token_file": token}))?;
                }
                cx.out.note(&format!(
                    "MCP at {url}, for those who have the token in {}",
                    token.display()
                ));
                listening.serve(server).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
