use std::{path::Path, sync::Arc, time::Duration};

use fugue_api::{Error, Handed, Handle, Kind, Receipt, Request, RunId, Unread};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, ErrorCode, Implementation, JsonObject, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    patience::Patience,
    receipts::{Receipts, Slip},
    tools::{INSTRUCTIONS, listed},
    wait::{Ear, Progress, Wait},
};

/// Answers MCP requests by passing them on to whoever answers fugue's calls. Cheap to clone; one for each connection.
#[derive(Clone)]
pub struct Server<H> {
    handle: H,
    door: Door,
    patience: Patience,
    /// Whose inbox this connection is, as `--session` said.
    session: Option<Arc<str>>,
    tools: Arc<[Tool]>,
    receipts: Receipts,
    /// Cancelled when nobody is left to hear an answer.
    gone: CancellationToken,
}

/// The way a client came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Started by its client, in the client's own directory.
    Stdio,
    /// Started by somebody else, somewhere else: a relative path would mean nothing to the client.
    Http,
}

impl<H: Handle + Clone> Server<H> {
    pub fn new(handle: H, door: Door) -> Self {
        Self {
            handle,
            door,
            patience: Patience::default(),
            session: None,
            tools: listed().into(),
            receipts: Receipts::default(),
            gone: CancellationToken::new(),
        }
    }

    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    pub fn session(mut self, session: Option<String>) -> Self {
        self.session = session.map(Into::into);
        self
    }

    /// Ends every wait when it is cancelled; the work goes on.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    pub(crate) fn receipts(&self) -> Receipts {
        self.receipts.clone()
    }

    /// How long a client of this name is kept waiting.
    pub(crate) fn ceiling(&self, client: Option<&str>) -> Duration {
        self.patience.of(client)
    }

    /// Over HTTP many clients come by one connection of ours; each has its own inbox.
    pub(crate) fn handle_for(&self, parts: Option<&http::request::Parts>) -> H {
        let header = |name: &str| {
            let value = parts?.headers.get(name)?.to_str().ok()?;
            (!value.trim().is_empty()).then(|| value.trim().to_owned())
        };
        let session = match (self.door, &self.session) {
            (_, Some(named)) => Some(named.to_string()),
            (Door::Stdio, None) => None,
            // Whoever has no session all the same is a lead, and no person.
            (Door::Http, None) => header("fugue-session")
                .or_else(|| header("mcp-session-id"))
                .or_else(|| Some("http".to_owned())),
        };
        match session {
            Some(session) => self.handle.speaking_for(&session),
            None => self.handle.clone(),
        }
    }

    /// To be signed when the reply has been written.
    fn keep(&self, receipt: Receipt, context: &RequestContext<RoleServer>) {
        let parts = context.extensions.get::<http::request::Parts>();
        match parts.and_then(|parts| parts.extensions.get::<Slip>()) {
            Some(slip) => slip.keep(receipt),
            None => self
                .receipts
                .keep(context.id.clone(), receipt, context.ct.clone()),
        }
    }

    /// Reads a call, and refuses it before anything has happened if it is wrong.
    fn read(&self, tool: &str, args: Value) -> Result<Request, Error> {
        let mut request = Request::parse(tool, args)?;
        request.check()?;
        if self.door == Door::Http
            && let Some(cwd) = directories(&request)
                .into_iter()
                .find(|cwd| !Path::new(cwd).is_absolute())
        {
            return Err(Error::invalid(format!(
                "cwd: wanted an absolute path over HTTP, got `{cwd}`"
            ))
            .hint("the server does not run in your directory"));
        }
        // Named before it starts, so that it can be asked about while it is waited for.
        let run_id = match &mut request {
            Request::Expect(args) => &mut args.run_id,
            Request::RunParallel(args) => &mut args.run_id,
            Request::RunPipeline(args) => &mut args.run_id,
            _ => return Ok(request),
        };
        if run_id.is_none() {
            *run_id = Some(RunId::fresh(random()?));
        }
        Ok(request)
    }
}

