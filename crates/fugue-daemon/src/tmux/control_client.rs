//! A tmux client in control mode, which receives the output of one session's panes and sends commands.
//!
//! The client changes nothing for people: no size (`ignore-size`), no variables of the session (`-E`), no focus.

use std::{collections::VecDeque, io, os::fd::AsFd};

use fugue_holder::spawn::{ChildProcess, SpawnCommand};
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};
use tokio::{
    io::Interest,
    net::unix::pipe::{Receiver, Sender},
};

use super::{
    control::{ControlEvent, ControlParser},
    server::TmuxServer,
};
use fugue_client::async_fd::register_fd;

pub struct ControlClient {
    client: Option<ChildProcess>,
    to: Sender,
    from: Receiver,
    outbox: VecDeque<u8>,
    parser: ControlParser,
}

// The bytes that one call of `next` reads; the rest waits in the pipe, and then in tmux.
const BYTES_PER_TURN: usize = 64 * 1024;

impl ControlClient {
    /// Attaches to a session. `session` is an id such as `$3`: a target with a pane would make that pane the current one.
    pub fn attach(server: &TmuxServer, session: &str) -> io::Result<Self> {
        let (stdin, to) = pipe_with(PipeFlags::CLOEXEC)?;
        let (from, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let client = SpawnCommand::new(server.program())
            .arg0("tmux")
            .args(["-u", "-N", "-C", "-S"])
            .arg(server.socket.as_os_str())
            .args(["attach-session", "-E", "-f", "ignore-size", "-t", session])
            .envs(server.env())
            .fd(stdin.as_fd(), 0)
            .fd(stdout.as_fd(), 1)
            .start()?;
        Ok(Self {
            client: Some(client),
            to: Sender::from_owned_fd(to)?,
            from: Receiver::from_owned_fd(from)?,
            outbox: VecDeque::new(),
            parser: ControlParser::default(),
        })
    }

    /// Sends a command line. Bytes that do not fit into the pipe now are written by [`ControlClient::next`].
    pub fn ask(&mut self, line: &str) {
        self.outbox.extend(line.bytes());
        self.outbox.push_back(b'\n');
        let _ = self.flush();
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.to.try_write(self.outbox.as_slices().0) {
                Ok(count) => {
                    self.outbox.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the next messages. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Vec<ControlEvent>> {
        loop {
            tokio::select! {
                ready = self.to.writable(), if !self.outbox.is_empty() => {
                    ready?;
                    self.flush()?;
                }
                ready = self.from.readable() => {
                    ready?;
                    let mut buffer = vec![0; BYTES_PER_TURN];
                    match self.from.try_read(&mut buffer) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(count) => return Ok(self.parser.feed(&buffer[..count])),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}

/// Closes the connection and reaps the tmux client process.
impl Drop for ControlClient {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        let _ = client.signal(Signal::KILL.as_raw());
        let reap = async move {
            if let Ok(pidfd) = register_fd(client.pidfd.as_fd(), Interest::READABLE) {
                let _ = pidfd.readable().await;
            }
            let _ = client.try_wait();
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(reap);
        }
    }
}
