use sha2::{Digest, Sha256};

use crate::shell::steps::{RecordEvent, StepRecords, StepSecret, key, parse, read};

const PLAN: u64 = 3;
const MAX_STEPS: usize = 40;

/// Any bytes as the log of a pipeline's steps, to which the steps themselves may write. A line without its key is no record,
/// and records of a prefix of the log stay valid with the rest.
///
/// In a line whose last word is `K` that word becomes the key that the shell would have written.
pub fn steps(bytes: &[u8]) {
    let secret = secret_for(bytes);
    let forged = read(bytes, PLAN, secret);
    assert_eq!(
        (forged.steps.len(), forged.done),
        (0, false),
        "a forged record"
    );

    let mut log = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line
            .strip_suffix(b" K\n")
            .and_then(|record| keyed(record, secret))
        {
            Some(keyed) => log.extend(keyed),
            None => log.extend(line),
        }
    }
    let all = read(&log, PLAN, secret);
    assert!(all.steps.len() <= MAX_STEPS);
    let ends = log.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let lines = log
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    assert!(all.ignored <= lines.count());
    // A few prefixes: all of them would make a long log slow.
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    for end in ends.iter().rev().step_by(ends.len() / 4 + 1) {
        check_prefix(&read(&log[..*end], PLAN, secret), &all);
    }
}

/// A secret for each input: a fuzzer observes comparisons and would soon find a fixed key.
fn secret_for(bytes: &[u8]) -> StepSecret {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|index| digest[index])
}

fn keyed(record: &[u8], secret: StepSecret) -> Option<Vec<u8>> {
    let whole = [record, b" K"].concat();
    let (event, ..) = parse(&whole)?;
    match event {
        RecordEvent::Started(step) | RecordEvent::Ended(step) if step > MAX_STEPS => return None,
        RecordEvent::Started(_) | RecordEvent::Ended(_) | RecordEvent::Done => {}
    }
    Some([record, b" ", key(secret, PLAN, event).as_bytes(), b"\n"].concat())
}

fn check_prefix(part: &StepRecords, all: &StepRecords) {
    assert!(part.steps.len() <= all.steps.len());
    assert!(part.done <= all.done && part.ignored <= all.ignored);
    for (earlier, later) in part.steps.iter().zip(&all.steps) {
        assert!(earlier.started <= later.started);
        assert!(earlier.started_us.is_none() || earlier.started_us == later.started_us);
        assert!(earlier.ended.is_none() || earlier.ended == later.ended);
    }
}
