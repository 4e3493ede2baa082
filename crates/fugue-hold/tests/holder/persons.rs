//! Persons who type on connections of their own.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fugue_hold::DaemonLink;
use fugue_hold::wire::{Ending, Frame, ToDaemon, ToHolder};
use rustix::event::PollFlags;

use super::world::{LIMIT, Pane, text};

/// A person at this pane.
fn person(pane: &Pane) -> Pane {
    person_and_fd(pane).0
}

/// And what is bumped for it.
fn person_and_fd(pane: &Pane) -> (Pane, OwnedFd) {
    let mut link = DaemonLink::connect(&pane.socket()).unwrap();
    link.push(&ToHolder::Person, Vec::new()).unwrap();
    link.flush().unwrap();
    let mut fds = loop {
        super::world::wait(&[(link.as_fd(), PollFlags::IN)]);
        link.fill().unwrap();
        if let Some((Frame::Known(ToDaemon::Admitted { .. }), fds)) = link.next().unwrap() {
            break fds;
        }
    };
    let mut person = Pane::unborn(tempfile::tempdir().unwrap(), pane.dir.clone());
    person.link = Some(link);
    (person, fds.remove(0))
}

fn keys(person: &mut Pane, bytes: &[u8]) {
    let bytes = bytes.to_vec();
    person.send(&ToHolder::Keys { bytes });
}

fn keyed(pane: &mut Pane) -> Vec<u8> {
    pane.expect(|m| match m {
        ToDaemon::Keyed { bytes } => Some(bytes.clone()),
        _ => None,
    })
}

#[test]
fn what_persons_type_is_typed_in_order_and_told_before_its_echo() {
    let mut pane = Pane::sh("stty -echo; echo ready; exec cat");
    pane.read_until_text("ready");
    let mut persons = [person(&pane), person(&pane)];
    let mut seen = pane.seen.len();
    for n in 0..200 {
        let line = format!("line {n}\n");
        keys(&mut persons[n % 2], line.as_bytes());
        // Nothing is read of the socket here, only of the log; by then the word is there already.
        pane.read_until(|all| text(&all[seen..]).contains(line.trim()));
        seen = pane.seen.len();
        pane.hear();
        assert_eq!(keyed(&mut pane), line.as_bytes());
    }
    assert!(matches!(pane.input(1, 1, b"from the daemon\n").written, 16));
    pane.read_until_text("from the daemon");
}

/// How many messages of keys are acknowledged, when that is `count`.
fn acknowledged(person: &mut Pane, count: u64) {
    person.expect(|m| match m {
        ToDaemon::KeysWritten { count: now } => (*now == count).then_some(()),
        _ => None,
    });
}

#[test]
fn keys_are_acknowledged_when_the_terminal_has_taken_them() {
    let mut pane = Pane::sh("stty raw -echo; echo ready; exec sleep 1000");
    pane.read_until_text("ready");
    let mut persons = [person(&pane), person(&pane)];
    for (n, person) in persons.iter_mut().enumerate() {
        for _ in 0..=n {
            keys(person, b"x");
        }
        acknowledged(person, n as u64 + 1);
    }
    // More than a terminal takes from a program that does not read: what waits is not acknowledged.
    keys(&mut persons[0], &[b'y'; 64 << 10]);
    keys(&mut persons[0], b"z");
    while keyed(&mut pane) != [b'y'; 64 << 10] {}
    // An answer comes behind what the holder had to acknowledge.
    pane.probe();
    pane.kill_holder();
    persons[0].hear_the_end();
    assert_eq!(persons[0].waiting(), 0, "neither of the two");
}

#[test]
fn persons_type_on_while_no_daemon_is_there_and_leave_when_they_like() {
    let mut pane = Pane::sh("exec cat");
    let mut one = person(&pane);
    pane.link = None;
    keys(&mut one, b"alone\n");
    one.link = None;
    let mut other = person(&pane);
    keys(&mut other, b"together\n");
    pane.connect();
    pane.greet();
    pane.read_until_text("together");
    assert!(text(&pane.seen).contains("alone"));
}

