//! The fault sweep: every relevant call of daemon and holders fails once, in turn, with each plausible error.
//!
//! First each story is told with every call counted; a trial is then one call (role, system call, subject, number) and
//! one error. A seeded sample runs by default. `FUGUE_SWEEP=all` runs every trial that the file `FUGUE_SWEEP_RESULTS`
//! does not have yet, at most `FUGUE_SWEEP_PART` of them, and adds a line for each. `FUGUE_SWEEP=<key>` runs one trial,
//! by the key that a violation prints. `FUGUE_SWEEP_JOBS` sets how many run side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fugue_testkit::{
    MissingRequirement, SeededRng, TestEnv, report_metric, skip,
    supervisor::{Errno, ProcessRole, SupervisedCall, Syscall, SyscallSupervisor, SyscallVerdict},
};

use super::{
    errors::{Target, plausible, target},
    story::Story,
};

/// Trials of the sample: about a minute on two quiet cores.
const SAMPLE: usize = 50;
/// Waiting calls are interrupted only so often: there are thousands, and each is like the last.
const MAX_INTERRUPTED_WAITS: u32 = 20;
/// Each look at a process table is thousands of reads, one like the other.
const MAX_PROC_CALLS: u32 = 200;

/// The calls that are alike: who makes them, which, and about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallGroup {
    story: Story,
    role: ProcessRole,
    syscall: Syscall,
    target: Target,
}

/// One call of a group, by its number from 1, and the error it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    group: CallGroup,
    number: u32,
    error: Errno,
}

impl fmt::Display for Trial {
    /// The key by which it is found again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CallGroup {
            story,
            role,
            syscall,
            target,
        } = self.group;
        write!(
            f,
            "{}/{}/{}/{}/{}/{}",
            story.name(),
            role.name(),
            syscall.name,
            target.name(),
            self.number,
            self.error.raw_os_error()
        )
    }
}

/// How a trial went.
enum Outcome {
    Held,
    /// The story had fewer such calls this time.
    NotReached,
    Violated(String),
}

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300))
}

/// Tells a story with every call counted.
fn count(story: Story) -> BTreeMap<CallGroup, u32> {
    let mut test_env = test_env();
    let dir = test_env.dir().to_owned();
    let counts: Arc<Mutex<BTreeMap<CallGroup, u32>>> = Arc::default();
    let counted = Arc::clone(&counts);
    let supervisor = SyscallSupervisor::new(Syscall::all(), move |call| {
        if let Some(group) = group_of(story, call, &dir) {
            *counted
                .lock()
                .expect("nobody panics with it")
                .entry(group)
                .or_default() += 1;
        }
        SyscallVerdict::Continue
    });
    test_env.supervise(supervisor.expect("a supervisor"));
    story.tell(&test_env);
    drop(test_env);
    let counts = counts.lock().expect("nobody panics with it");
    counts.clone()
}

fn group_of(story: Story, call: &SupervisedCall, dir: &std::path::Path) -> Option<CallGroup> {
    let role = call.role();
    (role != ProcessRole::Other).then_some(())?;
    let target = target(call, dir)?;
    Some(CallGroup {
        story,
        role,
        syscall: call.syscall,
        target,
    })
}

fn trials(counts: &BTreeMap<CallGroup, u32>) -> Vec<Trial> {
    let mut all = Vec::new();
    for (&group, &count) in counts {
        let errors = plausible(group.syscall.name, group.target);
        let waits = matches!(
            group.syscall.name,
            "epoll_wait" | "epoll_pwait" | "poll" | "ppoll" | "read"
        ) && errors == [Errno::INTR];
        let count = match group.target {
            _ if waits => count.min(MAX_INTERRUPTED_WAITS),
            Target::Proc => count.min(MAX_PROC_CALLS),
            _ => count,
        };
        for number in 1..=count {
            all.extend(errors.iter().map(|&error| Trial {
                group,
                number,
                error,
            }));
        }
    }
    all
}

/// A sample with something of every group before anything of a group again.
fn sample(mut rest: Vec<Trial>, size: usize, chance: &mut SeededRng) -> Vec<Trial> {
    let mut chosen = Vec::new();
    let size = size.min(rest.len());
    let mut groups: Vec<CallGroup> = Vec::new();
    while chosen.len() < size {
        if groups.is_empty() {
            groups = rest.iter().map(|trial| trial.group).collect();
            groups.dedup();
        }
        let group = groups.swap_remove(chance.below(groups.len() as u64) as usize);
        let first = rest.partition_point(|trial| trial.group < group);
        let count = rest[first..].partition_point(|trial| trial.group == group);
        let one = first + chance.below(count as u64) as usize;
        chosen.push(rest.remove(one));
    }
    chosen
}

