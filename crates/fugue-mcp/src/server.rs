use std::{path::Path, sync::Arc};

use fugue_api::{
    Delivery, Error, ErrorKind, EventAck, Handle, RawReply, RunId, Tool as _, ToolCall, ToolGroup,
    ToolWait, random_bytes, tools::ReadPane,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        ClientCapabilities, ConstString, ContentBlock, CreateTaskResult, CustomRequest,
        CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, Implementation, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
        ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
        ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        PromptsCapability, ProtocolVersion, ReadResourceRequestMethod, ReadResourceRequestParams,
        ReadResourceResponse, ResourcesCapability, ServerCapabilities, ServerConfig, Tool,
        UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    ack::AckSlot,
    call::{CallContext, ProgressSink},
    client_timeouts::ClientTimeouts,
    forms::{CallForm, Forms},
    prompts::{prompt_listing, render_prompt},
    resources::{pane_resources, read_pane_resource, resource_templates},
    tasks::{CallOutcome, TaskRequest, Tasks},
    tools::{instructions, tool_listing, tools_of_groups},
};

/// The MCP request handler, which forwards tool calls to a [`Handle`]. A clone serves one connection.
#[derive(Clone)]
pub struct McpServer<H> {
    handle: H,
    transport: TransportKind,
    timeouts: ClientTimeouts,
    /// The lead session of all connections, set by `--session`.
    session: Option<Arc<str>>,
    tools: Arc<[Tool]>,
    tasks: Tasks,
    forms: Forms,
    disconnected: CancellationToken,
}

/// The transport of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// The client has started the server in the client's own directory.
    Stdio,
    /// The server's directory is unrelated to the client's, so relative paths are refused.
    Http,
}

impl<H: Handle + Clone> McpServer<H> {
    pub fn new(handle: H, transport: TransportKind) -> Self {
        Self {
            handle,
            transport,
            timeouts: ClientTimeouts::default(),
            session: None,
            tools: tool_listing().into(),
            tasks: Tasks::default(),
            forms: Forms::default(),
            disconnected: CancellationToken::new(),
        }
    }

    /// A configured wait is also the longest time until a call becomes a task.
    pub fn timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        self.timeouts = timeouts;
        if let Some(max_wait) = timeouts.configured() {
            self.tasks.at_most_after(max_wait);
        }
        self
    }

    pub fn session(mut self, session: Option<String>) -> Self {
        self.session = session.map(Into::into);
        self
    }

    /// Offers and accepts only the tools of these groups. An empty list means all.
    pub fn tool_groups(mut self, groups: &[ToolGroup]) -> Self {
        if !groups.is_empty() {
            self.tools = tools_of_groups(groups).into();
        }
        self
    }

    /// The token that cancels all pending calls after a disconnect. Work that the daemon has begun continues.
    pub(crate) fn disconnected(&self) -> CancellationToken {
        self.disconnected.clone()
    }

    /// The lead session of a request. Over HTTP, one server has many clients, and each has its own.
    fn session_of(&self, parts: Option<&http::request::Parts>) -> Option<String> {
        let header = |name: &str| {
            let value = parts?.headers.get(name)?.to_str().ok()?;
            (!value.trim().is_empty()).then(|| value.trim().to_owned())
        };
        match (self.transport, &self.session) {
            (_, Some(session)) => Some(session.to_string()),
            (TransportKind::Stdio, None) => None,
            // An HTTP client without any session is still a lead, not a person.
            (TransportKind::Http, None) => header("fugue-session")
                .or_else(|| header("mcp-session-id"))
                .or_else(|| Some("http".to_owned())),
        }
    }

    /// The handle for the client of a request.
    fn handle_of(&self, context: &RequestContext<RoleServer>) -> H {
        let session = self.session_of(context.extensions.get());
        self.handle_for(session.as_deref())
    }

    /// Panes are resources where the tool that reads them is offered.
    fn offers_resources<M: ConstString>(&self) -> Result<(), ErrorData> {
        if self.reads_panes() {
            Ok(())
        } else {
            Err(ErrorData::method_not_found::<M>())
        }
    }

    fn reads_panes(&self) -> bool {
        self.tools.iter().any(|tool| tool.name == ReadPane::NAME)
    }

    fn handle_for(&self, session: Option<&str>) -> H {
        match session {
            Some(session) => self.handle.for_session(session),
            None => self.handle.clone(),
        }
    }

    /// Parses and validates a call, before the daemon receives anything.
    fn parse(&self, tool: &str, args: JsonObject) -> Result<ToolCall, Error> {
        let mut request = ToolCall::parse(tool, Value::Object(args))?;
        request.check()?;
        let is_relative = |dir: &&str| !Path::new(dir).is_absolute();
        if self.transport == TransportKind::Http
            && let Some(dir) = request
                .resources()
                .directories()
                .into_iter()
                .find(is_relative)
        {
            return Err(Error::invalid(format!(
                "cwd: wanted an absolute path over HTTP, got `{dir}`"
            ))
            .hint("the server does not run in your directory"));
        }
        // An id before the start lets progress messages and interim replies refer to the run.
        match request.wait() {
            ToolWait::StartRun {
                run_id: run_id @ None,
                ..
            } => *run_id = Some(RunId::fresh(random_bytes()?)),
            ToolWait::StartRun {
                run_id: Some(_), ..
            }
            | ToolWait::JoinRun { .. }
            | ToolWait::Inbox(_)
            | ToolWait::PaneClose { .. }
            | ToolWait::Short { .. } => {}
        }
        Ok(request)
    }
}

