//! Expects in a pane: passes output to the [`ExpectWaiters`](fugue_core::pane_machine::ExpectWaiters) and searches older
//! output outside the pane's task.

use std::time::Instant;

use fugue_api::RunId;
use fugue_core::{ExpectRequest, PaneEvent, pane_machine::expect_patterns};
use fugue_term::{ExpectSearch, PatternMatch};

use super::Pane;
use crate::archive;

/// A search of older output that has ended.
pub(super) struct OlderSearch {
    run: RunId,
    search: ExpectSearch,
    found: Option<PatternMatch>,
}

impl Pane {
    pub(super) async fn start_expect(&mut self, request: ExpectRequest) {
        let Some(patterns) = expect_patterns(&request) else {
            return;
        };
        let terminal = &mut self.follower.terminal;
        terminal.start_text_stream();
        let start = self
            .expects
            .start(&request, patterns, terminal, Instant::now());
        if let Some(search) = start.older_search {
            self.search_older(request, search);
        }
        self.report_expects(start.events).await;
        self.end_late_expects().await;
    }

    /// Searches older output on another thread: reading a long log takes a while, and other panes live on this thread.
    fn search_older(&self, request: ExpectRequest, search: ExpectSearch) {
        let record = Box::new(self.context.record.clone());
        let (results, run) = (self.older_searches_tx.clone(), request.run.clone());
        let older = archive::begin(record, search, self.context.daemon.clone());
        tokio::spawn(async move {
            let (found, search) = match older.await {
                Ok(searched) => searched,
                Err(error) => {
                    tracing::warn!(?run, %error, "older output cannot be searched");
                    match expect_patterns(&request) {
                        Some(patterns) => (None, ExpectSearch::without_older_lines(patterns)),
                        None => return,
                    }
                }
            };
            // The pane's task ends before its expects only at the daemon's end.
            let _ = results.send(OlderSearch { run, search, found });
        });
    }

    pub(super) async fn resume_expect(&mut self, older: OlderSearch) {
        let OlderSearch { run, search, found } = older;
        let terminal = &self.follower.terminal;
        let events = self
            .expects
            .resume(&run, search, found, terminal, Instant::now());
        self.report_expects(events).await;
        self.end_late_expects().await;
    }

    pub(super) fn cancel_expect(&mut self, run: &RunId) {
        self.expects.cancel(run);
        self.record_for_expects();
    }

    /// Searches new output.
    pub(super) async fn search_output(&mut self) {
        if self.expects.is_empty() {
            return;
        }
        let terminal = &self.follower.terminal;
        let events = self.expects.on_output(terminal, Instant::now());
        self.report_expects(events).await;
    }

    pub(super) async fn expect_timer(&mut self, now: Instant) {
        let events = self.expects.on_timer(&self.follower.terminal, now);
        self.report_expects(events).await;
    }

    /// Searches once more when all output of the ended pane has been read.
    pub(super) async fn end_expects(&mut self) {
        let events = self.expects.on_end(&self.follower.terminal);
        self.report_expects(events).await;
    }

    /// Ends the expects that began after the pane's end was reported.
    async fn end_late_expects(&mut self) {
        if self.is_end_reported() {
            let events = self.expects.on_late_end(&self.follower.terminal);
            self.report_expects(events).await;
        }
    }

    async fn report_expects(&mut self, events: Vec<PaneEvent>) {
        for event in events {
            self.context.emit(event).await;
        }
        self.record_for_expects();
    }

    /// Lets the terminal record new output only while an expect needs it.
    fn record_for_expects(&mut self) {
        let is_needed = !self.expects.is_empty();
        if is_needed {
            self.follower.terminal.start_text_stream();
        } else {
            self.follower.terminal.stop_text_stream();
        }
    }
}
