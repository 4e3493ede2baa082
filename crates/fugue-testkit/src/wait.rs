//! The only places where tests wait for time to pass.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};

/// Waits for a condition that has no event: a process that disappears from /proc, a state that the daemon computes only
/// on request. If a verb blocks (`fugue read -f`) or an fd becomes readable, tests wait for that instead.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    until_some(what, limit, || holds().then_some(()));
}

/// Like [`until`], for a condition that returns a value.
#[track_caller]
pub fn until_some<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    match poll_until(limit, look) {
        Some(found) => found,
        None => panic!("still not so after {limit:?}: {what}"),
    }
}

pub(crate) fn poll_until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        park(Duration::from_millis(2));
    }
}

/// Sleeps where the passing of time itself is tested: a random delay before a kill, a period in which idle panes must
/// cost nothing. Never a substitute for waiting on a condition.
pub fn sleep_in_test(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        park(left);
    }
}

fn park(time: Duration) {
    // Only a signal ends the poll early, and both callers check again.
    let _ = poll(&mut [], Some(&timespec(time)));
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
