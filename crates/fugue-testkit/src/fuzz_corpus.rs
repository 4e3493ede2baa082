use std::{fs, panic::catch_unwind, path::Path};

/// Runs every input of a fuzz target's corpus through the target, so that a bug that was found by fuzzing stays fixed.
#[track_caller]
pub fn replay_corpus(target: &str, check: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let inputs = fs::read_dir(dir.join(target)).expect("a corpus of that name");
    let mut replayed = 0;
    for input in inputs {
        let path = input.expect("an input").path();
        let bytes = fs::read(&path).expect("an input that can be read");
        // The panic message has been printed by now.
        if catch_unwind(|| check(&bytes)).is_err() {
            panic!("{} breaks `{target}`", path.display());
        }
        replayed += 1;
    }
    assert!(replayed > 0, "the corpus of `{target}` is empty");
}
