//! Stdout is written by whoever has something to say, rmcp or we, a whole line at a time.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{Mutex, MutexGuard, OwnedMutexGuard},
};

type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Where lines go, in the order in which they were ready.
#[derive(Clone)]
pub struct Out(Arc<Mutex<Sink>>);

impl Out {
    pub fn new(sink: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(sink))))
    }

    /// Returns when everybody who came before has written.
    pub async fn turn(&self) -> Turn<'_> {
        Turn(self.0.lock().await)
    }

    pub fn turns(&self) -> Turns {
        Turns {
            out: self.clone(),
            held: Held::No,
        }
    }
}

/// The right to write one line.
pub struct Turn<'a>(MutexGuard<'a, Sink>);

impl Turn<'_> {
    /// Returns when the line, which brings its own end, has been written. Dropped before that, it may be torn.
    pub async fn write(mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line).await?;
        self.0.flush().await
    }
}

/// What rmcp writes to. It has its turn from a message's first byte until it flushes, which it does behind each message.
pub struct Turns {
    out: Out,
    held: Held,
}

enum Held {
    No,
    Awaited(Pin<Box<dyn Future<Output = OwnedMutexGuard<Sink>> + Send>>),
    Yes(OwnedMutexGuard<Sink>),
}

impl Turns {
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<&mut Sink> {
        if let Held::No = self.held {
            self.held = Held::Awaited(Box::pin(self.out.0.clone().lock_owned()));
        }
        if let Held::Awaited(turn) = &mut self.held {
            self.held = Held::Yes(ready!(turn.as_mut().poll(context)));
        }
        match &mut self.held {
            Held::Yes(sink) => Poll::Ready(sink),
            Held::No | Held::Awaited(_) => Poll::Pending,
        }
    }
}

impl AsyncWrite for Turns {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sink = ready!(self.poll_turn(context));
        let written = ready!(Pin::new(sink).poll_write(context, bytes));
        if written.is_err() {
            // Others are to find out for themselves instead of waiting for us.
            self.held = Held::No;
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Held::Yes(sink) = &mut self.held {
            let flushed = ready!(Pin::new(&mut **sink).poll_flush(context));
            self.held = Held::No;
            return Poll::Ready(flushed);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Stdout is not rmcp's to close.
        self.poll_flush(context)
    }
}
