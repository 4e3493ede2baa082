//! The output of a child is in the log, complete and unmodified, and its exit is known.

use std::fmt::Write;

use fugue_holder::wire::{ChildState, FdUse, ProcessExit, ToDaemon, ToHolder};
use fugue_holder::{LogRead, LogReader};

use super::test_pane::{TestPane, seeded_rng, text};

#[test]
fn a_flood_arrives_byte_for_byte() {
    let mut pane = TestPane::running("seq 1 200000");
    assert!(pane.hello.unwrap().lossless);
    let (exited, seen) = pane.output();
    assert_eq!(exited.ending, ProcessExit::Code(0));
    let mut wanted = String::new();
    for n in 1..=200_000 {
        write!(wanted, "{n}\r\n").unwrap();
    }
    assert!(
        seen == wanted.as_bytes(),
        "{} bytes, wanted {}",
        seen.len(),
        wanted.len()
    );
}

#[test]
fn binary_output_arrives_byte_for_byte_when_the_terminal_is_raw() {
    let bytes: Vec<u8> = (0..300_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut pane = TestPane::with_holder();
    std::fs::write(pane.home().join("file"), &bytes).unwrap();
    let spec = pane.spec(&["sh", "-c", "stty raw -echo; cat file"]);
    pane.start(spec);
    let (_, seen) = pane.output();
    assert!(seen == bytes);
}

#[test]
fn a_program_that_ends_at_once_is_heard_to_its_last_byte() {
    for _ in 0..30 {
        let mut pane = TestPane::with_holder();
        let spec = pane.spec(&["printf", "abc"]);
        pane.start(spec);
        let (exited, seen) = pane.output();
        assert_eq!(
            (exited.ending, exited.output_end, text(&seen).as_str()),
            (ProcessExit::Code(0), 3, "abc")
        );
    }
}

#[test]
fn codes_and_signals_are_exact() {
    for (script, wanted) in [
        ("exit 0", ProcessExit::Code(0)),
        ("exit 3", ProcessExit::Code(3)),
        ("exit 255", ProcessExit::Code(255)),
        (
            "kill -KILL $$",
            ProcessExit::Signal {
                signo: 9,
                core: false,
            },
        ),
        (
            "kill -TERM $$",
            ProcessExit::Signal {
                signo: 15,
                core: false,
            },
        ),
        (
            "ulimit -c 0; kill -SEGV $$",
            ProcessExit::Signal {
                signo: 11,
                core: false,
            },
        ),
    ] {
        let mut pane = TestPane::running(script);
        let exited = pane.wait_for_exit();
        assert_eq!(exited.ending, wanted, "{script}");
        assert_eq!(pane.read_exit_record(), Some(exited), "{script}");
    }
}

#[test]
fn a_shell_that_ends_takes_no_output_of_its_jobs_with_it() {
    let mut pane =
        TestPane::running("(trap '' HUP; echo job; exec sleep 100) & read x; echo last; exit 4");
    pane.read_until_text("job");
    pane.input(1, 1, b"\n");
    let (exited, seen) = pane.output();
    assert_eq!(exited.ending, ProcessExit::Code(4));
    assert!(text(&seen).ends_with("last\r\n"), "{:?}", text(&seen));
}

#[test]
fn a_child_may_close_its_terminal_and_open_it_again() {
    let mut pane = TestPane::running("echo one; exec 0<&- 1>&- 2>&-; echo two > /dev/tty; exit 5");
    let (exited, seen) = pane.output();
    assert_eq!(
        (exited.ending, text(&seen).as_str()),
        (ProcessExit::Code(5), "one\r\ntwo\r\n")
    );
}

#[test]
fn a_resize_is_recorded_where_the_program_met_it() {
    let mut pane = TestPane::running("echo before; read x; stty size; exit 0");
    pane.read_until_text("before\r\n");
    let before = pane.at;
    pane.send(&ToHolder::Resize {
        id: 9,
        rows: 50,
        cols: 132,
    });
    pane.expect(|m| match m {
        ToDaemon::Done { id: 9 } => Some(()),
        ToDaemon::Failed { what, errno, .. } => panic!("{what} {errno}"),
        _ => None,
    });
    pane.input(1, 1, b"\n");
    let (_, seen) = pane.output();
    assert!(text(&seen).contains("50 132"), "{:?}", text(&seen));
    let sizes: Vec<(u64, u16, u16, u32)> = pane
        .sizes()
        .iter()
        .map(|s| (s.offset, s.rows, s.cols, s.generation))
        .collect();
    assert_eq!(sizes, [(0, 40, 120, 1), (before, 50, 132, 1)]);
}

#[test]
fn a_next_generation_goes_on_in_the_same_log() {
    let mut pane = TestPane::running("printf first; exit 1");
    let (exited, seen) = pane.output();
    assert_eq!((exited.output_end, text(&seen).as_str()), (5, "first"));
    pane.send(&ToHolder::Leave);
    pane.wait_for_disconnect();
    assert_eq!(pane.wait_for_holder_exit(), ProcessExit::Code(0));
    pane.generation = 2;
    pane.guarded = None;
    pane.holder = Some(pane.location().spawn().unwrap());
    pane.connect();
    let hello = pane.hello();
    assert_eq!(
        (hello.state, hello.log_end, hello.generation),
        (ChildState::Empty, 5, 2)
    );
    let spec = pane.spec(&["sh", "-c", "printf second; exit 2"]);
    pane.start(spec);
    let (exited, seen) = pane.output();
    assert_eq!(
        (exited.output_end, exited.ending, text(&seen).as_str()),
        (11, ProcessExit::Code(2), "second")
    );
    let generations: Vec<(u64, u32)> = pane
        .sizes()
        .iter()
        .map(|s| (s.offset, s.generation))
        .collect();
    assert_eq!(generations, [(0, 1), (5, 2)]);
}

#[test]
fn a_channel_reaches_the_child_and_comes_back_at_hello() {
    let mut pane = TestPane::with_holder();
    let (step_r, step_w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let status = std::fs::File::create(pane.home().join("status")).unwrap();
    let mut spec = pane.spec(&["sh", "-c", "read step <&7; echo $step-done >&8; read x"]);
    spec.kept = vec![FdUse::AlsoChild(7), FdUse::HolderOnly, FdUse::AlsoChild(8)];
    pane.send_with(&ToHolder::Start(spec), vec![step_r, step_w, status.into()]);
    pane.expect(|m| matches!(m, ToDaemon::Started(_)).then_some(()));
    pane.link = None;
    pane.connect();
    let hello = pane.hello();
    let ChildState::Running(child) = hello.state else {
        panic!("{hello:?}")
    };
    pane.known.child = Some(child);
    // Now an exit that only the holder has, and once more after the holder died.
    pane.kill_holder();
    pane.replace_holder();
    let kept = &pane.guarded.as_ref().unwrap().kept;
    assert_eq!(kept.len(), 3);
    rustix::io::write(&kept[1], b"step1\n").unwrap();
    pane.input(1, 1, b"\n");
    pane.wait_for_exit();
    assert_eq!(
        std::fs::read_to_string(pane.home().join("status")).unwrap(),
        "step1-done\n"
    );
}

#[test]
fn a_reader_may_start_anywhere_and_read_in_any_pieces() {
    let mut pane = TestPane::with_holder();
    let mut spec = pane.spec(&["sh", "-c", "seq 1 60000"]);
    spec.segment = 64 << 10;
    pane.start(spec);
    let (exited, all) = pane.output();
    let mut rng = seeded_rng();
    for _ in 0..200 {
        let mut reader = LogReader::new(&pane.dir);
        assert_eq!(
            (reader.first_offset().unwrap(), reader.end_offset().unwrap()),
            (0, exited.output_end)
        );
        let mut at = rng.below(exited.output_end + 10);
        for _ in 0..20 {
            let mut buf = vec![0; 1 + rng.below(90_000) as usize];
            match reader.read_at(at, &mut buf).unwrap() {
                LogRead::Bytes(n) => {
                    assert!(buf[..n] == all[at as usize..at as usize + n]);
                    at += n as u64;
                }
                LogRead::End => {
                    assert!(at >= exited.output_end);
                    at = rng.below(exited.output_end);
                }
                LogRead::Gap { .. } => panic!("nothing was dropped"),
            }
        }
    }
}
