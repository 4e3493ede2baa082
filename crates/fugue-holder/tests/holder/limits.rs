//! Exhausted limits: the cap of the log, the disk, the PTYs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::path::PathBuf;

use fugue_holder::spawn::{ProcessExit, SessionLeadership, SpawnCommand};
use fugue_holder::wire::{RefusalReason, ToDaemon, ToHolder, VERSION};
use fugue_holder::{LogRead, LogReader};
use fugue_testkit::{MissingRequirement, skip};

use super::test_pane::{TestPane, run, text};

fn kept(pane: &TestPane) -> u64 {
    let files = std::fs::read_dir(&pane.dir).unwrap().flatten();
    let segments = files.filter(|f| f.file_name().to_string_lossy().starts_with("out."));
    segments.map(|f| f.metadata().map_or(0, |m| m.len())).sum()
}

#[test]
fn the_oldest_output_goes_and_a_reader_is_told() {
    let mut pane = TestPane::with_holder();
    let mut spec = pane.spec(&["sh", "-c", "echo first; read x; seq 1 300000; read y"]);
    (spec.log_cap, spec.segment) = (512 << 10, 64 << 10);
    pane.start(spec);
    pane.read_until_text("first");
    let mut slow = LogReader::new(&pane.dir);
    let mut buf = vec![0; 4096];
    assert!(matches!(
        slow.read_at(0, &mut buf).unwrap(),
        LogRead::Bytes(_)
    ));
    pane.input(1, 1, b"\n");
    // Reads only the newest output, so that the reader itself keeps up with the cap.
    let mut reader = LogReader::new(&pane.dir);
    let mut wanted = String::from("first\r\n\r\n");
    for n in 1..=300_000 {
        write!(wanted, "{n}\r\n").unwrap();
    }
    let total = wanted.len() as u64;
    let deadline = std::time::Instant::now() + super::test_pane::LIMIT;
    while reader.end_offset().unwrap() < total {
        assert!(kept(&pane) <= 512 << 10, "{}", kept(&pane));
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    let kept = kept(&pane);
    assert!((448 << 10..=512 << 10).contains(&kept), "{kept}");
    let LogRead::Gap { next, .. } = reader.read_at(0, &mut buf).unwrap() else {
        panic!("no gap")
    };
    assert_eq!(
        (next, reader.first_offset().unwrap()),
        (total - kept, total - kept)
    );
    // A reader that had the oldest segment open reads its end, then the same gap.
    let mut at = 0;
    let gap = loop {
        match slow.read_at(at, &mut buf).unwrap() {
            LogRead::Bytes(n) => at += n as u64,
            LogRead::Gap { next, .. } => break next,
            LogRead::End => panic!("a dropped file is not the end"),
        }
    };
    assert_eq!(gap, next);
    let mut seen = Vec::new();
    let mut at = next;
    while let LogRead::Bytes(n) = reader.read_at(at, &mut buf).unwrap() {
        seen.extend_from_slice(&buf[..n]);
        at += n as u64;
    }
    assert!(seen == wanted.as_bytes()[next as usize..]);
    pane.at = at;
    pane.input(2, 2, b"\n");
    pane.wait_for_exit();
}

/// Runs one of the tests below in a mount namespace of its own, after `setup`.
fn in_namespace(setup: &str, test: &str) {
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "{setup} || exit 99; exec '{}' --exact limits::{test} --include-ignored --nocapture --test-threads 1",
        exe.display()
    );
    let root = rustix::process::geteuid().is_root();
    let flags = if root { "-m" } else { "-rm" };
    let args: Vec<OsString> = [flags, "--", "sh", "-c", &script]
        .map(OsString::from)
        .into();
    match run("unshare", &args) {
        Ok(ProcessExit::Code(0)) => {}
        Ok(ProcessExit::Code(99 | 1)) if root => {
            skip(MissingRequirement::Machine, "no private mounts here");
        }
        Ok(ProcessExit::Code(99 | 1)) => {
            skip(
                MissingRequirement::Root,
                "only root has private mounts here",
            );
        }
        Err(_) => skip(MissingRequirement::Program, "unshare is not installed"),
        Ok(ended) => panic!("{test} failed: {ended:?}"),
    }
}

