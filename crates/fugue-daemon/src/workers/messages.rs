//! Last messages of workers that are too long for an event, kept whole in files.

use std::{fs, path::Path};

use fugue_api::Error;
use fugue_core::LongMessage;

use crate::agents::files;

// The limit of files of a worker. The oldest is removed.
const MAX_FILES: usize = 16;

/// Writes a message into a file of the worker and returns its path.
pub fn keep(dir: &Path, message: &LongMessage) -> Result<String, Error> {
    let mut kept: Vec<u64> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| number_of(entry.file_name().to_str()?))
        .collect();
    kept.sort_unstable();
    let next = kept.last().map_or(1, |last| last + 1);
    for oldest in kept.iter().take((kept.len() + 1).saturating_sub(MAX_FILES)) {
        let _ = fs::remove_file(dir.join(name_of(*oldest)));
    }
    files::write(dir, &name_of(next), &message.0).map(|path| files::text(&path))
}

fn name_of(number: u64) -> String {
    format!("message-{number}.txt")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("message-")?
        .strip_suffix(".txt")?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut last = String::new();
        for number in 1..=20 {
            last = keep(dir.path(), &LongMessage(format!("message {number}"))).unwrap();
        }
        assert_eq!(fs::read_to_string(last).unwrap(), "message 20");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MAX_FILES);
        assert!(!dir.path().join("message-4.txt").exists());
        assert!(dir.path().join("message-5.txt").exists());
    }
}
