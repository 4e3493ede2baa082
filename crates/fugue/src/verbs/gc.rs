use std::process::ExitCode;

use fugue_api::{
    Error,
    wire::{ForgetReason, GarbageItem, GarbageKind, GarbageReport, Request, Response},
};

use crate::{
    cli::CliContext,
    out::{WordTone, format_size},
};

/// Remove logs and directories that are no longer needed.
///
/// Ended panes beyond the limits of age, count and quota, directories of panes and workers without a record, and damaged
/// databases that were set aside. Running panes and unfinished runs are not affected.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  fugue gc --dry-run\n  fugue gc --ended")]
pub struct GcArgs {
    /// List what would be removed, without removing it.
    #[arg(long)]
    dry_run: bool,
    /// Forget all ended panes that no run needs, with their output.
    #[arg(long)]
    ended: bool,
}

impl GcArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let ask = Request::CollectGarbage {
            dry_run: self.dry_run,
            all_ended: self.ended,
        };
        let collected = match cx.client.ask(ask).await? {
            Response::Garbage { collected } => collected,
            other => return Err(Error::unexpected(&other)),
        };
        if cx.out.is_json() {
            cx.out.document(&collected)?;
        } else {
            show(cx, &collected)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(cx: &CliContext, collected: &GarbageReport) -> Result<(), Error> {
    let rows: Vec<Vec<(String, WordTone)>> = collected.items.iter().map(row).collect();
    if !rows.is_empty() {
        cx.out.table(&["PATH", "SIZE", "WHY"], &rows)?;
    }
    let verb = if collected.dry_run {
        "would free"
    } else {
        "freed"
    };
    cx.out.note(&format!(
        "{verb} {}; {} are free on the disk",
        format_size(collected.freed_bytes),
        format_size(collected.free_disk_bytes)
    ));
    Ok(())
}

fn row(item: &GarbageItem) -> Vec<(String, WordTone)> {
    let why = match (item.kind, item.reason) {
        (GarbageKind::EndedPane, Some(ForgetReason::Age)) => "ended pane, by age",
        (GarbageKind::EndedPane, Some(ForgetReason::Count)) => "ended pane, by count",
        (GarbageKind::EndedPane, Some(ForgetReason::Quota)) => "ended pane, by quota",
        (GarbageKind::EndedPane, Some(ForgetReason::Asked) | None) => "ended pane",
        (GarbageKind::StrayPane, _) => "pane without a record",
        (GarbageKind::StrayWorker, _) => "worker without a record",
        (GarbageKind::Worktree, _) => "worktree of an ended worker, merged or without work",
        (GarbageKind::DamagedDatabase, _) => "damaged database",
    };
    let (why, tone) = match &item.kept {
        Some(kept) => (format!("{why}; kept: {kept}"), WordTone::Needy),
        None => (why.to_owned(), WordTone::Plain),
    };
    vec![
        (item.path.clone(), WordTone::Plain),
        (format_size(item.bytes), WordTone::Plain),
        (why, tone),
    ]
}
