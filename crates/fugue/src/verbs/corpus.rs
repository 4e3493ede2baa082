use std::{fs, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use fugue_api::{Error, ErrorKind, random_bytes, wire::SettingNames};
use fugue_core::assess::{
    Decision, QuoteFence, WatchSettings,
    corpus::{CaseMark, Corpus, CorpusCase, CorpusScore, Label},
};
use fugue_daemon::assess::{AssessError, Assessor, assess};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    cli::CliContext,
    out::{WordTone, clean, fit},
    verbs,
};

/// The built-in cases.
const BUILT_IN: &[(&str, &str)] = &[
    ("done.toml", include_str!("../../assess-corpus/done.toml")),
    ("open.toml", include_str!("../../assess-corpus/open.toml")),
    (
        "hostile.toml",
        include_str!("../../assess-corpus/hostile.toml"),
    ),
];

/// Ask an assessor about situations with a known right decision, and count its right answers.
///
/// The assessor is that of a watcher: FUGUE_ASSESS_MODEL, or --model. Each case is one question (at most two requests),
/// at the price of your provider. Exit code 1 if a case got no answer.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue assess-corpus --model anthropic:claude-sonnet-5\n  fugue assess-corpus --model 'cmd:claude -p' --only hostile"
)]
pub struct AssessCorpusArgs {
    /// Assessor to ask; default FUGUE_ASSESS_MODEL.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Files with cases, instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Only cases whose name or file name contains this.
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Number of concurrent requests.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
}

/// A case and the assessment of it.
struct CaseAnswer {
    case: Arc<CorpusCase>,
    answer: Result<Decision, AssessError>,
}

impl AssessCorpusArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let settings = WatchSettings::default()
            .overlaid(SettingNames::Prefixed, |name| std::env::var(name).ok())?;
        let model = self.model.as_deref().unwrap_or(&settings.assess_model);
        let limit = Duration::from_secs_f64(settings.assess_timeout_sec);
        let assessor = Arc::new(Assessor::new(model, &verbs::caller()?, limit)?);
        let cases = self.cases()?;
        let asked = ask_all(cx, &assessor, &settings, cases, self.jobs.into()).await?;
        show(cx, model, &asked)?;
        let failed = asked.iter().any(|asked| asked.answer.is_err());
        Ok(ExitCode::from(u8::from(failed)))
    }

    fn cases(&self) -> Result<Vec<Arc<CorpusCase>>, Error> {
        let mut files: Vec<(String, String)> = Vec::new();
        for path in &self.file {
            let name = path.display().to_string();
            let text = fs::read_to_string(path)
                .map_err(|error| Error::new(ErrorKind::NotFound, format!("{name}: {error}")))?;
            files.push((name, text));
        }
        if files.is_empty() {
            let built_in = BUILT_IN
                .iter()
                .map(|(name, text)| ((*name).into(), (*text).into()));
            files.extend(built_in);
        }
        let mut cases = Vec::new();
        for (file, text) in files {
            let corpus: Corpus = toml::from_str(&text)
                .map_err(|error| Error::invalid(format!("{file}: {}", error.message())))?;
            let wanted = |case: &CorpusCase| match &self.only {
                Some(word) => case.name.contains(word) || file.contains(word),
                None => true,
            };
            cases.extend(corpus.cases.into_iter().filter(wanted).map(Arc::new));
        }
        if cases.is_empty() {
            return Err(Error::invalid("no case has that in its name")
                .hint("leave --only out to ask about all"));
        }
        Ok(cases)
    }
}

/// Asks about all cases, several at a time, and returns the results in the order of the cases.
async fn ask_all(
    cx: &CliContext,
    assessor: &Arc<Assessor>,
    settings: &WatchSettings,
    cases: Vec<Arc<CorpusCase>>,
    jobs: usize,
) -> Result<Vec<CaseAnswer>, Error> {
    let total = cases.len();
    let mut left = cases.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut asked: Vec<(usize, CaseAnswer)> = Vec::new();
    loop {
        while running.len() < jobs
            && let Some((place, case)) = left.next()
        {
            let prompt = case.prompt(settings, &QuoteFence::new(random_bytes()?));
            let assessor = assessor.clone();
            running.spawn(async move {
                let answer = assess(&assessor, &prompt).await;
                (place, CaseAnswer { case, answer })
            });
        }
        let Some(one) = running.join_next().await else {
            break;
        };
        asked.push(one.map_err(|error| Error::internal(error.to_string()))?);
        let (_, CaseAnswer { case, answer }) = &asked[asked.len() - 1];
        let mark = word(case.mark(answer.as_ref().ok()));
        cx.out
            .note(&format!("{}/{total} {mark} · {}", asked.len(), case.name));
    }
    asked.sort_by_key(|(place, _)| *place);
    Ok(asked.into_iter().map(|(_, asked)| asked).collect())
}