impl<H: Handle + Clone + Send + Sync + 'static> McpServer<H> {
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            return Err(self.unknown_tool(&request.name));
        }
        let round = request.request_state.as_deref();
        let outcome = match self.parse(&request.name, request.arguments.unwrap_or_default()) {
            Ok(_) if round.is_some() => {
                let responses = request.input_responses.unwrap_or_default();
                let request = self.task_request(round.unwrap_or_default(), &context);
                let limits = self.call_context(&context);
                self.tasks.resume(request, responses, limits).await
            }
            Ok(call) => self.forward(call, &context).await,
            Err(error) => Some(CallOutcome::Reply(Err(error))),
        };
        match outcome {
            Some(CallOutcome::Reply(reply)) => {
                let reply = reply.map(|Delivery { reply, ack }| {
                    store_ack(ack, &context);
                    reply
                });
                Ok(tool_result(reply).into())
            }
            Some(CallOutcome::Task(task)) => {
                Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
            }
            Some(CallOutcome::Form(form)) => Ok(CallToolResponse::InputRequired(form)),
            Some(CallOutcome::Result(result, ack)) => {
                store_ack(ack, &context);
                let result = serde_json::from_value(Value::Object(result));
                let result: CallToolResult =
                    result.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                Ok(result.into())
            }
            // rmcp drops the response to a cancelled request.
            None => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    /// Forwards a call to the handle. With a client that declares tasks, a long wait becomes one.
    async fn forward(
        &self,
        mut call: ToolCall,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallOutcome> {
        let session = self.session_of(context.extensions.get());
        let handle = self.handle_for(session.as_deref());
        let limits = self.call_context(context);
        let declared = context.client_capabilities().unwrap_or_default();
        let can_wait_long = self.tasks.can_hold(&mut call);
        let form = (can_wait_long && shows_forms(&declared))
            .then(|| CallForm::new(&handle, &call, self.forms.clone()));
        if can_wait_long && declared.supports_tasks() {
            return self.tasks.call(&handle, session, call, limits, form).await;
        }
        // From 2026-07-28 on a server asks by the result of a call, which the client then makes again. A call that starts
        // something is not made again.
        let has_rounds = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let reply = match (form, call.wait()) {
            (Some(form), ToolWait::Inbox(_)) if has_rounds => {
                let tasks = &self.tasks;
                return tasks
                    .call_in_rounds(&handle, session, call, limits, form)
                    .await;
            }
            (form, _) => {
                limits
                    .run(&handle, call, form.filter(|_| !has_rounds))
                    .await
            }
        };
        reply.map(CallOutcome::Reply)
    }

    fn task_request<'a>(
        &self,
        id: &'a str,
        context: &RequestContext<RoleServer>,
    ) -> TaskRequest<'a, H> {
        let session = self.session_of(context.extensions.get());
        TaskRequest {
            handle: self.handle_for(session.as_deref()),
            session,
            id,
        }
    }

    async fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let request = self.task_request(id, context);
        let (task, ack) = self.tasks.get(request).await.ok_or_else(|| no_task(id))?;
        store_ack(ack, context);
        Ok(GetTaskResult::new(task))
    }

    fn unknown_tool(&self, name: &str) -> ErrorData {
        let names: Vec<&str> = self.tools.iter().map(|tool| &*tool.name).collect();
        let names = names.join(", ");
        ErrorData::invalid_params(format!("no tool `{name}`; there are: {names}"), None)
    }

    fn call_context(&self, context: &RequestContext<RoleServer>) -> CallContext {
        let client = context.client_info();
        let token = context.meta.get_progress_token();
        CallContext {
            max_wait: self
                .timeouts
                .max_wait(client.as_ref().map(|client| &*client.name)),
            cancelled: context.ct.clone(),
            disconnected: self.disconnected.clone(),
            progress: token.map(|token| ProgressSink {
                token,
                peer: context.peer.clone(),
            }),
            peer: context.peer.clone(),
        }
    }
}