#[test]
fn a_program_that_does_not_read_makes_a_person_wait_and_loses_nothing() {
    let mut pane = Pane::empty();
    let gate = pane.home().join("gate");
    let script = format!(
        "stty raw -echo; mkfifo {0}; echo ready; read x < {0}; head -c 300000 | wc -c; exec cat",
        gate.display()
    );
    let spec = pane.spec(&["sh", "-c", &script]);
    pane.start(spec);
    pane.read_until_text("ready");
    let mut person = person(&pane);
    let link = person.link.as_mut().unwrap();
    let mut sent = 0;
    // Until nothing more is taken: the terminal's own room, one turn of the holder's, and the socket's.
    while sent < 300_000 {
        link.push(
            &ToHolder::Keys {
                bytes: vec![b'x'; 1000],
            },
            Vec::new(),
        )
        .unwrap();
        sent += 1000;
        if link.flush().unwrap() == fugue_hold::Flushed::Later {
            break;
        }
    }
    assert!(sent < 300_000, "somebody took everything");
    std::fs::write(gate, "go\n").unwrap();
    while link.flush().unwrap() == fugue_hold::Flushed::Later {
        super::world::wait(&[(link.as_fd(), PollFlags::OUT)]);
    }
    while sent < 300_000 {
        keys(&mut person, &[b'x'; 1000]);
        sent += 1000;
    }
    pane.read_until_text("300000");
}

#[test]
fn a_person_hears_of_the_end_and_garbage_ends_only_its_own_connection() {
    let mut pane = Pane::sh("read x; exit 3");
    let mut good = person(&pane);
    for garbage in [
        &b"\xff\xff\xff\xff"[..],
        b"\x01\0\0\0\x07",
        b"\x05\0\0\0\x01abcd",
    ] {
        let mut bad = UnixStream::connect(pane.socket()).unwrap();
        bad.set_read_timeout(Some(LIMIT)).unwrap();
        bad.write_all(&[b"\x01\0\0\0\x09", garbage].concat())
            .unwrap();
        let mut said = Vec::new();
        // Closed with something unread in it, a socket says so.
        let _ = bad.read_to_end(&mut said);
        assert_eq!(said[4], 17, "it was admitted");
    }
    // More than there is room for: the oldest go.
    let mut crowd: Vec<Pane> = (0..9).map(|_| person(&pane)).collect();
    good.hear_the_end();
    keys(&mut crowd[8], b"\n");
    let (exited, _) = pane.output();
    assert_eq!(exited.ending, Ending::Code(3));
    crowd[8].hear_the_end();
    let mut late = Pane::unborn(tempfile::tempdir().unwrap(), pane.dir.clone());
    late.link = Some(DaemonLink::connect(&pane.socket()).unwrap());
    late.send(&ToHolder::Person);
    late.hear_the_end();
}

#[test]
fn a_person_is_told_of_what_comes_of_a_key_and_not_of_what_comes_by_itself() {
    let mut pane = Pane::sh(
        "stty -echo; echo ready; while read x; do seq 40 | while read n; do echo $x $n; sleep 0.001; done; done",
    );
    pane.read_until_text("ready");
    let (mut one, grew) = person_and_fd(&pane);
    let (_other, others) = person_and_fd(&pane);
    assert_eq!(bumps(&grew), 0);
    for round in ["first", "second"] {
        keys(&mut one, format!("{round}\n").as_bytes());
        super::world::wait(&[(grew.as_fd(), PollFlags::IN)]);
        pane.read_until_text(&format!("{round} 40"));
        let told = bumps(&grew);
        assert!((1..=16).contains(&told), "{told} in {round}");
    }
    assert_eq!(bumps(&others), 0);
}

/// How often it was bumped since this was asked last.
fn bumps(fd: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(fd, &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        _ => 0,
    }
}
