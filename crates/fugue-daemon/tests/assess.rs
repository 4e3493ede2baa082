//! Assessors, asked for real: models behind a server on loopback, and commands.

use std::{
    ffi::OsString,
    fs,
    future::Future,
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use fugue_api::{Timestamp, wire::CallerEnv};
use fugue_core::assess::{
    Decision, EntryRole, ModelAnswer, NextStepAnswer, Prompt, QuoteFence, Situation, Transcript,
    WatchSettings,
};
use fugue_daemon::assess::{AssessError, Assessor, assess};
use fugue_testkit::{
    ProcessRef,
    assessor_server::{AssessorReply, AssessorServer},
    until, until_some,
};

const STOP: &str = r#"{"action": "stop", "injection_prompt": null}"#;
const KEY: &str = "sk-0123456789-secret";
/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn caller(cwd: &Path, vars: &[(&str, &str)]) -> CallerEnv {
    let text = |text: &str| OsString::from(text).into();
    let path = std::env::var("PATH").expect("PATH is set");
    let vars = vars.iter().copied().chain([("PATH", path.as_str())]);
    CallerEnv {
        cwd: cwd.as_os_str().into(),
        env: vars
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        umask: 0o022,
        setting_names: fugue_api::wire::SettingNames::Prefixed,
    }
}

fn openai(server: &AssessorServer, limit: Duration) -> Assessor {
    let caller = caller(
        Path::new("/"),
        &[
            ("OPENAI_BASE_URL", &format!("{}/v1", server.url())),
            ("OPENAI_API_KEY", KEY),
        ],
    );
    Assessor::new("openai:gpt-4o", &caller, limit).expect("it can be asked")
}

fn command(line: &str, cwd: &Path, limit: Duration) -> Assessor {
    Assessor::new(&format!("cmd:{line}"), &caller(cwd, &[]), limit).expect("it can be asked")
}

fn situation<T>(question: impl Fn(&Situation<'_>, &QuoteFence) -> T) -> T {
    let mut transcript = Transcript::default();
    transcript.push(EntryRole::Status, "the parser is fixed", Timestamp(0), 200);
    let situation = Situation {
        plan: "make the tests pass",
        transcript: &transcript,
        wait_output: None,
        pane_tail: "test result: ok",
        tail_lines: WatchSettings::default().tail_lines,
        verdict: None,
        now: Timestamp(0),
    };
    question(&situation, &QuoteFence::new([7; 16]))
}

fn prompt() -> Prompt {
    situation(|situation, fence| situation.assess(fence))
}

fn words(words: &str) -> AssessorReply {
    AssessorReply::Text(words.into())
}

fn typed(line: &str) -> String {
    serde_json::json!({"action": "continue", "injection_prompt": line}).to_string()
}

/// What is decided, as text: `stop`, the line to type, or the error.
fn shown(answer: Result<Decision, AssessError>) -> String {
    match answer {
        Ok(Decision::Stop) => "stop".into(),
        Ok(Decision::Continue(line)) => line.as_str().into(),
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains(KEY), "no error shows the key");
            assert!(
                error.chars().count() < 500 && !error.contains('\n'),
                "{error}"
            );
            error
        }
    }
}

/// Asks a server that says these things, and returns what came of it and how often it was asked.
async fn ask(script: &[AssessorReply], limit: Duration) -> (String, usize) {
    let server = AssessorServer::start(script.to_vec());
    let answer = assess(&openai(&server, limit), &prompt()).await;
    (shown(answer), server.requests().len())
}

async fn check(script: &[AssessorReply], expected: &str, times: usize) {
    let (got, asked) = ask(script, LONG).await;
    assert_eq!((got.as_str(), asked), (expected, times), "{script:?}");
}

/// Lets a question run until something is so, and then drops it in the middle.
async fn drop_when<T: std::fmt::Debug>(
    question: impl Future<Output = T>,
    is_so: impl FnOnce() + Send + 'static,
) {
    tokio::select! {
        answer = question => panic!("answered: {answer:?}"),
        waited = tokio::task::spawn_blocking(is_so) => waited.expect("it is so"),
    }
}