impl<H: Handle + Clone + Send + Sync + 'static> Server<H> {
    /// `None`: nobody wants to know any more.
    pub(crate) async fn answer(
        &self,
        handle: &H,
        tool: &str,
        args: JsonObject,
        wait: Wait,
    ) -> Option<Result<Handed<Unread>, Error>> {
        match self.read(tool, Value::Object(args)) {
            Ok(call) => wait.for_answer(handle, call, &self.gone).await,
            Err(error) => Some(Err(error)),
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !Request::NAMES.contains(&&*request.name) {
            return Err(no_tool(&request.name));
        }
        let client = context.client_info();
        let token = context.meta.get_progress_token();
        let wait = Wait {
            ceiling: self.ceiling(client.as_ref().map(|client| &*client.name)),
            cancelled: context.ct.clone(),
            progress: token.map(|token| Progress {
                token,
                ear: Ear::Rmcp(context.peer.clone()),
            }),
        };
        let handle = self.handle_for(context.extensions.get());
        let args = request.arguments.unwrap_or_default();
        let Some(answer) = self.answer(&handle, &request.name, args, wait).await else {
            // Nobody hears this: a cancelled request has no response.
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        let answer = answer.map(|Handed { reply, receipt }| {
            if let Some(receipt) = receipt {
                self.keep(receipt, &context);
            }
            reply
        });
        Ok(result(answer).into())
    }
}

impl<H: Handle + Clone + Send + Sync + 'static> ServerHandler for Server<H> {
    fn get_info(&self) -> ServerConfig {
        let ours = Implementation::new("fugue", env!("CARGO_PKG_VERSION"))
            .with_title("fugue")
            .with_description(
                "Terminals for agents: panes that stay, and calls that say exactly what happened.",
            );
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(ours)
            .with_instructions(INSTRUCTIONS)
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

    // In a box: rmcp moves a request's future about several times, and this one is large.
    fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> impl Future<Output = Result<CallToolResponse, ErrorData>> + Send {
        Box::pin(self.call(request, context))
    }

    // What we do not have we do not answer for: a client that asks all the same learns that there is no such method.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            rmcp::model::ListPromptsRequestMethod,
        >())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            rmcp::model::ListResourcesRequestMethod,
        >())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            rmcp::model::ListResourceTemplatesRequestMethod,
        >())
    }

    /// A known method whose parameters have the wrong shape arrives here too, and deserves to be told so.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let wanted = match request.method.as_str() {
            "tools/call" => "params: wanted `name`, a string, and `arguments`, an object",
            "tools/list" => "params: wanted nothing, or `cursor`, a string",
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

fn random() -> Result<[u8; 8], Error> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(bytes),
        _ => Err(Error::new(
            Kind::Internal,
            "the kernel gave no random numbers",
        )),
    }
}

/// The directories that a call names.
fn directories(request: &Request) -> Vec<&str> {
    match request {
        Request::CreatePane(args) => args.cwd.as_deref().into_iter().collect(),
        Request::RunPipeline(args) => args.cwd.as_deref().into_iter().collect(),
        Request::RunParallel(args) => {
            let commands = args.commands.iter();
            commands.filter_map(|one| one.cwd.as_deref()).collect()
        }
        Request::SpawnWorker(args) => args.cwd.as_deref().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The same facts twice: some clients show a model only the one, some only the other.
pub(crate) fn result(answer: Result<Unread, Error>) -> CallToolResult {
    let read = answer.and_then(|reply| match serde_json::from_str(reply.json().get()) {
        Ok(facts) => Ok((reply, facts)),
        Err(error) => Err(Error::new(
            Kind::Internal,
            format!("a reply that is no JSON: {error}"),
        )),
    });
    let (mut result, facts) = match read {
        Ok((reply, facts)) => {
            let text = ContentBlock::text(reply.json().get());
            (CallToolResult::success(vec![text]), facts)
        }
        Err(error) => {
            let facts = json!(error);
            let text = ContentBlock::text(facts.to_string());
            (CallToolResult::error(vec![text]), facts)
        }
    };
    result.structured_content = Some(facts);
    result
}

fn no_tool(name: &str) -> ErrorData {
    let names = Request::NAMES.join(", ");
    ErrorData::invalid_params(format!("no tool `{name}`; there are: {names}"), None)
}