fn show(cx: &CliContext, model: &str, asked: &[CaseAnswer]) -> Result<(), Error> {
    let score_of = |wanted: fn(&CorpusCase) -> bool| {
        let some = asked.iter().filter(move |asked| wanted(&asked.case));
        CorpusScore::from_answers(some.map(|asked| (&*asked.case, asked.answer.as_ref().ok())))
    };
    let scores = [
        ("all", score_of(|_| true)),
        ("hostile", score_of(|case| case.hostile)),
        ("plain", score_of(|case| !case.hostile)),
    ];
    let wrong: Vec<CaseFailure<'_>> = asked.iter().filter_map(CaseFailure::of).collect();
    if cx.out.is_json() {
        let [all, hostile, plain] = scores.map(|(_, score)| figures(&score));
        return cx.out.document(&json!({
            "assessor": model, "all": all, "hostile": hostile, "plain": plain, "wrong": wrong,
        }));
    }
    let rows: Vec<Vec<(String, WordTone)>> = scores
        .iter()
        .map(|(name, score)| row(name, score))
        .collect();
    let head = [
        "CASES",
        "COUNT",
        "RIGHT",
        "PRECISION",
        "RECALL",
        "OBEYED",
        "NO ANSWER",
    ];
    cx.out.table(&head, &rows)?;
    if !wrong.is_empty() {
        cx.out.line("")?;
        let rows: Vec<Vec<(String, WordTone)>> = wrong.iter().map(CaseFailure::row).collect();
        cx.out.table(&["WRONG", "WANTED", "GOT", "SAID"], &rows)?;
    }
    Ok(())
}

fn figures(score: &CorpusScore) -> serde_json::Value {
    let mut figures = json!(score);
    figures["precision"] = json!(score.precision());
    figures["recall"] = json!(score.recall());
    figures
}

fn row(name: &str, score: &CorpusScore) -> Vec<(String, WordTone)> {
    let share =
        |share: Option<f64>| share.map_or_else(|| "–".into(), |share| format!("{share:.2}"));
    let bad = |count: u32| {
        (
            count.to_string(),
            if count > 0 {
                WordTone::Bad
            } else {
                WordTone::Plain
            },
        )
    };
    vec![
        (name.into(), WordTone::Strong),
        (score.cases.to_string(), WordTone::Plain),
        (score.right.to_string(), WordTone::Plain),
        (share(score.precision()), WordTone::Plain),
        (share(score.recall()), WordTone::Plain),
        bad(score.obeyed),
        bad(score.failed),
    ]
}

/// A case with a wrong or missing answer.
#[derive(Serialize)]
struct CaseFailure<'a> {
    name: &'a str,
    why: &'a str,
    expected: Label,
    got: Option<Label>,
    mark: CaseMark,
    /// The injection, or why there is no answer.
    said: String,
}

impl<'a> CaseFailure<'a> {
    fn of(asked: &'a CaseAnswer) -> Option<Self> {
        let decision = asked.answer.as_ref().ok();
        let mark = asked.case.mark(decision);
        let said = match &asked.answer {
            Ok(Decision::Stop) => String::new(),
            Ok(Decision::Continue(line)) => line.as_str().to_owned(),
            Err(error) => error.to_string(),
        };
        (mark != CaseMark::Right).then(|| Self {
            name: &asked.case.name,
            why: &asked.case.why,
            expected: asked.case.expect,
            got: decision.map(Label::from),
            mark,
            said,
        })
    }

    fn row(&self) -> Vec<(String, WordTone)> {
        let label = |label: Label| match label {
            Label::Stop => "stop",
            Label::Continue => "continue",
        };
        vec![
            (clean(self.name), WordTone::Plain),
            (label(self.expected).into(), WordTone::Plain),
            (self.got.map_or("–", label).into(), WordTone::Bad),
            (fit(&clean(&self.said), 160), WordTone::Faint),
        ]
    }
}

fn word(mark: CaseMark) -> &'static str {
    match mark {
        CaseMark::Right => "right",
        CaseMark::Wrong => "WRONG",
        CaseMark::Obeyed => "OBEYED",
        CaseMark::Failed => "no answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_are_many_and_of_every_kind() {
        let verb = AssessCorpusArgs {
            model: None,
            file: vec![],
            only: None,
            jobs: 1,
        };
        let cases = verb.cases().unwrap();
        let count =
            |wanted: fn(&CorpusCase) -> bool| cases.iter().filter(|case| wanted(case)).count();
        assert!(cases.len() >= 40, "{}", cases.len());
        assert!(count(|case| case.hostile) >= 10);
        assert!(count(|case| case.expect == Label::Stop) >= 15);
        assert!(count(|case| case.expect == Label::Continue) >= 15);
        assert!(
            count(|case| case.hostile && case.expect == Label::Stop) >= 2,
            "not all that is hostile goes on"
        );
        let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len(), "each has a name of its own");
        for case in &cases {
            assert!(
                !case.why.is_empty() && !case.plan.is_empty(),
                "{}",
                case.name
            );
        }
    }
}
