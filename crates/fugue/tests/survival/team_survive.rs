//! Twenty publishers and twenty waiters while waits are cancelled, clients are killed between a reply and its ack, and
//! daemons are killed. Every participant records what happened, and a checker compares the records at the end.
//!
//! `FUGUE_EVENTS` sets how many events there are (5,000) and `FUGUE_KILLS` how many daemons die (10; the soak of
//! `scripts/test --soak` has many more of both), and `FUGUE_SEED` repeats a run's choices.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::{Child, ChildStdout, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fugue_api::{
    EventId, OsText, ToolCall, ToolReply,
    inbox_event::InboxEvent,
    tools::WaitOutcome,
    wire::{
        CallerEnv, CallerIdentity, ClientMessage, DaemonMessage, Hello, IdempotencyKey, PROTOCOL,
        Request, Response, Welcome,
    },
};
use fugue_testkit::{SeededRng, TestEnv, report_metric, until, until_some};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const PUBLISHERS: u64 = 20;
/// Inboxes with one waiter each, where the order is exact.
const ALONE: u64 = 8;
/// Inboxes with four waiters each, which share the events.
const SHARED: u64 = 2;
/// And one whose four waiters come by `fugue mcp`, and are killed.
const BRIDGED: u64 = ALONE + SHARED;
const INBOXES: u64 = BRIDGED + 1;
const SHARING: u64 = 4;
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number"))
    })
}

/// What everybody writes down.
struct Book {
    events: u64,
    /// By publisher and number: the event that it became.
    published: Mutex<BTreeMap<(u64, u64), EventId>>,
    deliveries: Mutex<Vec<Delivery>>,
    daemon_deaths: Mutex<Vec<Death>>,
    /// By the number of the bridge.
    bridge_deaths: Mutex<BTreeMap<u64, Death>>,
    bridges: AtomicU64,
    /// Whose reply has certainly arrived.
    arrived: Mutex<BTreeSet<EventId>>,
    cancels: AtomicU64,
    dropped: AtomicU64,
    over: AtomicBool,
}

/// Something was killed between these two moments. A killer that is not let run again at once knows no better.
#[derive(Clone, Copy, Debug)]
struct Death {
    after: Instant,
    before: Instant,
}

impl Death {
    fn is_between(&self, one: Instant, other: Instant) -> bool {
        one < self.before && self.after < other
    }
}

/// One event that reached one client.
#[derive(Clone, Debug)]
struct Delivery {
    inbox: u64,
    event: EventId,
    /// Publisher and number.
    body: (u64, u64),
    asked: Instant,
    answered: Instant,
    end: End,
}

/// What the client did with it.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It said that it has it, and heard that this is on record.
    Acknowledged(Instant),
    /// It went away or called the wait off, with the reply in its hand.
    GivenBack,
    /// This bridge had written the reply; when that is on record nobody outside knows.
    Written { bridge: u64 },
}

