use std::{fs::OpenOptions, io::Write};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Prints a measured figure, and appends it to the file that `FUGUE_FIGURES` names, so that `scripts/test` can show
/// the figures of tests whose output nobody looks at because they passed.
#[expect(clippy::print_stdout, reason = "figures are what a test shows")]
pub fn figure(of: &str, is: impl AsRef<str>) {
    let line = format!("{of}: {}", is.as_ref());
    println!("{line}");
    if let Some(path) = std::env::var_os("FUGUE_FIGURES") {
        let file = OpenOptions::new().append(true).open(path);
        let mut file = file.expect("FUGUE_FIGURES names a file that can be written");
        // One write, so that tests in parallel do not mix their lines.
        file.write_all(format!("{line}\n").as_bytes())
            .expect("a figure is written");
    }
}

/// Keeps this process, and all that it starts from here on, on one of the cores it may use.
pub fn stay_on_one_core() {
    let allowed = sched_getaffinity(None).expect("the cores that may be used");
    let last = (0..CpuSet::MAX_CPU).rfind(|core| allowed.is_set(*core));
    let mut one = CpuSet::new();
    one.set(last.expect("one at least"));
    sched_setaffinity(None, &one).expect("a core that may be used");
}
