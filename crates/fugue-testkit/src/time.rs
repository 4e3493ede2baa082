//! The only two places where the tests let time pass.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};

/// Waits for a condition that nothing announces: a process that is gone from /proc, a state that the daemon works out
/// only when asked. Wherever a verb blocks (`fugue read -f`) or a descriptor becomes readable, that is what tests wait
/// on instead.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    until_some(what, limit, || holds().then_some(()));
}

/// As [`until`], for a condition that brings something with it.
#[track_caller]
pub fn until_some<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    match within(limit, look) {
        Some(found) => found,
        None => panic!("still not so after {limit:?}: {what}"),
    }
}

pub(crate) fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
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

/// Lets time pass where the passing of time is the subject itself: a random moment for a kill, a window over which
/// idle panes must cost nothing. It never stands for a fact.
pub fn let_pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        park(left);
    }
}

fn park(time: Duration) {
    // Only a signal ends it early, and both callers look again.
    let _ = poll(&mut [], Some(&timespec(time)));
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