impl Book {
    fn delivered(&self, delivery: Delivery) {
        if !matches!(delivery.end, End::GivenBack) {
            let mut arrived = self.arrived.lock().expect("nobody panics with it");
            arrived.insert(delivery.event);
            let all = arrived.len() as u64 >= self.events;
            self.over.fetch_or(all, Ordering::SeqCst);
        }
        self.deliveries
            .lock()
            .expect("nobody panics with it")
            .push(delivery);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

/// A connection to the daemon's socket, as bare as a checker wants it.
struct Line {
    stream: UnixStream,
    next: u64,
}

struct Heard {
    answer: Result<Response, fugue_api::Error>,
    takes: Option<EventId>,
}

impl Line {
    /// Tries until a daemon is there.
    fn open(test_env: &TestEnv, session: &str) -> Self {
        until_some("a daemon takes the connection", WAIT_TIMEOUT, || {
            Self::try_open(test_env, session).ok()
        })
    }

    fn try_open(test_env: &TestEnv, session: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(test_env.state().join("daemon.sock"))?;
        let mut line = Self { stream, next: 1 };
        line.say(&Hello {
            protocol: PROTOCOL,
            caller: CallerEnv {
                cwd: OsText::Text("/".into()),
                env: Vec::new(),
                umask: 0o22,
                setting_names: fugue_api::wire::SettingNames::Prefixed,
            },
            who: CallerIdentity::Session { id: session.into() },
        })?;
        line.hear::<Welcome>(None)?;
        Ok(line)
    }

    fn say(&mut self, frame: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_vec(frame)?;
        let mut bytes = u32::try_from(json.len())
            .expect("short")
            .to_le_bytes()
            .to_vec();
        bytes.extend(json);
        self.stream.write_all(&bytes)
    }

    /// The next frame; `None` if none begins in time.
    fn hear<T: DeserializeOwned>(&mut self, limit: Option<Duration>) -> io::Result<Option<T>> {
        let mut length = [0; 4];
        self.stream.set_read_timeout(limit)?;
        match self.stream.read(&mut length[..1]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        self.stream.set_read_timeout(None)?;
        self.stream.read_exact(&mut length[1..])?;
        let mut json = vec![0; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut json)?;
        Ok(Some(serde_json::from_slice(&json)?))
    }

    fn call(&mut self, key: IdempotencyKey, request: Request) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        let who = None;
        self.say(&ClientMessage::Call {
            id,
            key,
            who,
            request,
        })?;
        Ok(id)
    }

    /// Waits for the answer to one call; those to calls that were called off are passed over.
    fn answer(&mut self, wanted: u64, limit: Option<Duration>) -> io::Result<Option<Heard>> {
        loop {
            match self.hear::<DaemonMessage>(limit)? {
                None => return Ok(None),
                Some(DaemonMessage::Response {
                    id,
                    response,
                    leased_event,
                }) if id == wanted => {
                    return Ok(Some(Heard {
                        answer: response,
                        takes: leased_event,
                    }));
                }
                Some(_) => {}
            }
        }
    }

    fn ask(&mut self, key: IdempotencyKey, ask: Request) -> io::Result<Heard> {
        let id = self.call(key, ask)?;
        let heard = self.answer(id, None)?;
        heard.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

fn key(who: u64, what: u64) -> IdempotencyKey {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&who.to_le_bytes());
    key[8..].copy_from_slice(&what.to_le_bytes());
    IdempotencyKey(key)
}

fn tool(name: &str, args: Value) -> Request {
    let call = ToolCall::parse(name, args).expect("a good request");
    Request::Tool { call }
}

fn inbox(number: u64) -> String {
    format!("inbox-{number}")
}

/// Publishes its share one after the other, each until a daemon says that it is on record.
fn publish(test_env: &TestEnv, book: &Book, publisher: u64) {
    let session = format!("publisher-{publisher}");
    let to = inbox(publisher % INBOXES);
    let share = book.events / PUBLISHERS + u64::from(publisher < book.events % PUBLISHERS);
    let mut line = Line::open(test_env, &session);
    for number in 0..share {
        let args = json!({"session_id": to, "worker_id": session, "status": "success",
            "changes": [], "message": format!("{publisher} {number}")});
        let event = loop {
            let asked = line.ask(
                key(publisher, number),
                tool("notify_completion", args.clone()),
            );
            match asked {
                Ok(Heard {
                    answer:
                        Ok(Response::Tool {
                            reply: ToolReply::NotifyCompletion(made),
                        }),
                    ..
                }) => break made.event_id,
                Ok(other) => panic!("a completion is never refused: {:?}", other.answer),
                Err(_) => line = Line::open(test_env, &session),
            }
        };
        let mut published = book.published.lock().expect("nobody panics with it");
        published.insert((publisher, number), event);
    }
}

/// How a waiter of an inbox behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manners {
    /// Calls waits off, but never hangs up.
    Alone,
    /// Also goes away with a reply in its hand, or without.
    Sharing,
}

fn body(event: &InboxEvent) -> (u64, u64) {
    let InboxEvent::WorkerComplete(completion) = event else {
        panic!("only completions were published: {event:?}");
    };
    numbers(&completion.message)
}

fn numbers(message: &str) -> (u64, u64) {
    let (publisher, number) = message.split_once(' ').expect("two words");
    let parsed = |word: &str| word.parse().expect("a number");
    (parsed(publisher), parsed(number))
}

/// Takes events until all have arrived somewhere.
fn take(test_env: &TestEnv, book: &Book, waiter: u64, from: u64, manners: Manners, seed: u64) {
    let mut chance = SeededRng::with_seed(seed ^ (waiter + 1).wrapping_mul(0x9e37_79b9));
    let session = inbox(from);
    let mut line = Line::open(test_env, &session);
    let mut keys = (0..).map(|count| key(1_000 + waiter, count));
    while !book.is_over() {
        let asked = Instant::now();
        let wait = tool("wait_for_event", json!({"timeout_secs": 0.5}));
        let Ok(call) = line.call(keys.next().expect("they never end"), wait) else {
            line = Line::open(test_env, &session);
            continue;
        };
        // One in ten is impatient.
        let limit = chance
            .one_in(10)
            .then(|| chance.duration_below(Duration::from_millis(3)) + Duration::from_micros(50));
        let heard = match line.answer(call, limit) {
            Ok(Some(heard)) => heard,
            Ok(None) => {
                book.cancels.fetch_add(1, Ordering::Relaxed);
                if manners == Manners::Sharing && chance.one_in(2) {
                    book.dropped.fetch_add(1, Ordering::Relaxed);
                    line = Line::open(test_env, &session);
                } else if line.say(&ClientMessage::Cancel { id: call }).is_err() {
                    line = Line::open(test_env, &session);
                }
                continue;
            }
            Err(_) => {
                line = Line::open(test_env, &session);
                continue;
            }
        };
        let answered = Instant::now();
        let told = match heard.answer {
            Ok(Response::Tool {
                reply: ToolReply::WaitForEvent(told),
            }) => told,
            other => panic!("a wait is always answered: {other:?}"),
        };
        let (WaitOutcome::Event(event), Some(id)) = (told.what, told.event_id) else {
            continue;
        };
        assert_eq!(heard.takes, Some(id));
        let mut delivery = Delivery {
            inbox: from,
            event: id,
            body: body(&event),
            asked,
            answered,
            end: End::GivenBack,
        };
        match chance.below(20) {
            0 => {
                book.cancels.fetch_add(1, Ordering::Relaxed);
                book.delivered(delivery);
                if line.say(&ClientMessage::Cancel { id: call }).is_err() {
                    line = Line::open(test_env, &session);
                }
                continue;
            }
            1 if manners == Manners::Sharing => {
                book.dropped.fetch_add(1, Ordering::Relaxed);
                book.delivered(delivery);
                line = Line::open(test_env, &session);
                continue;
            }
            _ => {}
        }
        // As a client does: until some daemon has it on record.
        let receipt = keys.next().expect("they never end");
        while line.ask(receipt, Request::AckEvent { event: id }).is_err() {
            line = Line::open(test_env, &session);
        }
        delivery.end = End::Acknowledged(Instant::now());
        book.delivered(delivery);
    }
}

/// A client with a bridge of its own, whose process is killed now and then.
struct Bridge {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Bridge {
    fn start(test_env: &TestEnv) -> Self {
        let session = inbox(BRIDGED);
        let mut command = test_env.fugue_command(["mcp", "--session", &session]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the bridge starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut bridge = Self { child, stdout };
        bridge.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}));
        bridge.hear().expect("it says hello");
        bridge.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bridge
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{message}").expect("the bridge reads");
    }

    fn hear(&mut self) -> Option<Value> {
        let mut text = String::new();
        match self.stdout.read_line(&mut text) {
            // What was cut off by a kill is no reply.
            Ok(0) | Err(_) => None,
            Ok(_) => serde_json::from_str(&text).ok(),
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn take_by_bridge(test_env: &TestEnv, book: &Book, waiter: u64, seed: u64) {
    let mut chance = SeededRng::with_seed(seed ^ (waiter + 77).wrapping_mul(0x51_7cc1));
    while !book.is_over() {
        let mut bridge = Bridge::start(test_env);
        let number = book.bridges.fetch_add(1, Ordering::Relaxed);
        // Some hundred calls, then it is killed at some moment of the last one.
        let calls = 1 + chance.below(300);
        for call in 1..=calls {
            if book.is_over() {
                return;
            }
            let asked = Instant::now();
            bridge.say(
                &json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params":
                {"name": "wait_for_event", "arguments": {"timeout_secs": 0.5}}}),
            );
            if call == calls {
                fugue_testkit::sleep_in_test(chance.duration_below(Duration::from_millis(4)));
                let after = Instant::now();
                bridge.child.kill().expect("it runs");
                let before = Instant::now();
                book.dropped.fetch_add(1, Ordering::Relaxed);
                let mut deaths = book.bridge_deaths.lock().expect("nobody panics with it");
                deaths.insert(number, Death { after, before });
            }
            // Also what it had written when it was killed has been handed over.
            let Some(reply) = bridge.hear() else { break };
            let told = &reply["result"]["structuredContent"];
            if told["type"] != "worker_complete" {
                assert_eq!(told["type"], "timeout", "{reply}");
                continue;
            }
            let message = told["message"].as_str().expect("a message");
            book.delivered(Delivery {
                inbox: BRIDGED,
                event: EventId::deserialize(&told["event_id"]).expect("an id"),
                body: numbers(message),
                asked,
                answered: Instant::now(),
                end: End::Written { bridge: number },
            });
        }
    }
}

/// Kills daemons, evenly over the events.
fn kill(test_env: &TestEnv, book: &Book, kills: u64) {
    for round in 1..=kills {
        let due = book.events * round / (kills + 1);
        until(
            "enough events have arrived for the next kill",
            10 * WAIT_TIMEOUT,
            || book.arrived.lock().expect("nobody panics with it").len() as u64 >= due,
        );
        for daemon in test_env.daemons() {
            let after = Instant::now();
            daemon.kill9();
            let before = Instant::now();
            let mut deaths = book.daemon_deaths.lock().expect("nobody panics with it");
            deaths.push(Death { after, before });
        }
        test_env.fugue(&["daemon", "start"]).ok();
    }
}

#[test]
fn every_event_arrives_once_and_in_order_whoever_is_killed() {
    let (events, kills) = (number("FUGUE_EVENTS", 5_000), number("FUGUE_KILLS", 10));
    // Fifty a second are far less than a slow machine does.
    let limit = Duration::from_secs(120 + events / 50 + 10 * kills);
    let test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), limit);
    let seed = SeededRng::default().seed();
    report_metric("seed of the events under fire", seed.to_string());
    test_env.fugue(&["daemon", "start"]).ok();
    let book = Book {
        events,
        published: Mutex::default(),
        deliveries: Mutex::default(),
        daemon_deaths: Mutex::default(),
        bridge_deaths: Mutex::default(),
        bridges: AtomicU64::new(0),
        arrived: Mutex::default(),
        cancels: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let began = Instant::now();
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (test_env, book) = (&test_env, &book);
            scope.spawn(move || publish(test_env, book, publisher));
        }
        for waiter in 0..ALONE + SHARED * SHARING {
            let (test_env, book) = (&test_env, &book);
            let (from, manners) = if waiter < ALONE {
                (waiter, Manners::Alone)
            } else {
                (ALONE + (waiter - ALONE) / SHARING, Manners::Sharing)
            };
            scope.spawn(move || take(test_env, book, waiter, from, manners, seed));
        }
        for waiter in 0..SHARING {
            let (test_env, book) = (&test_env, &book);
            scope.spawn(move || take_by_bridge(test_env, book, waiter, seed));
        }
        let (test_env, book) = (&test_env, &book);
        scope.spawn(move || kill(test_env, book, kills));
    });
    let took = began.elapsed();
    let again = check(&book);
    report_metric(
        "events under fire",
        format!(
            "{events} from {PUBLISHERS} publishers to 20 waiters in {took:.1?}, {kills} daemons and {} clients killed, \
             {} waits called off; {again} told twice because a daemon or bridge died before the receipt was on record",
            book.dropped.load(Ordering::Relaxed),
            book.cancels.load(Ordering::Relaxed),
        ),
    );
}

