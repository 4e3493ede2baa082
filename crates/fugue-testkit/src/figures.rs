use std::{fs::OpenOptions, io::Write};

/// Prints a measured figure, and appends it to the file that `FUGUE_FIGURES` names, so that `scripts/test` can show
/// the figures of tests whose output nobody looks at because they passed.
#[expect(clippy::print_stdout, reason = "figures are what a test shows")]
pub fn figure(of: &str, is: impl AsRef<str>) {
    let line = format!("{of}: {}", is.as_ref());
    println!("{line}");
    if let Some(path) = std::env::var_os("FUGUE_FIGURES") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.expect("FUGUE_FIGURES names a file that can be written");
        // One write, so that tests in parallel do not mix their lines.
        file.write_all(format!("{line}\n").as_bytes())
            .expect("a figure is written");
    }
}