fn attempt(trial: Trial) -> Outcome {
    let mut test_env = test_env();
    let dir = test_env.dir().to_owned();
    let fired: Arc<Mutex<Option<String>>> = Arc::default();
    let armed = Arc::new(AtomicBool::new(true));
    let (hit, is_armed) = (Arc::clone(&fired), Arc::clone(&armed));
    let mut seen = 0;
    let supervisor = SyscallSupervisor::new(&[trial.group.syscall], move |call| {
        if !is_armed.load(Ordering::Relaxed)
            || group_of(trial.group.story, call, &dir) != Some(trial.group)
        {
            return SyscallVerdict::Continue;
        }
        seen += 1;
        if seen != trial.number {
            return SyscallVerdict::Continue;
        }
        is_armed.store(false, Ordering::Relaxed);
        *hit.lock().expect("nobody panics with it") = Some(describe(call));
        SyscallVerdict::Fail(trial.error)
    });
    test_env.supervise(supervisor.expect("a supervisor"));
    let told = catch_unwind(AssertUnwindSafe(move || {
        trial.group.story.tell(&test_env);
        armed.store(false, Ordering::Relaxed);
        drop(test_env);
    }));
    let fired = fired.lock().expect("nobody panics with it").take();
    match (told, fired) {
        (Ok(()), Some(_)) => Outcome::Held,
        (Ok(()), None) => Outcome::NotReached,
        (Err(panic), fired) => {
            let said = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|&said| said.to_owned()))
                .unwrap_or_default();
            let fired = fired.unwrap_or_else(|| "the fault had not happened".to_owned());
            Outcome::Violated(format!("{fired}\n{said}"))
        }
    }
}

fn describe(call: &SupervisedCall) -> String {
    let about = call
        .read_path(1)
        .filter(|path| path.as_os_str().len() > 1)
        .or_else(|| call.fd_path(0));
    format!(
        "thread {} ({}), about {:?}, arguments {:x?}",
        call.thread,
        call.thread_name(),
        about,
        call.args
    )
}

/// The results of earlier parts, by trial.
struct Results {
    path: Option<PathBuf>,
    done: BTreeSet<String>,
}

impl Results {
    fn open() -> Self {
        let path = std::env::var_os("FUGUE_SWEEP_RESULTS").map(PathBuf::from);
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let done = text
            .unwrap_or_default()
            .lines()
            .filter_map(|line| Some(line.split_once('\t')?.0.to_owned()))
            .collect();
        Self { path, done }
    }

    fn add(&self, trial: Trial, outcome: &Outcome) {
        let Some(path) = &self.path else { return };
        let said = match outcome {
            Outcome::Held => "held".to_owned(),
            Outcome::NotReached => "not reached".to_owned(),
            Outcome::Violated(how) => format!("violated\t{}", how.replace(['\n', '\t'], " ")),
        };
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{trial}\t{said}\n").as_bytes()))
            .expect("FUGUE_SWEEP_RESULTS names a file that can be written");
    }
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_failing_call_loses_a_pane_or_an_answer() {
    if let Err(error) = SyscallSupervisor::new(&[], |_| SyscallVerdict::Continue) {
        skip(
            MissingRequirement::Machine,
            format!("calls cannot be supervised: {error}"),
        );
        return;
    }
    let start = Instant::now();
    let mut counts = BTreeMap::new();
    for story in Story::ALL {
        counts.extend(count(story));
    }
    if !counts.keys().any(|group| group.syscall.name == "openat") {
        skip(
            MissingRequirement::Machine,
            "calls that take a path are left out: another process's memory cannot be read (kernel.yama.ptrace_scope)",
        );
    }
    let calls: u64 = counts.values().map(|&count| u64::from(count)).sum();
    let all = trials(&counts);
    let results = Results::open();
    // Always the same sample, as far as the counts are the same again; a violation's key finds its trial in any case.
    let mut chance = SeededRng::with_seed(number("FUGUE_SEED", 1) as u64);
    let chosen: Vec<Trial> = match std::env::var("FUGUE_SWEEP").ok().as_deref() {
        None => sample(all.clone(), number("FUGUE_SWEEP_PART", SAMPLE), &mut chance),
        Some("all") => {
            let rest: Vec<Trial> = all
                .iter()
                .filter(|trial| !results.done.contains(&trial.to_string()))
                .copied()
                .collect();
            sample(rest, number("FUGUE_SWEEP_PART", usize::MAX), &mut chance)
        }
        Some(key) => all
            .iter()
            .filter(|trial| trial.to_string() == key)
            .copied()
            .collect(),
    };
    let waiting = Mutex::new(chosen.iter().rev().copied().collect::<Vec<_>>());
    let tally = Mutex::new((0u32, 0u32, Vec::<String>::new()));
    let next = || waiting.lock().expect("nobody panics with it").pop();
    thread::scope(|scope| {
        for _ in 0..number("FUGUE_SWEEP_JOBS", 3) {
            scope.spawn(|| {
                while let Some(trial) = next() {
                    let outcome = attempt(trial);
                    results.add(trial, &outcome);
                    let mut tally = tally.lock().expect("nobody panics with it");
                    match outcome {
                        Outcome::Held => tally.0 += 1,
                        Outcome::NotReached => tally.1 += 1,
                        Outcome::Violated(how) => {
                            let mut said = String::new();
                            let _ = write!(said, "FUGUE_SWEEP={trial} ({:?}): {how}", trial.error);
                            tally.2.push(said);
                        }
                    }
                }
            });
        }
    });
    let (held, not_reached, violations) = tally.into_inner().expect("nobody panicked with it");
    report_metric(
        "fault sweep",
        format!(
            "{calls} calls of {} kinds counted, {} calls × errors possible; {} tried in {:?}, {held} held, {not_reached} not reached, {} violations, seed {}",
            counts.len(),
            all.len(),
            chosen.len(),
            start.elapsed(),
            violations.len(),
            chance.seed()
        ),
    );
    assert!(violations.is_empty(), "{}", violations.join("\n\n"));
}
