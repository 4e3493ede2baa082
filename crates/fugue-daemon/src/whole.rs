//! Reads whole output logs, line by line: a few at a time, and only while a call waits for the result.

use std::{
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fugue_api::{Error, ErrorKind, EventId, wire::Response};
use fugue_core::{PaneRecord, view};
use fugue_holder::record::ExitRecord;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    pending_calls::Responder,
    reading::{GapPositions, TextExtent, TextPart, TextSource},
    replay::{CheckpointPolicy, LogFollower, OutputGap, ReplayDepth},
};

/// The permits for reading whole output logs. Each reader costs memory, a core and the disk, so the number is bounded.
pub struct WholeLogReaders(Arc<Semaphore>);

/// Set when the call that needs the result has been dropped.
#[derive(Clone, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

/// Sets the reader thread's cancel flag when the call is dropped.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl CancelFlag {
    fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl WholeLogReaders {
    pub fn new(readers: usize) -> Self {
        Self(Arc::new(Semaphore::new(readers)))
    }

    /// Waits for a permit and does the work on a blocking thread. A dropped call leaves the queue, and its work is cancelled.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancelFlag) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        Ok(self.run_noting_wait(work).await?.0)
    }

    /// The same, with a note for the reply if the permit came late.
    pub async fn run_noting_wait<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancelFlag) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, Option<String>), Error> {
        let asked = Instant::now();
        let permit = self.0.clone().acquire_owned().await.map_err(closed)?;
        let note = wait_note(asked.elapsed());
        let cancelled = CancelFlag::default();
        let _cancel = CancelOnDrop(cancelled.clone());
        blocking(move || {
            let done = work(&cancelled);
            drop(permit);
            Ok((done?, note))
        })
        .await?
    }

    /// The same for work that is on a blocking thread already.
    pub fn wait(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = self.0.clone().acquire_owned();
        tokio::runtime::Handle::current()
            .block_on(permit)
            .map_err(closed)
    }
}

// A shorter wait is not noticed.
const MIN_NOTED_WAIT: Duration = Duration::from_secs(1);

fn wait_note(waited: Duration) -> Option<String> {
    (waited >= MIN_NOTED_WAIT).then(|| {
        format!(
            "this read waited {} s for other reads of whole output logs (`whole_log_readers` limits how many run at a time)",
            waited.as_secs()
        )
    })
}

fn closed(error: tokio::sync::AcquireError) -> Error {
    Error::new(ErrorKind::Internal, format!("no log can be read: {error}"))
}

/// Does work that waits for the disk on a blocking thread.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            format!("the answer was not composed: {error}"),
        )
    })
}

/// Answers when the work is done, and drops the work when the client disconnects.
pub fn answer_later(
    responder: Responder,
    work: impl Future<Output = Result<Response, Error>> + Send + 'static,
) -> JoinHandle<()> {
    let (task, _) = answer_with_event(responder, work, None);
    task
}

/// The same for a reply that may hold the lease of an event. The receiver gets whether the reply was delivered: the client's
/// ack may come before the task has ended, and aborts the task.
pub fn answer_with_event(
    responder: Responder,
    work: impl Future<Output = Result<Response, Error>> + Send + 'static,
    event: Option<EventId>,
) -> (JoinHandle<()>, oneshot::Receiver<bool>) {
    let (sender, delivered) = oneshot::channel();
    let task = tokio::spawn(async move {
        let answer = tokio::select! {
            answer = work => answer,
            () = responder.gone() => return,
        };
        // A long reply takes a while to encode, which must not delay other calls. An error means that the daemon stops.
        let _ = blocking(move || sender.send(responder.deliver(answer, event))).await;
    });
    (task, delivered)
}

/// A pane's output log as a text, read from its files for every visit.
pub struct WholeLog<'a> {
    pub record: &'a PaneRecord,
    pub dir: PathBuf,
    pub depth: ReplayDepth,
    /// The end of the text; `None` is the end of the log.
    pub to: Option<u64>,
    pub cancelled: &'a CancelFlag,
}

impl WholeLog<'_> {
    /// A terminal before the first byte, which keeps all lines that are not drained.
    pub fn open(&self) -> Result<LogFollower, Error> {
        let none = CheckpointPolicy::None;
        LogFollower::open(&self.dir, self.record, usize::MAX, self.depth, none)
            .map_err(|error| unreadable(self.record, &error))
    }

    /// Feeds the log to a follower until the call is dropped.
    pub fn stream(
        &self,
        follower: &mut LogFollower,
        mut each: impl FnMut(
            &fugue_term::Scrollback,
            &fugue_term::Terminal,
            &[OutputGap],
        ) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let to = self.to.unwrap_or(u64::MAX);
        follower
            .stream(to, |scrollback, terminal, gaps| {
                if self.cancelled.is_so() {
                    return ControlFlow::Break(());
                }
                each(scrollback, terminal, gaps)
            })
            .map_err(|error| unreadable(self.record, &error))?;
        if self.cancelled.is_so() {
            return Err(Error::new(ErrorKind::Unavailable, "the call was cancelled"));
        }
        Ok(())
    }
}

