use fugue_holder::TmuxLogWriter;

use super::*;

fn size(rows: u16, cols: u16) -> TerminalSize {
    TerminalSize { rows, cols }
}

fn follower(dir: &Path, checkpoints: CheckpointPolicy) -> LogFollower {
    LogFollower::open_as(
        dir,
        size(24, 80),
        TerminalOptions::default(),
        ReplayDepth::Recent,
        checkpoints,
    )
    .unwrap()
}

fn rows(terminal: &Terminal) -> Vec<String> {
    terminal.screen().rows().collect()
}

#[test]
fn a_size_that_held_for_no_byte_has_cut_off_what_it_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TmuxLogWriter::open(dir.path(), 1, 1 << 20, 1 << 10).unwrap();
    let mut terminal = Terminal::new(size(5, 20), TerminalOptions::default());
    log.append_size(5, 20).unwrap();
    let mut early = follower(dir.path(), CheckpointPolicy::Every(1));
    for (text, sizes) in [
        ("one\r\ntwo\r\nthree\r\nfour", &[(2, 20), (5, 20)][..]),
        (
            "\x1b[?1049hfull screen",
            &[(5, 6), (5, 20), (3, 3), (5, 20)],
        ),
        ("\r\nbelow", &[]),
    ] {
        log.append(text.as_bytes()).1.unwrap();
        terminal.feed(text.as_bytes());
        // One who reads along leaves a checkpoint just before the sizes.
        early.catch_up().unwrap();
        for (rows, cols) in sizes {
            log.append_size(*rows, *cols).unwrap();
            terminal.resize(size(*rows, *cols));
        }
        early.reload_sizes().unwrap();
        assert_eq!(rows(&early.terminal), rows(&terminal));
        let mut late = follower(dir.path(), CheckpointPolicy::None);
        late.catch_up().unwrap();
        assert_eq!(rows(&late.terminal), rows(&terminal));
    }
}

#[test]
fn sizes_that_were_forgotten_are_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TmuxLogWriter::open(dir.path(), 1, 2000, 200).unwrap();
    log.append_size(5, 20).unwrap();
    let mut follower = follower(dir.path(), CheckpointPolicy::None);
    // A person who drags a window for minutes: the file is made smaller on the way.
    for n in 0..5000_u16 {
        log.append(b"x").1.unwrap();
        log.append_size(5 + n % 7, 20 + n % 11).unwrap();
        if n % 100 == 0 {
            follower.catch_up().unwrap();
            follower.reload_sizes().unwrap();
            assert_eq!(follower.terminal.size(), size(5 + n % 7, 20 + n % 11));
        }
    }
}

#[test]
fn a_gap_lies_between_the_lines_before_it_and_those_behind_it() {
    use fugue_term::LineSelection;
    let dir = tempfile::tempdir().unwrap();
    let mut log = TmuxLogWriter::open(dir.path(), 1, 1 << 20, 100).unwrap();
    log.append_size(5, 20).unwrap();
    for line in 0..100 {
        log.append(format!("line {line:03}\r\n").as_bytes())
            .1
            .unwrap();
    }
    // Lines 50 to 59.
    fs::remove_file(dir.path().join(format!("out.{:016x}", 500))).unwrap();
    let mut follower = LogFollower::open_as(
        dir.path(),
        size(5, 20),
        TerminalOptions {
            keep_lines: usize::MAX,
            secret: None,
        },
        ReplayDepth::All,
        CheckpointPolicy::None,
    )
    .unwrap();
    let mut lines = Vec::new();
    follower
        .stream(u64::MAX, |scrollback, _, _| {
            scrollback.for_each_line(LineSelection::ALL, |line| lines.push(line.text.to_string()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let rest = follower.terminal;
    rest.for_each_line(LineSelection::ALL, |line| lines.push(line.text.to_string()));
    assert_eq!(lines.len(), 90);
    assert_eq!((&lines[49][..], &lines[50][..]), ("line 049", "line 060"));
    assert_eq!(
        follower.gaps,
        [OutputGap {
            line: 50,
            from: 500,
            next: 600,
            bytes: 100
        }]
    );
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TmuxLogWriter::open(dir.path(), 1, 1 << 30, 1 << 25).unwrap();
    log.append_size(5, 40).unwrap();
    let lines: String = (0..250_000).map(|n| format!("line {n:07}\r\n")).collect();
    log.append(lines.as_bytes()).1.unwrap();
    let mut first = follower(dir.path(), CheckpointPolicy::Every(RECENT_BYTES / 8));
    first.catch_up().unwrap();
    let begins_at = |dir: &Path| follower(dir, CheckpointPolicy::None).terminal.offset().0;
    let all = checkpoints(dir.path()).unwrap();
    let goal = lines.len() as u64 - RECENT_BYTES;
    let usable = all.partition_point(|(at, _)| *at <= goal);
    assert!(usable >= 4, "{usable} checkpoints before the goal");
    let earlier = fs::read(&all[0].1).unwrap();
    let foreign = {
        let other = tempfile::tempdir().unwrap();
        let (at, path) = &all[usable - 1];
        let file = fs::read(path).unwrap();
        let saved = verified_checkpoint(dir.path(), *at, &file).unwrap();
        write_checkpoint(other.path(), *at, saved).unwrap();
        fs::read(checkpoint_path(other.path(), *at)).unwrap()
    };
    let damages: [&dyn Fn(Vec<u8>) -> Vec<u8>; 5] = [
        // A letter of the screen becomes another letter.
        &|mut saved| {
            let at = saved.windows(5).position(|text| text == b"line ").unwrap();
            saved[at] ^= 1;
            saved
        },
        &|saved| saved[..saved.len() / 2].to_vec(),
        &|saved| vec![0; saved.len()],
        // A sound one of another offset.
        &|_| earlier.clone(),
        // A sound one of another pane.
        &|_| foreign.clone(),
    ];
    for damage in damages {
        let (at, newest) = &all[usable - 1];
        let sound = fs::read(newest).unwrap();
        assert_eq!(begins_at(dir.path()), *at);
        fs::write(newest, damage(sound.clone())).unwrap();
        assert_eq!(begins_at(dir.path()), all[usable - 2].0);
        let mut late = follower(dir.path(), CheckpointPolicy::None);
        late.catch_up().unwrap();
        assert_eq!(rows(&late.terminal), rows(&first.terminal));
        assert_eq!(late.terminal.end(), first.terminal.end());
        fs::write(newest, sound).unwrap();
    }
    for (_, path) in &all[..usable] {
        fs::write(path, "").unwrap();
    }
    assert_eq!(begins_at(dir.path()), 0);
}
