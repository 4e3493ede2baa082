//! Fixtures that ask back: in the middle of a call in the older era, by an unfinished result in the newer one.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, GetPromptRequestParams,
        InputRequiredResult,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};

/// Tools whose result needs more than one round.
pub const TOOLS: &[&str] = &[
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

// Stands for a seal: what does not come back exactly as it was given has been tampered with.
const SEALED: &str = "sealed-by-the-fixture";

pub fn call(
    name: &str,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let request = json!(request);
    let given = &request["inputResponses"];
    let state = request["requestState"].as_str();
    let kind = name.trim_start_matches("test_input_required_result_");
    let name_form = form("What is your name?", "name", "string");
    let name_given = given["user_name"]["content"]["name"].as_str();
    match kind {
        "elicitation" => match name_given {
            Some(name) => text(format!("Hello, {name}!")),
            None => ask(json!({"user_name": name_form}), None),
        },
        "sampling" => match given["capital_question"]["content"]["text"].as_str() {
            Some(said) => text(format!("The model said: {said}")),
            None => ask(
                json!({"capital_question": sampling("What is the capital of France?")}),
                None,
            ),
        },
        "list_roots" => match given["client_roots"]["roots"].as_array() {
            Some(roots) => text(format!("{} roots: {}", roots.len(), json!(roots))),
            None => ask(
                json!({"client_roots": {"method": "roots/list", "params": {}}}),
                None,
            ),
        },
        "request_state" | "tampered_state" => match (given.get("confirm"), state) {
            (Some(_), Some(SEALED)) => text("state-ok".to_owned()),
            (None, None) => ask(
                json!({"confirm": form("Please confirm", "ok", "boolean")}),
                Some(SEALED),
            ),
            _ => Err(ErrorData::invalid_params(
                "requestState is not the one that was given",
                None,
            )),
        },
        "multiple_inputs" => {
            let all = ["user_name", "greeting", "client_roots"];
            if all.iter().all(|key| given.get(key).is_some()) {
                return text(format!("Hello, {}!", name_given.unwrap_or_default()));
            }
            let asks = json!({
                "user_name": name_form,
                "greeting": sampling("Generate a greeting"),
                "client_roots": {"method": "roots/list", "params": {}},
            });
            ask(asks, Some(SEALED))
        }
        "multi_round" => match (given.get("step1"), given.get("step2")) {
            (_, Some(_)) => text("Both steps are done".to_owned()),
            (Some(_), None) => ask(
                json!({"step2": form("Step 2: What is your favorite color?", "color", "string")}),
                Some("round-2"),
            ),
            (None, None) => ask(
                json!({"step1": form("Step 1: What is your name?", "name", "string")}),
                Some("round-1"),
            ),
        },
        _ => only_what_it_can(context.client_capabilities().unwrap_or_default(), name_form),
    }
}

/// Asks for what the client says it can do, and for nothing else.
fn only_what_it_can(
    can: ClientCapabilities,
    name_form: Value,
) -> Result<CallToolResponse, ErrorData> {
    let mut asks = Map::new();
    if can.elicitation.is_some() {
        asks.insert("user_name".to_owned(), name_form);
    }
    if can.sampling.is_some() {
        asks.insert("greeting".to_owned(), sampling("Generate a greeting"));
    }
    if can.roots.is_some() {
        asks.insert(
            "client_roots".to_owned(),
            json!({"method": "roots/list", "params": {}}),
        );
    }
    if asks.is_empty() {
        return text("the client can do nothing".to_owned());
    }
    ask(Value::Object(asks), None)
}

/// The context that a prompt was given, or the question for it.
pub fn prompt(request: &GetPromptRequestParams) -> Result<String, Box<InputRequiredResult>> {
    let given = &json!(request)["inputResponses"]["user_context"]["content"]["context"];
    match given.as_str() {
        Some(context) => Ok(context.to_owned()),
        None => {
            let asks = json!({"user_context": form("What context should the prompt use?", "context", "string")});
            Err(Box::new(
                serde_json::from_value(unfinished(asks, None)).expect("a fixture is right"),
            ))
        }
    }
}

fn unfinished(asks: Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required", "inputRequests": asks});
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn ask(asks: Value, state: Option<&str>) -> Result<CallToolResponse, ErrorData> {
    serde_json::from_value::<InputRequiredResult>(unfinished(asks, state))
        .map(Into::into)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is wrong: {error}"), None))
}

fn text(text: String) -> Result<CallToolResponse, ErrorData> {
    let text = rmcp::model::ContentBlock::text(text);
    Ok(rmcp::model::CallToolResult::success(vec![text]).into())
}

fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": {
        "type": "object", "properties": {field: {"type": kind}}, "required": [field]}}})
}