/// Reads the whole history. Gives how many events were told twice, each for a reason that is none of the queue's.
fn check(book: &Book) -> usize {
    let published = book.published.lock().expect("nobody panics with it");
    let mut deliveries = book
        .deliveries
        .lock()
        .expect("nobody panics with it")
        .clone();
    let bridges = book.bridge_deaths.lock().expect("nobody panics with it");
    let deaths = book.daemon_deaths.lock().expect("nobody panics with it");
    deliveries.sort_by_key(|delivery| delivery.answered);

    // Asked again by its key, a publication is one event; and a publisher's events are in its own order.
    assert_eq!(published.len() as u64, book.events);
    let distinct: BTreeSet<EventId> = published.values().copied().collect();
    assert_eq!(distinct.len(), published.len(), "one event each");
    let in_order = published.iter().zip(published.iter().skip(1));
    for (((publisher, one), before), ((same, two), after)) in in_order {
        assert!(
            publisher != same || before < after,
            "{publisher}: {one} is {before}, {two} is {after}"
        );
    }

    // Every one has arrived, and nothing else has, in its own inbox and with its own words.
    let arrived = book.arrived.lock().expect("nobody panics with it");
    assert_eq!(*arrived, distinct, "all that was published, and no more");
    for delivery in &deliveries {
        assert_eq!(published.get(&delivery.body), Some(&delivery.event));
        assert_eq!(delivery.inbox, delivery.body.0 % INBOXES);
    }

    // One waiter alone has them exactly in order: what it gave back is the next it gets.
    for inbox in 0..ALONE {
        let mine = deliveries.iter().filter(|one| one.inbox == inbox);
        let (mut last, mut back) = (EventId(0), None);
        for delivery in mine {
            assert!(delivery.event > last, "{delivery:?} behind {last}");
            if let Some(back) = back {
                assert_eq!(delivery.event, back, "it was given back and is the first");
            }
            (last, back) = match delivery.end {
                End::GivenBack => (last, Some(delivery.event)),
                End::Acknowledged(_) | End::Written { .. } => (delivery.event, None),
            };
        }
    }

    // What is on record as arrived is never told again, and what was told twice has a death in between.
    let mut by_event: BTreeMap<EventId, Vec<&Delivery>> = BTreeMap::new();
    for delivery in &deliveries {
        by_event.entry(delivery.event).or_default().push(delivery);
    }
    let mut again = 0;
    for told in by_event.values() {
        for (at, first) in told.iter().enumerate() {
            for second in &told[at + 1..] {
                match first.end {
                    End::GivenBack => continue,
                    End::Acknowledged(recorded) => {
                        assert!(
                            second.asked < recorded,
                            "told after it was on record: {first:?} {second:?}"
                        );
                        let died = |death: &Death| death.is_between(first.asked, recorded);
                        assert!(
                            deaths.iter().any(died),
                            "told twice: {first:?} {second:?} {deaths:?}"
                        );
                    }
                    End::Written { .. } => {
                        // A bridge that dies behind its reply may not have said yet that it arrived; and what a dead
                        // one had written may be read later than what a live one wrote after it.
                        let asked = first.asked.min(second.asked);
                        let of_bridge = |one: &Delivery| match one.end {
                            End::Written { bridge } => bridges.get(&bridge).copied(),
                            End::Acknowledged(_) | End::GivenBack => None,
                        };
                        let of_bridges = [of_bridge(first), of_bridge(second)];
                        let mut all = of_bridges.iter().flatten().chain(deaths.iter());
                        assert!(
                            all.any(|death| death.is_between(asked, second.answered)),
                            "told twice: {first:?} {second:?} {of_bridges:?} {deaths:?}"
                        );
                    }
                }
                again += 1;
            }
        }
    }
    again
}