impl TextSource for WholeLog<'_> {
    fn visit(
        &mut self,
        selection: fugue_term::LineSelection,
        visit: &mut dyn FnMut(TextPart<'_>),
    ) -> Result<TextExtent, Error> {
        let mut follower = self.open()?;
        let first_kept = follower.terminal.first_kept().0;
        let lacks = follower.terminal.lacks_lines(selection);
        let mut places = GapPositions::new(selection);
        self.stream(&mut follower, |scrollback, _, gaps| {
            scrollback.for_each_line(selection, |line| {
                places.before(line.no.0, gaps, visit);
                visit(TextPart::Line(line));
            });
            ControlFlow::Continue(())
        })?;
        let terminal = &follower.terminal;
        terminal.for_each_line(selection, |line| {
            places.before(line.no.0, follower.gaps(), visit);
            visit(TextPart::Line(line));
        });
        places.before(u64::MAX, follower.gaps(), visit);
        let offset = terminal.offset().0;
        let tail = match self.to {
            None => short_tail(self.record, &self.dir, offset)?,
            Some(to) => gap_at_end(offset, to),
        };
        places.at_end(tail, visit);
        Ok(TextExtent {
            first_kept,
            lacks,
            end: terminal.end(),
        })
    }
}

/// The output that is missing at the end of an ended pane's log: the exit record contains the full length.
pub fn short_tail(
    record: &PaneRecord,
    dir: &Path,
    offset: u64,
) -> Result<Option<OutputGap>, Error> {
    let Some(ended) = &record.ended else {
        return Ok(None);
    };
    let told = view::cursor(&ended.cursor)?.offset.0;
    let recorded = ExitRecord::read(dir, record.generation)
        .map_err(|error| unreadable(record, &error))?
        .map_or(0, |record| record.exited.output_end);
    Ok(gap_at_end(offset, told.max(recorded)))
}

fn gap_at_end(offset: u64, end: u64) -> Option<OutputGap> {
    (offset < end).then(|| OutputGap {
        line: u64::MAX,
        from: offset,
        next: end,
        bytes: end - offset,
    })
}

/// A log that cannot be read is an error of the call, never the end of the text.
pub fn unreadable(record: &PaneRecord, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the output of pane `{}` cannot be read: {error}", record.id),
    )
}

#[cfg(test)]
mod tests {
    use tokio::{
        sync::{mpsc, oneshot},
        time::timeout,
    };

    use super::*;

    #[tokio::test]
    async fn a_third_reader_waits_and_one_who_leaves_does_not_hold_up_others() {
        let readers = Arc::new(WholeLogReaders::new(2));
        let (mut ends, mut begun, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..4 {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let (begin, begins) = oneshot::channel();
            let readers = readers.clone();
            let work = move |_: &CancelFlag| {
                let _ = begin.send(());
                let _ = ended.recv();
                Ok(())
            };
            let task = tokio::spawn(async move { readers.run(work).await });
            ends.push(end);
            begun.push(begins);
            tasks.push(task);
            // In the order of the queue.
            tokio::task::yield_now().await;
        }
        let fourth = begun.pop().unwrap();
        let third = begun.pop().unwrap();
        for begins in begun {
            begins.await.unwrap();
        }
        assert_eq!(readers.0.available_permits(), 0);
        // The third leaves while it waits; when the first is done, the fourth is next.
        tasks[2].abort();
        assert!(third.await.is_err(), "it began");
        drop(ends.remove(0));
        timeout(Duration::from_secs(20), fourth)
            .await
            .unwrap()
            .unwrap();
        drop(ends);
        for task in [tasks.remove(3), tasks.remove(1), tasks.remove(0)] {
            task.await.unwrap().unwrap();
        }
        assert_eq!(readers.0.available_permits(), 2);
    }

    #[tokio::test]
    async fn a_read_that_waited_for_others_says_so() {
        let readers = WholeLogReaders::new(1);
        let at_once = readers.run_noting_wait(|_: &CancelFlag| Ok(7)).await;
        assert_eq!(at_once.unwrap(), (7, None));
        let other = readers.0.clone().acquire_owned().await.unwrap();
        let read = readers.run_noting_wait(|_: &CancelFlag| Ok(7));
        // The passing of time is the subject.
        let release = async move {
            tokio::time::sleep_until(Instant::now() + MIN_NOTED_WAIT).await;
            drop(other);
        };
        let (read, ()) = tokio::join!(read, release);
        let (result, note) = read.unwrap();
        let note = note.expect("a note");
        assert_eq!(result, 7);
        assert!(
            note.contains("waited") && note.contains("`whole_log_readers`"),
            "{note}"
        );
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_so() {
        let readers = WholeLogReaders::new(1);
        let (begin, begins) = oneshot::channel();
        let (told, tells) = std::sync::mpsc::channel();
        let run = readers.run(move |cancelled: &CancelFlag| {
            let _ = begin.send(());
            while !cancelled.is_so() {
                std::thread::yield_now();
            }
            let _ = told.send(());
            Ok(())
        });
        let left = tokio::select! {
            _ = run => false,
            _ = begins => true,
        };
        assert!(left);
        tells.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_reply_whose_ack_comes_at_once_was_delivered() {
        let (client, mut replies) = mpsc::unbounded_channel();
        let responder = Responder::new(
            0,
            client,
            crate::pending_calls::UnreadReplies::with_limit(u64::MAX),
        );
        let (task, delivered) = answer_with_event(responder, async { Ok(Response::Done) }, None);
        assert!(replies.recv().await.is_some());
        // The ack closes the call.
        task.abort();
        assert_eq!(delivered.await, Ok(true));
    }
}