#[tokio::test]
async fn a_server_that_is_named_by_its_url_gets_only_the_key_for_it() {
    const ITS_OWN: &str = "key-for-the-url";
    for (own, sent) in [
        (None, None),
        (Some(ITS_OWN), Some(format!("Bearer {ITS_OWN}"))),
    ] {
        let server = AssessorServer::start(vec![words(STOP)]);
        let mut vars = vec![
            ("OPENAI_API_KEY", KEY),
            ("ANTHROPIC_API_KEY", KEY),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ];
        vars.extend(own.map(|key| ("FUGUE_ASSESS_API_KEY", key)));
        let caller = caller(Path::new("/"), &vars);
        let choice = format!("{}/v1#m", server.url());
        let assessor = Assessor::new(&choice, &caller, LONG).expect("it can be asked");
        let answer = assess(&assessor, &prompt()).await;
        assert_eq!(shown(answer), "stop");
        let asked = server.requests();
        assert_eq!(asked[0].headers.get("authorization"), sent.as_ref());
    }
}

#[tokio::test]
async fn every_api_gets_the_prompt_the_schema_and_the_key() {
    let schema = Decision::schema();
    for (choice, base, key_name, path, auth, at_schema, at_system, at_user) in [
        (
            "openai:m",
            "OPENAI_BASE_URL",
            "OPENAI_API_KEY",
            "/chat/completions",
            ("authorization", format!("Bearer {KEY}")),
            "/response_format/json_schema/schema",
            "/messages/0/content",
            "/messages/1/content",
        ),
        (
            "anthropic:m",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            "/v1/messages",
            ("x-api-key", KEY.into()),
            "/output_config/format/schema",
            "/system",
            "/messages/0/content",
        ),
        (
            "gemini:m",
            "GEMINI_BASE_URL",
            "GEMINI_API_KEY",
            "/v1beta/models/m:generateContent",
            ("x-goog-api-key", KEY.into()),
            "/generationConfig/responseJsonSchema",
            "/systemInstruction/parts/0/text",
            "/contents/0/parts/0/text",
        ),
        (
            "ollama:m",
            "OLLAMA_HOST",
            "",
            "/api/chat",
            ("host", String::new()),
            "/format",
            "/messages/0/content",
            "/messages/1/content",
        ),
    ] {
        let server = AssessorServer::start(vec![words(STOP)]);
        let caller = caller(Path::new("/"), &[(base, &server.url()), (key_name, KEY)]);
        let assessor = Assessor::new(choice, &caller, LONG).unwrap();
        let prompt = prompt();
        assert_eq!(
            assess(&assessor, &prompt).await,
            Ok(Decision::Stop),
            "{choice}"
        );
        let asked = server.requests();
        let [request] = &asked[..] else {
            panic!("asked once")
        };
        assert_eq!(request.path, path);
        assert_eq!(request.body.pointer(at_schema), Some(&schema), "{choice}");
        assert_eq!(request.body.pointer(at_system).unwrap(), &prompt.system);
        assert_eq!(request.body.pointer(at_user).unwrap(), &prompt.user);
        let (header, value) = auth;
        assert!(request.headers[header].contains(&value), "{choice}");
        if key_name.is_empty() {
            assert!(
                !format!("{request:?}").contains(KEY),
                "{choice} wants no key"
            );
        }
    }
}

