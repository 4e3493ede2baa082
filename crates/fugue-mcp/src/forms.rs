//! Forms: a question to a person is shown by the client of the lead session, while a call of that session waits.
//!
//! The daemon says which questions wait for the person at the session. Each pending call shows at most one of them, and each
//! question is shown by one call. Where the protocol lets a server ask (before 2026-07-28), the form is an
//! `elicitation/create`; later it is an `input_required` result of the call, or the state of its task. An answer is
//! forwarded as the answer of a person. A question whose form is declined, cancelled or answered with nothing is put back:
//! it stays open for `fugue answer`, and this server does not show it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
};

use fugue_api::{
    Error, Handle, QuestionId, ToolCall,
    overview::QuestionRow,
    tools::{AnswerQuestion, AskQuestion, AskQuestionReply},
};
use rmcp::{
    Peer, RoleServer,
    model::{
        ClientResult, ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest,
        InputRequests, InputResponses, PrimitiveSchemaDefinition, ServerRequest, StringSchema,
    },
};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What has become of the questions that this server has shown. Shared by all calls.
#[derive(Clone, Default)]
pub struct Forms(watch::Sender<FormStates>);

#[derive(Default)]
struct FormStates {
    /// Shown by a pending call.
    shown: BTreeSet<QuestionId>,
    /// Not shown again.
    over: BTreeMap<QuestionId, FormEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormEnd {
    Answered,
    /// Declined or cancelled.
    PutBack,
}

// The oldest are forgotten beyond this number; their questions have been answered long ago.
const MAX_ENDED_FORMS: usize = 1_000;
const ANSWER: &str = "answer";

/// The form of one pending call.
pub struct CallForm<H> {
    person: H,
    forms: Forms,
    changes: watch::Receiver<FormStates>,
    watching: QuestionWatch,
    watch_again: Box<dyn Fn(Vec<QuestionId>) -> QuestionWatch + Send>,
    open: Vec<QuestionRow>,
    shown: Option<ShownQuestion>,
    /// The question to a person that the call itself asks.
    own: Option<AskQuestion>,
}

type QuestionWatch = Pin<Box<dyn Future<Output = Result<Vec<QuestionRow>, Error>> + Send>>;

/// The right of one call to show a question, given back on drop.
struct ShownQuestion {
    row: QuestionRow,
    forms: Forms,
}

impl Drop for ShownQuestion {
    fn drop(&mut self) {
        let id = self.row.question_id;
        self.forms
            .0
            .send_if_modified(|states| states.shown.remove(&id));
    }
}

impl Forms {
    fn try_show(&self, row: &QuestionRow) -> Option<ShownQuestion> {
        let id = row.question_id;
        let claimed = self
            .0
            .send_if_modified(|states| !states.over.contains_key(&id) && states.shown.insert(id));
        claimed.then(|| ShownQuestion {
            row: row.clone(),
            forms: self.clone(),
        })
    }

    fn finish(&self, id: QuestionId, end: FormEnd) {
        self.0.send_modify(|states| {
            states.over.insert(id, end);
            if states.over.len() > MAX_ENDED_FORMS {
                states.over.pop_first();
            }
        });
    }
}

impl<H: Handle + Clone + Send + Sync + 'static> CallForm<H> {
    pub fn new(handle: &H, call: &ToolCall, forms: Forms) -> Self {
        let watched = handle.clone();
        let watch_again = move |known| -> QuestionWatch {
            let handle = watched.clone();
            Box::pin(async move { handle.questions(known).await })
        };
        let own = match call {
            ToolCall::AskQuestion(args) if args.is_for_a_person() => Some(args.clone()),
            _ => None,
        };
        Self {
            person: handle.for_person(),
            changes: forms.0.subscribe(),
            forms,
            watching: watch_again(Vec::new()),
            watch_again: Box::new(watch_again),
            open: Vec::new(),
            shown: None,
            own,
        }
    }

    /// The question that is shown.
    pub fn question(&self) -> Option<&QuestionRow> {
        self.shown.as_ref().map(|shown| &shown.row)
    }

    /// The form as the only input request of a result or a task, named after its question.
    pub fn input_requests(&self) -> Option<InputRequests> {
        let row = self.question()?;
        let request = InputRequest::Elicitation(elicitation(row));
        Some(InputRequests::from([(
            row.question_id.to_string(),
            request,
        )]))
    }

    /// Lets another call show the question.
    pub fn release(&mut self) {
        self.shown = None;
    }

    /// The reply to the question that the call itself asks, if its form was put back.
    pub fn put_back_reply(&self) -> Option<AskQuestionReply> {
        let id = self.own_question()?.question_id;
        let is_put_back = self.forms.0.borrow().over.get(&id) == Some(&FormEnd::PutBack);
        let default = || self.own.as_ref().and_then(|own| own.default.clone());
        is_put_back.then(|| AskQuestionReply::left_to_a_person(id, default()))
    }

