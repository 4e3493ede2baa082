//! Stdout is written by whoever has something to say, rmcp or we, a whole line at a time.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{Mutex, MutexGuard},
};

/// Where lines go, in the order in which they were ready.
#[derive(Clone)]
pub struct Out(Arc<Mutex<Sink>>);

struct Sink {
    to: Box<dyn AsyncWrite + Send + Unpin>,
    /// A line was begun and not finished; nothing may be written behind it.
    torn: bool,
}

impl Out {
    pub fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let to = Box::new(to);
        Self(Arc::new(Mutex::new(Sink { to, torn: false })))
    }

    /// Returns when everybody who came before has written.
    pub async fn turn(&self) -> Turn<'_> {
        Turn(self.0.lock().await)
    }

    /// Returns when the message has been written.
    pub async fn say(&self, message: &impl Serialize) -> io::Result<()> {
        let line = line(message)?;
        self.turn().await.write(&line).await
    }

    /// Passes on what another writes, line by line, until it writes no more.
    pub async fn pass_on(self, from: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).await? > 0 {
            self.turn().await.write(&line).await?;
            line.clear();
        }
        Ok(())
    }
}

/// The right to write one line.
pub struct Turn<'a>(MutexGuard<'a, Sink>);

impl Turn<'_> {
    /// Returns when the line, which brings its own end, has been written.
    pub async fn write(mut self, line: &[u8]) -> io::Result<()> {
        if self.0.torn {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.0.torn = true;
        self.0.to.write_all(line).await?;
        self.0.to.flush().await?;
        self.0.torn = false;
        Ok(())
    }
}

/// A message and the end of its line.
pub fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
