//! Clocks that a test can set: the wall clock through a preload library, the boot clock through a time namespace.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{MissingRequirement, skip, test_env::TestEnv};

// Overrides only calls through libc, which is how std reads the wall clock.
const PRELOAD_SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("FUGUE_TEST_WALL_OFFSET");
    char text[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    return strtol(text, 0, 10);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, id, now);
    if (!failed && id == CLOCK_REALTIME) now->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time)) return -1;
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now) *now = time.tv_sec;
    return time.tv_sec;
}
"#;

/// A wall clock for the daemon of a test environment, with an adjustable offset in seconds from the real clock.
pub struct WallClock {
    offset: PathBuf,
    launcher: Vec<String>,
}

impl WallClock {
    #[track_caller]
    pub fn new(test_env: &TestEnv) -> Self {
        let at = |name: &str| test_env.dir().join(name);
        let (source, library) = (at("clock.c"), at("clock.so"));
        fs::write(&source, PRELOAD_SOURCE).expect("the source of the clock");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (from, to) = (text(&source), text(&library));
        let args = ["-shared", "-fPIC", "-O1", "-o", &to, &from];
        test_env.run("cc", &args).ok();
        let offset = at("clock.offset");
        let launcher = vec![
            "env".to_owned(),
            format!("LD_PRELOAD={to}"),
            format!("FUGUE_TEST_WALL_OFFSET={}", text(&offset)),
        ];
        let clock = Self { offset, launcher };
        clock.set(0);
        clock
    }

    /// Sets the offset for all further reads of the clock by the daemon.
    pub fn set(&self, seconds: i64) {
        // Renamed into place, because the daemon may read the file at any time.
        let new = self.offset.with_extension("new");
        fs::write(&new, seconds.to_string()).expect("the offset");
        fs::rename(new, &self.offset).expect("the offset in its place");
    }

    /// Starts a daemon that reads this clock.
    #[track_caller]
    pub fn start_daemon(&self, test_env: &TestEnv) -> u32 {
        let way: Vec<&str> = self.launcher.iter().map(String::as_str).collect();
        test_env.start_daemon_with(&way)
    }
}

/// The command prefix that starts a program with an advanced boot clock, as after a suspend. Skips the test and
/// returns `None` where time namespaces are unavailable.
pub fn boot_clock_launcher(test_env: &TestEnv, seconds: u64) -> Option<Vec<String>> {
    let ahead = seconds.to_string();
    let ways: [&[&str]; 2] = [&["unshare", "-T"], &["unshare", "-Ur", "-T"]];
    let found = ways.into_iter().find_map(|way| {
        let way: Vec<&str> = [way, &["--boottime", &ahead]].concat();
        let mut args = way[1..].to_vec();
        args.push("true");
        let works = test_env.run(way[0], &args).code == Some(0);
        works.then(|| way.into_iter().map(str::to_owned).collect())
    });
    if found.is_none() {
        skip(
            MissingRequirement::Root,
            "no time namespace can be had here",
        );
    }
    found
}