    fn own_question(&self) -> Option<&QuestionRow> {
        let own = self.own.as_ref()?;
        self.open.iter().find(|row| row.body == own.body)
    }

    /// Resolves when another question is shown, or none, and when the own question was put back. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                rows = &mut self.watching => match rows {
                    Ok(rows) => {
                        let known = rows.iter().map(|row| row.question_id).collect();
                        self.watching = (self.watch_again)(known);
                        self.open = rows;
                    }
                    // The call has the same error, or will be answered without forms.
                    Err(_) => self.watching = Box::pin(std::future::pending()),
                },
                changed = self.changes.changed() => {
                    // The sender is in `self`.
                    let _ = changed;
                }
            }
            if self.choose() || self.put_back_reply().is_some() {
                return;
            }
        }
    }

    /// Returns whether another question is shown than before.
    fn choose(&mut self) -> bool {
        let before = self.question().map(|row| row.question_id);
        let is_over = |id: &QuestionId| self.forms.0.borrow().over.contains_key(id);
        let is_open = |id: &QuestionId| self.open.iter().any(|row| row.question_id == *id);
        if before.is_some_and(|id| is_open(&id) && !is_over(&id)) {
            return false;
        }
        self.shown = None;
        let own_first = self.own_question().into_iter().chain(&self.open);
        self.shown = own_first
            .into_iter()
            .find_map(|row| self.forms.try_show(row));
        self.question().map(|row| row.question_id) != before
    }

    /// Takes a client's responses to input requests. Those to questions that are no longer open come too late.
    pub async fn take(&mut self, responses: &InputResponses) {
        let open = self.open.iter().map(|row| row.question_id);
        for id in open.collect::<Vec<_>>() {
            let is_over = self.forms.0.borrow().over.contains_key(&id);
            if let Some(response) = responses.get(&id.to_string()).filter(|_| !is_over) {
                self.respond(id, response).await;
            }
        }
    }

    /// Forwards an answer as the person's, or puts the question back.
    async fn respond(&mut self, id: QuestionId, response: &Value) {
        let answer = response["content"][ANSWER].as_str();
        let answer =
            answer.filter(|answer| response["action"] == "accept" && !answer.trim().is_empty());
        let mut end = FormEnd::PutBack;
        if let Some(answer) = answer {
            let call = ToolCall::from(AnswerQuestion {
                question_id: id,
                answer: answer.to_owned(),
            });
            match self.person.call(call).await {
                Ok(_) => end = FormEnd::Answered,
                // Answered elsewhere meanwhile, or not by the person at this client.
                Err(error) => tracing::warn!(question = %id, %error, "answer of a form refused"),
            }
        }
        self.forms.finish(id, end);
        self.choose();
    }

    /// Shows forms by requests to the client until the own question is put back.
    pub async fn elicit(self, peer: &Peer<RoleServer>) -> AskQuestionReply {
        let mut form = self;
        loop {
            if let Some(reply) = form.put_back_reply() {
                return reply;
            }
            let Some(row) = form.question() else {
                form.changed().await;
                continue;
            };
            let id = row.question_id;
            // Sent by the call, so that over HTTP the request has the stream of the call.
            let request = ServerRequest::ElicitRequest(elicitation(row));
            let sent = peer
                .send_cancellable_request(request, Default::default())
                .await;
            let Ok(mut request) = sent else {
                form.forms.finish(id, FormEnd::PutBack);
                form.choose();
                continue;
            };
            // The form outlives the call: a person may be typing into it.
            let answering = tokio::spawn(async move {
                tokio::select! {
                    response = &mut request.rx => {
                        let response = match response {
                            Ok(Ok(ClientResult::ElicitResult(result))) => json!(result),
                            // The client has no such form, or is gone.
                            Ok(Ok(_) | Err(_)) | Err(_) => Value::Null,
                        };
                        form.respond(id, &response).await;
                    }
                    () = form.question_changed(id) => {
                        let reason = "the question was answered elsewhere".to_owned();
                        // A client that is gone shows no form.
                        let _ = request.cancel(Some(reason)).await;
                    }
                }
                form
            });
            match answering.await {
                Ok(after) => form = after,
                // The runtime is ending.
                Err(_) => return std::future::pending().await,
            }
        }
    }

    async fn question_changed(&mut self, id: QuestionId) {
        while self.question().is_some_and(|row| row.question_id == id) {
            self.changed().await;
        }
    }
}

fn elicitation(row: &QuestionRow) -> ElicitRequest {
    let is_text = |c: &char| !c.is_control() || *c == '\n';
    let body: String = row.body.chars().filter(is_text).collect();
    let from: String = row.from.chars().filter(is_text).collect();
    let answer = PrimitiveSchemaDefinition::String(StringSchema::new().title("Answer"));
    let mut schema = ElicitationSchema::new(BTreeMap::from([(ANSWER.to_owned(), answer)]));
    schema.required = Some(vec![ANSWER.to_owned()]);
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("{from} asks: {body}"),
        requested_schema: schema,
    })
}
