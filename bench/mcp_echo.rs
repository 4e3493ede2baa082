//! The least an rmcp server can do, to compare ours with: one tool that answers with nothing behind it.

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities,
        ServerConfig,
    },
    service::RequestContext,
    transport::io::stdio_pipes,
};

#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(said.to_string())]);
        result.structured_content = Some(said);
        Ok(result.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Ok(running) = Echo.serve(stdio_pipes()).await {
        let _ = running.waiting().await;
    }
}
