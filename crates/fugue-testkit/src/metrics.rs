use std::{fs::OpenOptions, io::Write};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Prints a measured value, and appends it to the file that `FUGUE_FIGURES` names, so that `scripts/test` can show the
/// values of passed tests, whose output is hidden.
#[expect(clippy::print_stdout, reason = "figures are what a test shows")]
pub fn report_metric(of: &str, is: impl AsRef<str>) {
    let line = format!("{of}: {}", is.as_ref());
    println!("{line}");
    if let Some(path) = std::env::var_os("FUGUE_FIGURES") {
        let file = OpenOptions::new().append(true).open(path);
        let mut file = file.expect("FUGUE_FIGURES names a file that can be written");
        // A single write, so that parallel tests do not interleave their lines.
        file.write_all(format!("{line}\n").as_bytes())
            .expect("a figure is written");
    }
}

/// Pins this process, and all processes started from now on, to a single allowed core.
pub fn pin_to_one_core() {
    let allowed = sched_getaffinity(None).expect("the cores that may be used");
    let last = (0..CpuSet::MAX_CPU).rfind(|core| allowed.is_set(*core));
    let mut one = CpuSet::new();
    one.set(last.expect("one at least"));
    sched_setaffinity(None, &one).expect("a core that may be used");
}