const SMALL_DISK: &str = "FUGUE_SMALL_DISK";

#[test]
fn on_a_full_disk_the_child_waits_and_nothing_is_lost() {
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().display();
    in_namespace(
        &format!("export {SMALL_DISK}='{path}'; mount -t tmpfs -o size=1m tmpfs '{path}'"),
        "inner_full_disk",
    );
}

#[test]
#[ignore = "runs inside a private mount namespace, see above"]
fn inner_full_disk() {
    let disk = PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let dir = disk.join("pane");
    assert!(
        std::fs::read_dir(&disk).unwrap().next().is_none(),
        "not the private tmpfs"
    );
    std::fs::create_dir(&dir).unwrap();
    let ballast = disk.join("ballast");
    std::fs::write(&ballast, vec![0; 500 << 10]).unwrap();
    let mut pane = TestPane::with_holder_in(tempfile::tempdir().unwrap(), dir);
    let mut spec = pane.spec(&["sh", "-c", "seq 1 100000; exit 6"]);
    spec.segment = 64 << 10;
    pane.start(spec);
    let errno = pane.expect(|m| match m {
        ToDaemon::Stalled { errno } => Some(*errno),
        ToDaemon::Exited(_) => panic!("the disk was large enough"),
        _ => None,
    });
    assert_eq!(errno, libc::ENOSPC);
    // Requests are still served, the holder can be killed and replaced, and the child is alive.
    assert!(fugue_holder::is_alive(pane.child()));
    pane.probe();
    pane.kill_holder();
    pane.replace_holder();
    std::fs::remove_file(&ballast).unwrap();
    pane.expect(|m| match m {
        ToDaemon::LogWritable => Some(()),
        _ => None,
    });
    let (exited, seen) = pane.output();
    assert_eq!(exited.ending, ProcessExit::Code(6));
    let mut wanted = String::new();
    for n in 1..=100_000 {
        write!(wanted, "{n}\r\n").unwrap();
    }
    assert!(
        seen == wanted.as_bytes(),
        "{} of {}",
        seen.len(),
        wanted.len()
    );
}

#[test]
fn on_a_full_disk_the_end_of_a_child_is_told_and_a_close_says_what_is_lost() {
    let disk = tempfile::tempdir().unwrap();
    let path = disk.path().display();
    in_namespace(
        &format!("export {SMALL_DISK}='{path}'; mount -t tmpfs -o size=1m tmpfs '{path}'"),
        "inner_full_disk_at_the_end",
    );
}

#[test]
#[ignore = "runs inside a private mount namespace, see above"]
fn inner_full_disk_at_the_end() {
    let disk = PathBuf::from(std::env::var_os(SMALL_DISK).unwrap());
    let dir = disk.join("pane");
    std::fs::create_dir(&dir).unwrap();
    let mut pane = TestPane::with_holder_in(tempfile::tempdir().unwrap(), dir.clone());
    // Less than a PTY buffers, so that the child can exit, and more than the rest of the log's last page.
    pane.start(pane.spec(&["sh", "-c", "read x; head -c 8000 /dev/zero; exit 6"]));
    fill(&disk.join("ballast"));
    pane.input(1, 1, b"\n");
    let pending = |pane: &mut TestPane| {
        pane.expect(|m| match m {
            ToDaemon::ExitPending(exited) => Some(*exited),
            ToDaemon::Exited(_) => panic!("the disk was large enough"),
            _ => None,
        })
    };
    let exited = pending(&mut pane);
    let begun = std::time::Instant::now();
    assert_eq!(exited.ending, ProcessExit::Code(6));
    let reader = LogReader::new(&pane.dir);
    assert!(exited.output_end > reader.end_offset().unwrap());
    // Retries after 100, 200 and 400 ms.
    for _ in 0..3 {
        pending(&mut pane);
    }
    let took = begun.elapsed();
    assert!(took >= std::time::Duration::from_millis(600), "{took:?}");
    // The next daemon receives the pending exit as well, also from a new holder.
    pane.kill_holder();
    pane.replace_holder();
    assert_eq!(pending(&mut pane).ending, ProcessExit::Code(6));
    pane.send(&ToHolder::Close { id: 9, grace_ms: 0 });
    let exited = pane.expect(|m| match m {
        ToDaemon::Exited(exited) => Some(*exited),
        _ => None,
    });
    pane.expect(|m| match m {
        ToDaemon::Closed { id: 9, left: 0 } => Some(()),
        _ => None,
    });
    // All bytes are accounted for: the echo and the output.
    assert_eq!(
        (exited.ending, exited.output_end),
        (ProcessExit::Code(6), 8002)
    );
    assert!(reader.end_offset().unwrap() < 8002);
    let record = fugue_holder::record::ExitRecord::read(&dir, 1).unwrap();
    assert_eq!(record.map(|record| record.exited), Some(exited));
}