#[tokio::test]
async fn a_server_by_its_url_is_asked_without_a_key_if_there_is_none() {
    let server = AssessorServer::start(vec![words(&typed("go on"))]);
    let choice = format!("{}/v1#org/model", server.url());
    let assessor = Assessor::new(&choice, &caller(Path::new("/"), &[]), LONG).unwrap();
    assert_eq!(shown(assess(&assessor, &prompt()).await), "go on");
    let request = &server.requests()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.body["model"], "org/model");
    assert!(!request.headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_next_step_is_asked_for_with_its_own_schema() {
    let server = AssessorServer::start(vec![words(
        r#"{"injection_prompt": "push", "achieved": false}"#,
    )]);
    let prompt: Prompt<NextStepAnswer> = situation(|situation, fence| situation.next_step(fence));
    let step = assess(&openai(&server, LONG), &prompt).await.unwrap();
    assert_eq!(step.injection_prompt.unwrap().as_str(), "push");
    let body = &server.requests()[0].body;
    assert_eq!(
        body["response_format"]["json_schema"]["schema"],
        NextStepAnswer::schema()
    );
}

#[tokio::test]
async fn a_good_answer_is_taken_at_once() {
    check(&[words(STOP)], "stop", 1).await;
    check(&[words(&typed("run cargo test"))], "run cargo test", 1).await;
}

#[tokio::test]
async fn nonsense_is_sent_back_once_with_what_is_wrong() {
    let server = AssessorServer::start(vec![words("I would say: stop."), words(STOP)]);
    let answer = assess(&openai(&server, LONG), &prompt()).await;
    assert_eq!(shown(answer), "stop");
    let asked = server.requests();
    assert_eq!(asked.len(), 2);
    let second = asked[1].body["messages"][1]["content"].as_str().unwrap();
    assert!(
        second.contains("could not be used: wanted one JSON object"),
        "{second}"
    );
    assert!(second.contains("| I would say: stop."), "{second}");
}

#[tokio::test]
async fn nonsense_twice_is_an_error() {
    let twice = "the assessor answered twice what cannot be used: ";
    for (said, why) in [
        (
            "certainly",
            "wanted one JSON object, got `certainly`".to_owned(),
        ),
        ("", "wanted one JSON object, got nothing".into()),
        (
            &typed(&"x".repeat(300)),
            "injection_prompt: wanted at most 160 characters, got 300".into(),
        ),
        (
            &typed("a\u{1b}[2Jb"),
            "injection_prompt: wanted visible characters only, got U+001B".into(),
        ),
        (
            &typed("a\u{3}"),
            "injection_prompt: wanted visible characters only, got U+0003".into(),
        ),
        (
            &typed("y\nrm -rf ."),
            "injection_prompt: wanted one line, got several".into(),
        ),
    ] {
        check(&[words(said)], &format!("{twice}{why}"), 2).await;
    }
}

#[tokio::test]
async fn a_line_that_does_not_fit_may_be_mended_by_the_one_who_wrote_it() {
    check(
        &[words(&typed(&"x".repeat(300))), words(&typed("shorter"))],
        "shorter",
        2,
    )
    .await;
}

#[tokio::test]
async fn a_server_that_stumbles_is_asked_once_more() {
    let stumble = AssessorReply::Error(500, "overloaded".into());
    check(&[stumble.clone(), words(STOP)], "stop", 2).await;
    check(&[stumble], "the assessor answered 500: overloaded", 2).await;
    check(&[AssessorReply::HangUp, words(STOP)], "stop", 2).await;
    check(
        &[AssessorReply::Body("<html>".into()), words(STOP)],
        "stop",
        2,
    )
    .await;
    let strange = "the provider's response has not the format of its API: ";
    check(
        &[AssessorReply::Body("{}".into())],
        &format!("{strange}{{}}"),
        2,
    )
    .await;
    check(
        &[AssessorReply::Flood],
        &format!("{strange}more than 1048576 bytes"),
        2,
    )
    .await;
}

#[tokio::test]
async fn a_refusal_is_passed_on_without_the_key() {
    let refusal = AssessorReply::Error(401, format!("Incorrect API key provided: {KEY}"));
    check(
        &[refusal],
        "the assessor answered 401: Incorrect API key provided: (key)",
        1,
    )
    .await;
    let (got, asked) = ask(
        &[AssessorReply::Error(429, "slow\x1b[1m\ndown ".repeat(100))],
        LONG,
    )
    .await;
    assert!(
        got.starts_with("the assessor answered 429: slow down slow"),
        "{got}"
    );
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn where_nobody_listens_is_said() {
    let server = AssessorServer::start(vec![words(STOP)]);
    let assessor = openai(&server, LONG);
    let url = server.url();
    drop(server);
    // The listener goes once it has seen that it is over.
    let address = url.trim_start_matches("http://").to_owned();
    until("the port is free", LONG, || {
        TcpStream::connect(&address).is_err()
    });
    let said = shown(assess(&assessor, &prompt()).await);
    assert!(
        said.starts_with("the assessor cannot be reached: 127.0.0.1:"),
        "{said}"
    );
}

#[tokio::test]
async fn silence_ends_at_the_limit_and_with_it_the_connection() {
    let server = AssessorServer::start(vec![AssessorReply::Silence]);
    let answer = assess(&openai(&server, Duration::from_millis(300)), &prompt()).await;
    assert_eq!(shown(answer), "the assessor gave no answer within 0.3 s");
    server.wait_for_disconnects(1, LONG);
}

#[tokio::test]
async fn a_dropped_question_leaves_no_connection() {
    let server = Arc::new(AssessorServer::start(vec![AssessorReply::Silence]));
    let (assessor, prompt, asked) = (openai(&server, LONG), prompt(), server.clone());
    drop_when(assess(&assessor, &prompt), move || {
        asked.wait_for_requests(1, LONG)
    })
    .await;
    server.wait_for_disconnects(1, LONG);
}

/// A server that speaks TLS, under a root that no system has. It ends when its stdin is closed.
struct Tls {
    child: Child,
    port: u16,
}

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

impl Tls {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts it as a shell would"
    )]
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args([format!("{TLS}/server.py"), format!("{TLS}/server.pem")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its stdout");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its port");
        let port = line.trim().parse().expect("a port");
        Self { child, port }
    }

    async fn ask(&self, host: &str, roots: &str) -> String {
        let choice = format!("https://{host}:{}/v1#m", self.port);
        self.ask_with(&choice, &[("SSL_CERT_FILE", roots)]).await
    }

    async fn ask_with(&self, choice: &str, vars: &[(&str, &str)]) -> String {
        let caller = caller(Path::new("/"), vars);
        let assessor = Assessor::new(choice, &caller, LONG).expect("it can be asked");
        shown(assess(&assessor, &prompt()).await)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_the_callers_roots() {
    let server = Tls::start();
    let ours = format!("{TLS}/ca.pem");
    assert_eq!(server.ask("127.0.0.1", &ours).await, "stop");
    assert_eq!(server.ask("localhost", &ours).await, "stop");
    // A server's own certificate is no root.
    let said = server.ask("127.0.0.1", &format!("{TLS}/server.pem")).await;
    assert!(said.contains("certificate"), "{said}");
    let said = server.ask("127.0.0.1", "/no/such/file").await;
    assert!(said.contains("no trusted certificates"), "{said}");
}

/// A proxy that lets one client through to `port`, whatever host it asks for, and says what it was asked.
fn proxy(port: u16) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let serving = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(client.try_clone().expect("its other half"));
        let (mut asked, mut line) = (String::new(), String::new());
        reader.read_line(&mut asked).expect("a request");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("a header");
        }
        let mut server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("a yes");
        let mut back = server.try_clone().expect("its other half");
        let mut down = client.try_clone().expect("its other half");
        thread::spawn(move || io::copy(&mut back, &mut down));
        // Ends when the client goes.
        let _ = io::copy(&mut reader, &mut server);
        asked
    });
    (url, serving)
}

