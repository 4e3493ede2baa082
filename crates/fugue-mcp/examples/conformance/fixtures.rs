use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::{EmptyHouse, rounds};
use fugue_mcp::McpServer;

/// Our server, and beside its tools the ones the suite wants.
#[derive(Clone)]
pub struct Fixtures {
    ours: McpServer<EmptyHouse>,
    /// Told of when a fixture pretends that a list has changed.
    changes: Arc<broadcast::Sender<Change>>,
}

#[derive(Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

// One red dot, and silence.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const PLAIN_TOOLS: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_logging_tool",
    "test_streaming_elicitation",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
];

impl Fixtures {
    pub fn new(ours: McpServer<EmptyHouse>) -> Self {
        Self {
            ours,
            changes: Arc::new(broadcast::channel(16).0),
        }
    }

    async fn plain(
        &self,
        name: &str,
        args: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        Ok(match name {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => {
                json!({"content": [{"type": "image", "data": IMAGE, "mimeType": "image/png"}]})
            }
            "test_audio_content" => {
                json!({"content": [{"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}]})
            }
            "test_embedded_resource" => json!({"content": [{"type": "resource", "resource": {
                "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}}]}),
            "test_multiple_content_types" => json!({"content": [
                {"type": "text", "text": "Multiple content types test:"},
                {"type": "image", "data": IMAGE, "mimeType": "image/png"},
                {"type": "resource", "resource": {
                    "uri": "test://mixed-content-resource", "mimeType": "application/json", "text": "{\"test\":\"data\",\"value\":123}"}},
            ]}),
            "test_error_handling" => json!({"isError": true, "content": [
                {"type": "text", "text": "This tool intentionally returns an error for testing"}]}),
            "test_tool_with_logging" | "test_logging_tool" => {
                for said in [
                    "Tool execution started",
                    "Tool processing data",
                    "Tool execution completed",
                ] {
                    rounds::log(context, said).await;
                }
                text("Tool with logging executed successfully")
            }
            "test_tool_with_progress" => {
                if let Some(token) = context.meta.get_progress_token() {
                    for percent in [0.0, 50.0, 100.0] {
                        let progress = ProgressNotificationParam::new(token.clone(), percent)
                            .with_total(100.0)
                            .with_message(format!("Completed step {percent} of 100"));
                        let _ = context.peer.notify_progress(progress).await;
                    }
                }
                text("Progress test completed")
            }
            "test_sampling" => rounds::sample(context, args).await,
            "test_elicitation"
            | "test_elicitation_sep1034_defaults"
            | "test_elicitation_sep1330_enums" => rounds::elicit(context, name, args).await,
            "test_missing_capability" => {
                let wanted: ClientCapabilities = read(json!({"sampling": {}}))?;
                let has = context.client_capabilities();
                if has.is_none_or(|has| has.sampling.is_none()) {
                    return Err(ErrorData::missing_required_client_capability(wanted));
                }
                text("the client can sample")
            }
            "test_trigger_tool_change" => {
                let _ = self.changes.send(Change::Tools);
                text("the tools have changed")
            }
            "test_trigger_prompt_change" => {
                let _ = self.changes.send(Change::Prompts);
                text("the prompts have changed")
            }
            _ => text("done"),
        })
    }
}

/// A result of the newer era says that it is one; for the older era rmcp takes the word out again.
fn result<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = json!("complete");
    read(value)
}

/// The fixtures are written as the JSON that the suite describes.
fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is wrong: {error}"), None))
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.ours.get_info();
        info.capabilities = serde_json::from_value(json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true},
            "completions": {},
            "logging": {},
        }))
        .unwrap_or(info.capabilities);
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.ours.list_tools(request, context).await?;
        for name in PLAIN_TOOLS.iter().chain(rounds::TOOLS) {
            let nothing = json!({"type": "object", "properties": {}});
            let schema = match *name {
                "test_sampling" => {
                    json!({"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]})
                }
                "test_elicitation" => {
                    json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]})
                }
                _ => nothing,
            };
            let schema: rmcp::model::JsonObject = read(schema)?;
            listed.tools.push(Tool::new(
                *name,
                "A fixture of the conformance suite",
                schema,
            ));
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if rounds::TOOLS.contains(&&*name) {
            return rounds::call(&name, &request, &context);
        }
        if PLAIN_TOOLS.contains(&&*name) {
            let args = Value::Object(request.arguments.unwrap_or_default());
            let given = self.plain(&name, &args, &context).await?;
            return result::<rmcp::model::CallToolResult>(given).map(Into::into);
        }
        self.ours.call_tool(request, context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument =
            |name: &str| json!({"name": name, "description": "A test argument", "required": true});
        result(json!({"prompts": [
            {"name": "test_simple_prompt", "description": "A simple prompt"},
            {"name": "test_prompt_with_arguments", "description": "One with arguments", "arguments": [argument("arg1"), argument("arg2")]},
            {"name": "test_prompt_with_embedded_resource", "description": "One with a resource", "arguments": [argument("resourceUri")]},
            {"name": "test_prompt_with_image", "description": "One with an image"},
            {"name": "test_input_required_result_prompt", "description": "One that asks back"},
        ]}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = json!(request.arguments);
        let said = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
        let text =
            |text: String| json!({"role": "user", "content": {"type": "text", "text": text}});
        let messages = match request.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.".into())],
            "test_prompt_with_arguments" => vec![text(format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                said("arg1"),
                said("arg2")
            ))],
            "test_prompt_with_embedded_resource" => vec![
                json!({"role": "user", "content": {"type": "resource", "resource": {
                    "uri": said("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing."}}}),
                text("Please process the embedded resource above.".into()),
            ],
            "test_prompt_with_image" => vec![
                json!({"role": "user", "content": {"type": "image", "data": IMAGE, "mimeType": "image/png"}}),
                text("Please analyze the image above.".into()),
            ],
            "test_input_required_result_prompt" => match rounds::prompt(&request) {
                Ok(context) => vec![text(format!("Use this context: {context}"))],
                Err(asks) => return Ok((*asks).into()),
            },
            other => {
                return Err(ErrorData::invalid_params(
                    format!("no prompt `{other}`"),
                    None,
                ));
            }
        };
        result::<rmcp::model::GetPromptResult>(json!({"messages": messages})).map(Into::into)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        result(json!({"resources": [
            {"uri": "test://static-text", "name": "Static text", "description": "A text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "Static binary", "description": "An image", "mimeType": "image/png"},
            {"uri": "test://watched-resource", "name": "Watched", "description": "One to subscribe to", "mimeType": "text/plain"},
        ]}))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        result(json!({"resourceTemplates": [
            {"uriTemplate": "test://template/{id}/data", "name": "Template", "mimeType": "application/json"},
        ]}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri
            .strip_prefix("test://template/")
            .and_then(|rest| rest.strip_suffix("/data"));
        let content = match (uri, id) {
            (_, Some(id)) => {
                let data =
                    json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
            }
            ("test://static-text" | "test://watched-resource", None) => {
                json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
            }
            ("test://static-binary", None) => {
                json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE})
            }
            _ => {
                let data = json!({"uri": uri});
                return Err(ErrorData::resource_not_found(
                    "no such resource",
                    Some(data),
                ));
            }
        };
        result::<rmcp::model::ReadResourceResult>(json!({"contents": [content]})).map(Into::into)
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        result(
            json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}}),
        )
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => {
                    // A list that was not asked for is refused by the sink, which is what it is for.
                    let _ = match change {
                        Ok(Change::Tools) => subscription.sink().notify_tool_list_changed().await,
                        Ok(Change::Prompts) => subscription.sink().notify_prompt_list_changed().await,
                        Err(_) => return Ok(()),
                    };
                }
            }
        }
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    #[expect(
        deprecated,
        reason = "the older era has it, and the suite asks for it there"
    )]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }
}
