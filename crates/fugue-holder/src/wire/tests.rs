//! Every message survives encoding, however the stream is split, and no bytes cause harm.

use super::*;

fn to_holder() -> Vec<ToHolder> {
    let spec = ChildSpec {
        argv: vec![b"sh".to_vec(), b"-c".to_vec(), b"\xff\x00x".to_vec()],
        env: vec![(b"A".to_vec(), b"1".to_vec()), (b"".to_vec(), b"".to_vec())],
        cwd: b"/tmp".to_vec(),
        rows: 40,
        cols: 120,
        umask: 0o22,
        nofile: Some(1024),
        log_cap: ChildSpec::LOG_CAP,
        segment: ChildSpec::segment_for(ChildSpec::LOG_CAP),
        marks: vec![b"FUGUE_PANE_ID=p1".to_vec()],
        kept: vec![FdUse::AlsoChild(10), FdUse::HolderOnly],
    };
    let typed = InputMessage {
        seq: 7,
        key: [9; 16],
        kind: InputKind::Typed,
        bytes: b"ls\r".to_vec(),
    };
    let answer = InputMessage {
        kind: InputKind::Answer { at: u64::MAX },
        ..typed.clone()
    };
    vec![
        ToHolder::Hello {
            version: VERSION,
            epoch: 3,
        },
        ToHolder::Start(spec.clone()),
        ToHolder::Start(ChildSpec {
            nofile: None,
            kept: vec![],
            env: vec![],
            ..spec
        }),
        ToHolder::Input(typed),
        ToHolder::Input(answer),
        ToHolder::Resize {
            id: 1,
            rows: 2,
            cols: 3,
        },
        ToHolder::Signal {
            id: 1,
            target: SignalTarget::Foreground,
            signo: 2,
        },
        ToHolder::Signal {
            id: 1,
            target: SignalTarget::Session,
            signo: 15,
        },
        ToHolder::Signal {
            id: 1,
            target: SignalTarget::Child,
            signo: 9,
        },
        ToHolder::Close {
            id: 1,
            grace_ms: 2000,
        },
        ToHolder::Probe { id: u64::MAX },
        ToHolder::Leave,
    ]
}

fn to_daemon() -> Vec<ToDaemon> {
    let child = ProcessIdentity {
        pid: 5,
        start_time: 6,
    };
    let exited = ChildExit {
        ending: ProcessExit::Signal {
            signo: 11,
            core: true,
        },
        output_end: 99,
    };
    let hello = HelloOk {
        version: VERSION,
        holder: 4,
        generation: 2,
        lossless: true,
        state: ChildState::Exited { child, exited },
        log_end: 99,
        last_input_seq: 8,
        answered_upto: 50,
        rows: 40,
        cols: 120,
        stalled: Some(28),
        closing: true,
        child_pidfd: true,
        kept: 3,
    };
    let key = [1; 16];
    let state = |outcome| {
        ToDaemon::InputState(InputState {
            seq: 1,
            key,
            written: 2,
            total: 3,
            outcome,
        })
    };
    let refused = |reason| ToDaemon::Refused {
        reason,
        errno: 28,
        what: "é".into(),
    };
    let reader = Some(TtyReader {
        pid: 9,
        secret: true,
    });
    let probe = ForegroundProbe {
        reader,
        unreadable: true,
        child_comm: "bash".into(),
        ..ForegroundProbe::default()
    };
    let mut messages: Vec<ToDaemon> = vec![
        ToDaemon::HelloOk(hello),
        ToDaemon::HelloOk(HelloOk {
            state: ChildState::Empty,
            stalled: None,
            kept: 0,
            ..hello
        }),
        ToDaemon::HelloOk(HelloOk {
            state: ChildState::Running(child),
            child_pidfd: false,
            ..hello
        }),
        ToDaemon::Started(child),
        ToDaemon::StartFailed {
            what: "cwd /x".into(),
            errno: 2,
        },
        ToDaemon::Probed { id: 3, probe },
        ToDaemon::Closed { id: 4, left: 1 },
        ToDaemon::Stalled { errno: 28 },
        ToDaemon::LogWritable,
        ToDaemon::ViewKeys {
            bytes: b"y\r\0\xff".to_vec(),
        },
        ToDaemon::Resized { rows: 50, cols: 9 },
        ToDaemon::ExitPending(ChildExit {
            ending: ProcessExit::Code(3),
            output_end: 9,
        }),
        ToDaemon::Done { id: 1 },
        ToDaemon::Failed {
            id: 1,
            errno: 3,
            what: String::new(),
        },
        ToDaemon::Unknown { kind: 200 },
    ];
    messages.extend(
        [
            InputOutcome::Written,
            InputOutcome::Pending,
            InputOutcome::Duplicate,
            InputOutcome::Lost,
        ]
        .map(state),
    );
    let refusals = [
        RefusalReason::NotYours,
        RefusalReason::Fenced,
        RefusalReason::NoHello,
        RefusalReason::Broken,
        RefusalReason::Replaced,
    ];
    messages.extend(refusals.map(refused));
    for ending in [
        ProcessExit::Code(0),
        ProcessExit::Code(-1),
        ProcessExit::Signal {
            signo: 9,
            core: false,
        },
        ProcessExit::Unknown,
    ] {
        messages.push(ToDaemon::Exited(ChildExit {
            ending,
            output_end: u64::MAX,
        }));
    }
    messages
}