/// Fills the disk.
fn fill(path: &std::path::Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn without_a_terminal_to_be_had_the_reason_is_said() {
    in_namespace(
        "mount -t devpts -o newinstance,ptmxmode=0666,max=1 devpts /dev/pts",
        "inner_no_terminal",
    );
}

#[test]
#[ignore = "runs inside a private mount namespace, see above"]
fn inner_no_terminal() {
    let mut first = TestPane::running("tty; read x");
    first.read_until_text("/dev/pts/0");
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("pane");
    std::fs::create_dir(&dir).unwrap();
    let mut second = TestPane::without_holder(home, dir);
    second.holder = Some(second.location().spawn().unwrap());
    second.connect();
    second.send(&ToHolder::Hello {
        version: VERSION,
        epoch: 1,
    });
    let (reason, errno, what) = second.expect(|m| match m {
        ToDaemon::Refused {
            reason,
            errno,
            what,
        } => Some((*reason, *errno, what.clone())),
        _ => None,
    });
    assert_eq!((reason, errno), (RefusalReason::Broken, libc::ENOSPC));
    assert!(what.contains("all are in use"), "{what}");
    assert_eq!(second.wait_for_holder_exit(), ProcessExit::Code(1));
    // The first pane continues.
    first.input(1, 1, b"\n");
    assert_eq!(first.wait_for_exit().ending, ProcessExit::Code(0));
    assert!(text(&first.seen).contains("pts"));
}

#[test]
fn a_pane_directory_that_cannot_be_used_is_named() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("missing");
    let mut pane = TestPane::without_holder(home, dir.clone());
    pane.holder = Some(pane.location().spawn().unwrap());
    pane.connect();
    pane.send(&ToHolder::Hello {
        version: VERSION,
        epoch: 1,
    });
    let refused = pane.expect(|m| match m {
        ToDaemon::Refused {
            reason,
            errno,
            what,
        } => Some((*reason, *errno, what.clone())),
        _ => None,
    });
    let what = format!("pane directory {}", dir.display());
    assert_eq!(refused, (RefusalReason::Broken, libc::ENOENT, what));
}

#[test]
fn without_splice_output_is_copied_and_the_promise_is_smaller() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("pane");
    std::fs::create_dir(&dir).unwrap();
    let mut pane = TestPane::without_holder(home, dir);
    let listener = fugue_holder::listen(&pane.socket()).unwrap();
    let holder = SpawnCommand::new(super::test_pane::holder_exe())
        .arg("hold")
        .arg(format!("dir={}", pane.dir.display()))
        .arg(format!("parent={}", std::process::id()))
        .args(["gen=1", "epoch=1", "copy=1"])
        .session(SessionLeadership::Own)
        .fd(listener.as_fd(), 3)
        .start()
        .unwrap();
    drop(listener);
    pane.holder = Some(holder);
    pane.connect();
    assert!(!pane.hello().lossless);
    let mut spec = pane.spec(&["sh", "-c", "seq 1 100000; exit 5"]);
    spec.segment = 64 << 10;
    pane.start(spec);
    let (exited, seen) = pane.output();
    assert_eq!(exited.ending, ProcessExit::Code(5));
    let wanted: String = (1..=100_000).map(|n| format!("{n}\r\n")).collect();
    assert!(seen == wanted.as_bytes());
}
