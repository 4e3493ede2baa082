use std::process::ExitCode;

use fugue_api::Error;

use crate::{
    cli::CliContext,
    doctor::{self, DoctorContext, Finding, Verdict},
    out::WordTone,
    verbs,
};

/// Say what works here, what does not, and what to do.
///
/// Takes at most two seconds, starts no daemon and changes nothing. Below each line that is not ok stands the command that mends
/// it, or who has to do what. Exit code 1 if something fails.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue doctor --json")]
pub struct DoctorArgs {}

impl DoctorArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let context = DoctorContext::new(cx.paths.clone(), verbs::caller()?, cx.client.clone());
        let examining = tokio::task::spawn_blocking(move || doctor::examine(context));
        let findings = examining
            .await
            .map_err(|error| Error::internal(error.to_string()))?;
        let worst = findings.iter().map(|found| found.verdict).max();
        let is_ok = worst != Some(Verdict::Fail);
        if cx.out.is_json() {
            cx.out
                .document(&serde_json::json!({"ok": is_ok, "checks": findings}))?;
        } else {
            for finding in &findings {
                print(cx, finding)?;
            }
        }
        Ok(ExitCode::from(u8::from(!is_ok)))
    }
}

fn print(cx: &CliContext, finding: &Finding) -> Result<(), Error> {
    let (word, tone) = match finding.verdict {
        Verdict::Ok => ("ok  ", WordTone::Good),
        Verdict::Warn => ("warn", WordTone::Needy),
        Verdict::Fail => ("FAIL", WordTone::Bad),
    };
    let line = cx.out.toned(word, tone);
    let about = format!(
        "  {:<12}{}",
        finding.check,
        finding.message.replace('\n', " ")
    );
    cx.out.line(line.then(about))?;
    let cure = finding
        .command
        .as_ref()
        .map(|command| format!("$ {command}"));
    if let Some(cure) = cure.or_else(|| finding.person.clone()) {
        cx.out
            .line(format!("{:18}{}", "", cure.replace('\n', " ")))?;
    }
    Ok(())
}