/// All messages in one stream, fed in pieces of every small size and at once.
fn survives_any_cut<M: WireMessage + PartialEq + std::fmt::Debug + Clone>(messages: &[M]) {
    let mut stream = Vec::new();
    for message in messages {
        message.encode(&mut stream);
    }
    for piece in (1..40).chain([stream.len()]) {
        let mut frames = WireFrameDecoder::default();
        let mut got = Vec::new();
        for bytes in stream.chunks(piece) {
            frames.feed(bytes);
            while let Some(frame) = frames.next::<M>().unwrap() {
                got.push(frame);
            }
        }
        let wanted: Vec<HolderFrame<M>> =
            messages.iter().cloned().map(HolderFrame::Known).collect();
        assert_eq!(got, wanted, "pieces of {piece}");
    }
}

#[test]
fn every_message_survives_its_bytes_whatever_the_cuts() {
    survives_any_cut(&to_holder());
    survives_any_cut(&to_daemon());
}

#[test]
fn the_bytes_of_version_1_are_frozen() {
    let mut bytes = Vec::new();
    ToHolder::Hello {
        version: 1,
        epoch: 258,
    }
    .encode(&mut bytes);
    ToHolder::Close {
        id: 7,
        grace_ms: 2000,
    }
    .encode(&mut bytes);
    ToDaemon::Exited(ChildExit {
        ending: ProcessExit::Code(3),
        output_end: 9,
    })
    .encode(&mut bytes);
    let wanted: &[&[u8]] = &[
        &[11, 0, 0, 0, 1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0],
        &[13, 0, 0, 0, 6, 7, 0, 0, 0, 0, 0, 0, 0, 208, 7, 0, 0],
        &[14, 0, 0, 0, 6, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, wanted.concat());
}

#[test]
fn a_message_cut_short_is_bad_and_one_made_longer_is_understood() {
    fn check<M: WireMessage + PartialEq + std::fmt::Debug + Clone>(messages: &[M]) {
        for message in messages {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let (kind, fields) = (bytes[4], &bytes[5..]);
            for cut in 0..fields.len() {
                assert!(
                    M::decode(kind, &fields[..cut]).is_err(),
                    "{message:?} cut at {cut}"
                );
            }
            let longer = [fields, &[1, 2, 3]].concat();
            assert_eq!(
                M::decode(kind, &longer),
                Ok(HolderFrame::Known(message.clone()))
            );
        }
    }
    check(&to_holder());
    check(&to_daemon());
}

#[test]
fn an_unknown_kind_is_skipped_and_the_next_frame_is_read() {
    let mut frames = WireFrameDecoder::default();
    frames.feed(&[4, 0, 0, 0, 77, 1, 2, 3]);
    let mut leave = Vec::new();
    ToHolder::Leave.encode(&mut leave);
    frames.feed(&leave);
    assert_eq!(
        frames.next::<ToHolder>(),
        Ok(Some(HolderFrame::Unknown { kind: 77 }))
    );
    assert_eq!(
        frames.next::<ToHolder>(),
        Ok(Some(HolderFrame::Known(ToHolder::Leave)))
    );
    assert_eq!(frames.next::<ToHolder>(), Ok(None));
}

#[test]
fn any_bytes_give_frames_or_an_error_and_never_a_panic() {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let seeds: Vec<Vec<u8>> = to_holder()
        .iter()
        .map(|m| {
            let mut bytes = Vec::new();
            m.encode(&mut bytes);
            bytes
        })
        .collect();
    for _ in 0..20_000 {
        let mut bytes = seeds[random() as usize % seeds.len()].clone();
        // A valid frame with a few changed bytes reaches deeper into the decoder than noise does.
        for _ in 0..random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        let mut frames = WireFrameDecoder::default();
        for piece in bytes.chunks(1 + random() as usize % 20) {
            frames.feed(piece);
            while let Ok(Some(_)) = frames.next::<ToHolder>() {}
        }
        let _ = ToDaemon::decode(bytes[4], &bytes[5..]);
    }
    for length in [0u32, (MAX_FRAME + 1) as u32, u32::MAX] {
        let mut frames = WireFrameDecoder::default();
        frames.feed(&length.to_le_bytes());
        assert!(frames.next::<ToHolder>().is_err());
    }
}