#[tokio::test]
async fn a_far_server_is_asked_through_the_callers_proxy() {
    let server = Tls::start();
    let (url, serving) = proxy(server.port);
    let roots = format!("{TLS}/ca.pem");
    let vars = [("SSL_CERT_FILE", roots.as_str()), ("HTTPS_PROXY", &url)];
    let said = server
        .ask_with("https://assessor.example/v1#m", &vars)
        .await;
    assert_eq!(said, "stop");
    assert_eq!(
        serving.join().unwrap(),
        "CONNECT assessor.example:443 HTTP/1.1\r\n"
    );
}

async fn run(line: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    shown(assess(&command(line, dir.path(), LONG), &prompt()).await)
}

#[tokio::test]
async fn a_command_gets_the_prompt_and_its_json_is_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("cat >prompt; echo thinking… >&2; echo '{STOP}'");
    let answer = assess(&command(&line, dir.path(), LONG), &prompt()).await;
    assert_eq!(answer, Ok(Decision::Stop));
    let given = fs::read_to_string(dir.path().join("prompt")).unwrap();
    assert_eq!(given, prompt().text());
    // One that does not read is as good.
    assert_eq!(run(&format!("echo '{STOP}'")).await, "stop");
    assert_eq!(
        run(&format!(
            "exec <&-; echo '```json'; echo '{STOP}'; echo '```'"
        ))
        .await,
        "stop"
    );
}

#[tokio::test]
async fn a_command_runs_in_the_callers_world() {
    let dir = tempfile::tempdir().unwrap();
    let caller = caller(dir.path(), &[("LINE", "type this")]);
    let line = r#"cmd:printf '{"action": "continue", "injection_prompt": "%s in %s %s"}' "$LINE" "$(basename "$PWD")" "${HOME-nowhere}""#;
    let assessor = Assessor::new(line, &caller, LONG).unwrap();
    let name = dir.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(
        shown(assess(&assessor, &prompt()).await),
        format!("type this in {name} nowhere")
    );
}

