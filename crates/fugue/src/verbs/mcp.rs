use std::{net::SocketAddr, process::ExitCode, time::Duration};

use fugue_api::{Error, ToolGroup, wire::Request};
use fugue_mcp::{ClientTimeouts, McpServer, TransportKind, http};

use crate::{cli::CliContext, identity::ProcessRole};

/// Run the MCP server for an agent, on stdin and stdout or over HTTP.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue mcp\n  fugue mcp --tools panes,runs\n  fugue mcp --http 127.0.0.1:7315"
)]
pub struct McpArgs {
    /// Serve streamable HTTP at this address (`/mcp`) instead of stdin and stdout.
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<SocketAddr>,
    /// Accept requests with this Host header; required for an address that other machines reach.
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// Session whose inbox the connection uses.
    #[arg(long, value_name = "S")]
    pub session: Option<String>,
    /// Longest wait of a call in milliseconds, before it returns early; default by client.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_wait_ms: Option<u64>,
    /// Offer only the tools of these groups, separated by commas; default all.
    #[arg(long, value_name = "GROUP", value_enum, value_delimiter = ',')]
    tools: Vec<ToolGroup>,
}

impl McpArgs {
    /// Over HTTP each client has its own inbox, and this process has none.
    pub fn role(&self) -> ProcessRole {
        match self.http {
            None => ProcessRole::Agent,
            Some(_) => ProcessRole::Person,
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
            .session(self.session)
            .tool_groups(&self.tools);
        // Starts the daemon during the MCP handshake. If the start fails, the first call reports the error.
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
                    "MCP at {url}, for clients with the token in {}",
                    token.display()
                ));
                listening.serve(server).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
