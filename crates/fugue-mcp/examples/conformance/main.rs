//! Our server with the fixtures that the public conformance suite asks for, and an empty house behind it.
//!
//! The suite calls tools, prompts and resources of given names and looks at what the server makes of them. What is
//! under test is ours: the HTTP door with its guard, the handling of requests, both eras. Only the fixtures are not.

mod fixtures;
mod rounds;

use std::io::Write;

use fugue_api::{
    Delivery, Error, ErrorKind, Handle, QuestionId, RawReply, ToolCall, overview::QuestionRow,
};
use fugue_mcp::{
    McpServer, TransportKind,
    http::{HttpListener, HttpSettings},
};

/// Answers every call alike: there is nothing here.
#[derive(Clone)]
struct EmptyHouse;

impl Handle for EmptyHouse {
    fn for_session(&self, _: &str) -> Self {
        self.clone()
    }

    fn for_person(&self) -> Self {
        self.clone()
    }

    async fn questions(&self, _: Vec<QuestionId>) -> Result<Vec<QuestionRow>, Error> {
        Err(Error::new(ErrorKind::Unavailable, "nobody lives here"))
    }

    async fn call_raw(&self, _: ToolCall) -> Result<Delivery<RawReply>, Error> {
        Err(Error::new(ErrorKind::Unavailable, "nobody lives here"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let address = ([127, 0, 0, 1], 0).into();
    let listening = HttpListener::at(HttpSettings::open_to_anybody(address)).await?;
    // Whoever started us waits for this line.
    let _ = writeln!(std::io::stdout(), "http://{}/mcp", listening.address());
    let ours = McpServer::new(EmptyHouse, TransportKind::Http);
    listening.serve(fixtures::Fixtures::new(ours)).await
}