fn sampling(said: &str) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": said}}], "maxTokens": 100}})
}

#[expect(
    deprecated,
    reason = "the older era has it, and the suite asks for it there"
)]
pub async fn log(context: &RequestContext<RoleServer>, said: &str) {
    // The newer era wants silence unless a level was asked for.
    let newer = context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= "2026-07-28");
    let asked = json!(context.meta)
        .get("io.modelcontextprotocol/logLevel")
        .is_some();
    if newer && !asked {
        return;
    }
    let line = serde_json::from_value(json!({"level": "info", "logger": "fixture", "data": said}));
    if let Ok(line) = line {
        let _ = context.peer.notify_logging_message(line).await;
    }
}

#[expect(
    deprecated,
    reason = "the older era has it, and the suite asks for it there"
)]
pub async fn sample(context: &RequestContext<RoleServer>, args: &Value) -> Value {
    let prompt = args["prompt"].as_str().unwrap_or_default();
    let Ok(params) = serde_json::from_value(sampling(prompt)["params"].take()) else {
        return failed("the fixture is wrong");
    };
    match context.peer.create_message(params).await {
        Ok(answer) => {
            let answer = json!(answer);
            let said = answer["content"]["text"].as_str().unwrap_or_default();
            json!({"content": [{"type": "text", "text": format!("LLM response: {said}")}]})
        }
        Err(error) => failed(&error.to_string()),
    }
}

pub async fn elicit(context: &RequestContext<RoleServer>, tool: &str, args: &Value) -> Value {
    let text = |kind: &str, default: Value| json!({"type": kind, "description": "A test value", "default": default});
    let titled = |n: u8| json!({"const": format!("value{n}"), "title": format!("Option {n}")});
    let options = json!(["option1", "option2", "option3"]);
    let (message, properties) = match tool {
        "test_elicitation_sep1034_defaults" => (
            "Please review and update the form fields with defaults",
            json!({
                "name": text("string", json!("John Doe")),
                "age": text("integer", json!(30)),
                "score": text("number", json!(95.5)),
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": text("boolean", json!(true)),
            }),
        ),
        "test_elicitation_sep1330_enums" => (
            "Please select options from the enum fields",
            json!({
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": [titled(1), titled(2), titled(3)]},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": [titled(1), titled(2), titled(3)]}},
            }),
        ),
        _ => (
            args["message"].as_str().unwrap_or("Please say something"),
            json!({"username": {"type": "string", "description": "A name"}, "email": {"type": "string", "description": "An address"}}),
        ),
    };
    let schema = json!({"type": "object", "properties": properties});
    let asked = json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}});
    let Ok(asked) = serde_json::from_value::<rmcp::model::ServerRequest>(asked) else {
        return failed("the fixture is wrong");
    };
    match context.peer.send_request(asked).await {
        Ok(answer) => {
            let answer = json!(answer);
            let said = format!(
                "User response: action={}, content={}",
                answer["action"].as_str().unwrap_or_default(),
                answer["content"]
            );
            json!({"content": [{"type": "text", "text": said}]})
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(said: &str) -> Value {
    json!({"isError": true, "content": [{"type": "text", "text": said}]})
}