#[tokio::test]
async fn a_command_that_fails_is_an_error_with_its_last_words() {
    for (line, said) in [
        ("echo no login >&2; exit 3", "ended with code 3: no login"),
        ("echo on stdout; false", "ended with code 1: on stdout"),
        ("exit 5", "ended with code 5: it said nothing (`exit 5`)"),
        (
            "kill -9 $$",
            "was ended by signal 9: it said nothing (`kill -9 $$`)",
        ),
        ("yes", "printed without end: more than 65536 bytes"),
        (
            "no-such-program-here",
            "ended with code 127: bash: line 1: no-such-program-here: command not found",
        ),
    ] {
        assert_eq!(
            run(line).await,
            format!("the assessor's command {said}"),
            "{line}"
        );
    }
    let caller = caller(Path::new("/"), &[("MY_API_KEY", KEY)]);
    let line = "cmd:echo \"bad key $MY_API_KEY\" >&2; exit 1";
    let telltale = Assessor::new(line, &caller, LONG).unwrap();
    let said = shown(assess(&telltale, &prompt()).await);
    assert!(said.ends_with("ended with code 1: bad key (key)"), "{said}");
    let gone = command("true", Path::new("/no/such/dir"), LONG);
    let said = shown(assess(&gone, &prompt()).await);
    assert!(
        said.starts_with("the assessor's command could not be started: cwd /no/such/dir"),
        "{said}"
    );
}

#[tokio::test]
async fn a_command_that_talks_nonsense_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("grep -q 'could not be used' && echo '{STOP}' || echo hm");
    let answer = assess(&command(&line, dir.path(), LONG), &prompt()).await;
    assert_eq!(answer, Ok(Decision::Stop));
}

#[tokio::test]
async fn much_on_stderr_does_not_stop_a_command() {
    let line = format!("head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; echo '{STOP}'");
    assert_eq!(run(&line).await, "stop");
}

/// A command with a child in its group, one in a session of its own, and one that ignores signals.
const FAMILY: &str = "echo $$ >> pids; sleep 1000 & echo $! >> pids; setsid -f sh -c 'echo $$ >> pids; exec sleep 1001'
    (trap '' HUP TERM INT; echo $BASHPID >> pids; touch ready; exec sleep 1002) & ";

fn family(dir: &Path) -> Vec<ProcessRef> {
    until_some("the whole family runs", LONG, || {
        let pids = fs::read_to_string(dir.join("pids")).ok()?;
        let processes: Vec<ProcessRef> = pids
            .lines()
            .filter_map(|pid| ProcessRef::find(pid.parse().ok()?))
            .collect();
        (processes.len() == 4 && dir.join("ready").exists()).then_some(processes)
    })
}

fn gone(family: &[ProcessRef]) {
    for process in family {
        until("nothing is left", LONG, || !process.is_alive());
    }
}

#[tokio::test]
async fn a_dropped_question_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let assessor = command(&format!("{FAMILY} wait"), dir.path(), LONG);
    let (prompt, path) = (prompt(), dir.path().to_owned());
    let (tell, told) = std::sync::mpsc::channel();
    let running = move || tell.send(family(&path)).unwrap();
    drop_when(assess(&assessor, &prompt), running).await;
    let family = told.recv().unwrap();
    tokio::task::spawn_blocking(move || gone(&family))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_whole() {
    let dir = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(2);
    let assessor = command(&format!("{FAMILY} wait"), dir.path(), limit);
    let answer = assess(&assessor, &prompt()).await;
    assert_eq!(shown(answer), "the assessor gave no answer within 2 s");
    // On a busy machine not all of them may have come into being; those that did are gone.
    let pids = fs::read_to_string(dir.path().join("pids")).unwrap_or_default();
    let gone = move || {
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
            until("nothing is left", LONG, || ProcessRef::find(pid).is_none());
        }
    };
    tokio::task::spawn_blocking(gone).await.unwrap();
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_too() {
    let dir = tempfile::tempdir().unwrap();
    // It waits until all are there, and answers while they run and hold its stdout.
    let line = format!(
        "{FAMILY} until [ -e ready ] && [ $(wc -l < pids) = 4 ]; do :; done; cp pids before; echo '{STOP}'"
    );
    let answer = assess(&command(&line, dir.path(), LONG), &prompt()).await;
    assert_eq!(answer, Ok(Decision::Stop));
    let pids = fs::read_to_string(dir.path().join("before")).unwrap();
    for pid in pids.lines() {
        assert_eq!(
            ProcessRef::find(pid.parse().unwrap()),
            None,
            "nothing is left at the answer"
        );
    }
}