/// Whether a client has forms. Without a mode it has those of the protocol's first version.
fn shows_forms(client: &ClientCapabilities) -> bool {
    let elicitation = client.elicitation.as_ref();
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// An error of the daemon as one of the protocol, with its kind and hint as data.
pub fn protocol_error(error: &Error) -> ErrorData {
    let (message, data) = (error.message.clone(), Some(json!(error)));
    match error.kind {
        ErrorKind::NotFound => ErrorData::resource_not_found(message, data),
        ErrorKind::InvalidArgument
        | ErrorKind::Denied
        | ErrorKind::Ambiguous
        | ErrorKind::Ended => ErrorData::invalid_params(message, data),
        ErrorKind::Exhausted
        | ErrorKind::Unavailable
        | ErrorKind::Uncertain
        | ErrorKind::Internal => ErrorData::internal_error(message, data),
    }
}

/// Leaves the ack of an event to the transport. Without a slot the ack is dropped, and the event released.
fn store_ack(ack: Option<EventAck>, context: &RequestContext<RoleServer>) {
    if let Some(ack) = ack
        && let Some(slot) = ack_slot(context)
    {
        slot.store(ack);
    }
}

fn no_task(id: &str) -> ErrorData {
    let message = format!(
        "no task `{id}`; what its call waited for is kept: `fugue_wait` returns the result of a run, and `wait_for_event` events and answers"
    );
    ErrorData::invalid_params(message, None)
}

/// The slot that the transport has added to a request: on stdio to the message, over HTTP to the HTTP request.
fn ack_slot(context: &RequestContext<RoleServer>) -> Option<&AckSlot> {
    let extensions = &context.extensions;
    extensions.get::<AckSlot>().or_else(|| {
        let parts = extensions.get::<http::request::Parts>()?;
        parts.extensions.get::<AckSlot>()
    })
}

impl<H: Handle + Clone + Send + Sync + 'static> ServerHandler for McpServer<H> {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("fugue", env!("CARGO_PKG_VERSION"))
            .with_title("fugue")
            .with_description(
                "Terminals for agents: panes that stay, and calls that say exactly what happened.",
            );
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tasks()
            .build();
        if !prompt_listing(&self.tools).is_empty() {
            capabilities.prompts = Some(PromptsCapability::default());
        }
        if self.reads_panes() {
            capabilities.resources = Some(ResourcesCapability::default());
        }
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(instructions(&self.tools))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    // Boxed, because rmcp moves the future several times.
    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send {
        Box::pin(self.call(request, context))
    }

    fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<GetTaskResult, ErrorData>> + Send {
        Box::pin(async move { self.task(&request.task_id, &context).await })
    }

    /// Responses to a question that is no longer shown are ignored.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = &*request.task_id;
        let task = self.task_request(id, &context);
        let known = self.tasks.update(task, request.input_responses);
        known.await.then_some(()).ok_or_else(|| no_task(id))
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = &*request.task_id;
        let cancelled = self.tasks.cancel(self.task_request(id, &context));
        cancelled.await.then_some(()).ok_or_else(|| no_task(id))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let listed = prompt_listing(&self.tools);
        if listed.is_empty() {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        }
        Ok(ListPromptsResult::with_all_items(listed))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let handle = self.handle_of(&context);
        let arguments = request.arguments.unwrap_or_default();
        let prompt = render_prompt(&self.tools, &handle, &request.name, &arguments).await?;
        Ok(prompt.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.offers_resources::<ListResourcesRequestMethod>()?;
        let panes = pane_resources(&self.handle_of(&context)).await?;
        Ok(ListResourcesResult::with_all_items(panes))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.offers_resources::<ListResourceTemplatesRequestMethod>()?;
        Ok(ListResourceTemplatesResult::with_all_items(
            resource_templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.offers_resources::<ReadResourceRequestMethod>()?;
        let contents = read_pane_resource(&self.handle_of(&context), &request.uri).await?;
        Ok(contents.into())
    }

    /// Answers unknown methods, and known methods whose parameters have the wrong shape.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let wanted = match request.method.as_str() {
            "tools/call" => "params: wanted `name`, a string, and `arguments`, an object",
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                "params: wanted nothing, or `cursor`, a string"
            }
            "prompts/get" => "params: wanted `name`, a string, and `arguments`, an object",
            "resources/read" => "params: wanted `uri`, a string",
            _ => {
                return Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    request.method,
                    None,
                ));
            }
        };
        Err(ErrorData::invalid_params(wanted, None))
    }
}

/// A tool result with the reply as text and as structured content, because some clients show a model only one of the two.
///
/// An error has only text, which Claude Code, Codex and Gemini CLI show the model, so that output schemas describe replies
/// alone.
pub(crate) fn tool_result(reply: Result<RawReply, Error>) -> CallToolResult {
    let parsed = reply.and_then(|reply| match serde_json::from_str(reply.json().get()) {
        Ok(structured) => Ok((reply, structured)),
        Err(error) => Err(Error::internal(format!(
            "the daemon's reply is not JSON: {error}"
        ))),
    });
    match parsed {
        Ok((reply, structured)) => {
            let text = ContentBlock::text(reply.json().get());
            let mut result = CallToolResult::success(vec![text]);
            result.structured_content = Some(structured);
            result
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(json!(error).to_string())]),
    }
}
