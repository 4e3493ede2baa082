//! The end of a pane: reports the exit when all output has been read, and ends what is left of a closed pane.

use std::time::Duration;

use fugue_api::{Error, ErrorKind};
use fugue_core::{
    PaneEvent,
    pane_machine::{EndView, PaneExit},
};
use fugue_holder::{LogReader, spawn::ProcessExit};

use super::{Pane, launch};
use crate::reap;

impl Pane {
    /// The exit of the child, when all output has been read and no close is under way.
    pub(super) fn reportable_exit(&self) -> Option<PaneExit<ProcessExit>> {
        self.lifecycle.reportable_exit(EndView {
            offset: self.follower.terminal.offset().0,
            has_unread_output: self.has_unread_output,
            is_closing: self.context.record.closing,
            has_backend: !self.connection.is_gone(),
            is_reported: self.is_end_reported(),
        })
    }

    /// Whether the pane's end was reported, so that all output has been read.
    pub(super) fn is_end_reported(&self) -> bool {
        self.context.record.ended.is_some()
    }

    /// The printed bytes that are not in the output log. Bytes that are in the log and could not be read are not lost.
    fn lost_bytes(&self, output_end: u64) -> u64 {
        let read = self.follower.terminal.offset().0;
        if read >= output_end {
            return 0;
        }
        let log = LogReader::new(self.context.pane_dir().dir);
        output_end.saturating_sub(log.end_offset().unwrap_or(output_end).max(read))
    }

    /// Reports the end of the pane, and ends what is left of a closed one.
    pub(super) async fn end(&mut self, exit: PaneExit<ProcessExit>) {
        let lost = self.lost_bytes(exit.output_end);
        if lost > 0 {
            tracing::warn!(pane = %self.context.record.id, bytes = lost, "output not written and lost");
            self.context
                .emit(PaneEvent::OutputNotWritten { bytes: lost })
                .await;
        }
        let backend = self.backend.take();
        self.attempt = None;
        self.connection.on_gone();
        self.lifecycle.clear_close_deadline();
        self.probing.clear();
        let exit = launch::exit(exit.status);
        let cursor = self.cursor();
        let title = self.follower.terminal.title().to_owned();
        // Marks the end as reported; core stores the real record.
        self.context.record.ended = Some(fugue_core::PaneEnd {
            exit: exit.clone(),
            at: self.context.record.created_at.into(),
            closed: false,
            cursor: cursor.clone(),
            title: title.clone(),
            lost_by_reboot: self.lost_by_reboot,
        });
        for reason in std::mem::take(&mut self.probes).into_values() {
            self.answer_without_probe(reason);
        }
        for responder in self.resizes.on_pane_end() {
            responder.answer(Err(ended_meanwhile()));
        }
        self.end_inputs();
        self.end_expects().await;
        self.report_steps().await;
        let alone = self.alone;
        self.context
            .emit(PaneEvent::Ended {
                exit,
                cursor,
                title,
                alone,
                sweeps: self.context.record.closing,
                lost_by_reboot: self.lost_by_reboot,
            })
            .await;
        self.context.grow.send_modify(|offset| *offset += 1);
        if let Some(backend) = backend {
            backend.leave().await;
        }
        if self.context.record.closing {
            let (pane, dir, is_reaped) = (
                self.context.record.id,
                self.context.pane_dir().dir,
                self.lifecycle.is_reaped(),
            );
            let sweeps = move || {
                if is_reaped {
                    reap::view(&dir);
                } else {
                    reap::pane(pane, &dir, Duration::ZERO);
                }
            };
            if !is_reaped || self.context.record.tmux.is_some() {
                let _ = tokio::task::spawn_blocking(sweeps).await;
            }
            self.context.emit(PaneEvent::Swept).await;
        }
    }
}

pub(super) fn ended_meanwhile() -> Error {
    Error::new(ErrorKind::Ended, "the pane ended meanwhile")
}
