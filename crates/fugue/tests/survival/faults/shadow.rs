//! The power-cut model: what a disk is bound to hold of a directory tree, and what it may hold.
//!
//! A file's bytes are durable as they were at its last sync; a directory's entries as they were at the directory's last
//! sync. Everything since may be there, in part or not at all: appended bytes up to any length, overwritten blocks old
//! or new, blocks that were allocated and never written as zeros, new names missing, removed names back. A rename
//! leaves the file under one of its two names. This is what POSIX promises, and less than any filesystem gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File, Metadata},
    io::Read,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use fugue_testkit::{SeededRng, supervisor::SupervisedCall};

/// A file, told from a later one with the same inode number by when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    inode: u64,
    made: u128,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        let made = metadata.created().ok();
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: metadata.ino(),
            made: made.map_or(0, |since| since.as_nanos()),
        }
    }
}

/// What of a tree is durable.
pub struct Shadow {
    root: PathBuf,
    files: BTreeMap<FileId, Vec<u8>>,
    directories: BTreeMap<FileId, BTreeMap<OsString, FileId>>,
    pub syncs: u64,
}

/// A tree as a disk may hold it after a power cut.
enum Node {
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Directory {
        mode: u32,
        entries: BTreeMap<OsString, Node>,
    },
    /// Nobody listens on it any more.
    Socket,
    Link(PathBuf),
}

/// How much the disk had written that nobody asked it to.
#[derive(Clone, Copy)]
enum Luck {
    All,
    Nothing,
    Some,
}

impl Luck {
    fn of(chance: &mut SeededRng) -> Self {
        match chance.below(4) {
            0 => Luck::All,
            1 => Luck::Nothing,
            _ => Luck::Some,
        }
    }

    fn has(self, chance: &mut SeededRng) -> bool {
        match self {
            Luck::All => true,
            Luck::Nothing => false,
            Luck::Some => chance.one_in(2),
        }
    }
}

impl Shadow {
    /// A tree of which everything is durable. `root` itself is there.
    pub fn of(root: &Path) -> Self {
        let mut shadow = Self {
            root: root.to_owned(),
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            syncs: 0,
        };
        shadow.take_all(root);
        shadow
    }

    fn take_all(&mut self, dir: &Path) {
        let Ok(metadata) = fs::metadata(dir) else {
            return;
        };
        self.directories.insert(FileId::of(&metadata), entries(dir));
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                self.take_all(&entry.path());
            } else if metadata.is_file() {
                let bytes = fs::read(entry.path()).expect("a file of the test's own");
                self.files.insert(FileId::of(&metadata), bytes);
            }
        }
    }

    /// Takes over what a sync is about to make durable.
    pub fn sync(&mut self, call: &SupervisedCall) {
        let Some(path) = call.fd_path(0).filter(|path| path.starts_with(&self.root)) else {
            return;
        };
        let Ok(mut file) = call.open_fd(0) else {
            return;
        };
        let Ok(metadata) = file.metadata() else {
            return;
        };
        self.syncs += 1;
        if metadata.is_dir() {
            self.directories
                .insert(FileId::of(&metadata), entries(&path));
        } else {
            self.files
                .insert(FileId::of(&metadata), bytes_of(&mut file));
        }
    }

    /// Puts the tree into a state that a power cut at this moment may leave. No process uses it any more.
    pub fn cut(&mut self, chance: &mut SeededRng) {
        let luck = Luck::of(chance);
        let metadata = fs::metadata(&self.root).expect("the root is there");
        let node = self.directory(FileId::of(&metadata), Some(&self.root), 0o700, luck, chance);
        fs::remove_dir_all(&self.root).expect("the test's own directory");
        node.write(&self.root);
        *self = Self::of(&self.root);
    }

    fn directory(
        &self,
        id: FileId,
        path: Option<&Path>,
        mode: u32,
        luck: Luck,
        chance: &mut SeededRng,
    ) -> Node {
        let nothing = BTreeMap::new();
        let durable = self.directories.get(&id).unwrap_or(&nothing);
        let current = path.map(entries).unwrap_or_default();
        let names: BTreeSet<&OsString> = durable.keys().chain(current.keys()).collect();
        let durable_ids: BTreeSet<FileId> = durable.values().copied().collect();
        let current_ids: BTreeSet<FileId> = current.values().copied().collect();
        // Whether the rename of a file that had a durable name reached the disk: once for both of its names.
        let mut renamed: BTreeMap<FileId, bool> = BTreeMap::new();
        for id in durable_ids.intersection(&current_ids) {
            renamed.insert(*id, luck.has(chance));
        }
        let mut found = BTreeMap::new();
        for name in names {
            let (old, new) = (durable.get(name), current.get(name));
            let takes_new = match new {
                _ if old == new => true,
                Some(id) => renamed.get(id).copied().unwrap_or_else(|| luck.has(chance)),
                // The name is gone: by a rename, or removed.
                None => old
                    .and_then(|id| renamed.get(id).copied())
                    .unwrap_or_else(|| luck.has(chance)),
            };
            let chosen = if takes_new { new } else { old };
            let Some(&chosen) = chosen else { continue };
            // A file that is durable under another name is read from where it is now.
            let now = current
                .iter()
                .find(|(_, id)| **id == chosen)
                .and_then(|(name, _)| Some(path?.join(name)));
            if let Some(node) = self.node(chosen, now.as_deref(), luck, chance) {
                found.insert(name.clone(), node);
            }
        }
        Node::Directory {
            mode,
            entries: found,
        }
    }

    fn node(
        &self,
        id: FileId,
        now: Option<&Path>,
        luck: Luck,
        chance: &mut SeededRng,
    ) -> Option<Node> {
        let Some(path) = now else {
            // Removed, and back again: with what was durable of it.
            return if self.directories.contains_key(&id) {
                Some(self.directory(id, None, 0o700, luck, chance))
            } else {
                let bytes = self.files.get(&id).cloned().unwrap_or_default();
                Some(Node::File { mode: 0o600, bytes })
            };
        };
        let metadata = fs::symlink_metadata(path).ok()?;
        let kind = metadata.file_type();
        let mode = metadata.permissions().mode() & 0o777;
        Some(if kind.is_dir() {
            self.directory(id, Some(path), mode, luck, chance)
        } else if kind.is_socket() {
            Node::Socket
        } else if kind.is_symlink() {
            Node::Link(fs::read_link(path).ok()?)
        } else {
            let now = fs::read(path).expect("a file of the test's own");
            let nothing = Vec::new();
            let durable = self.files.get(&id).unwrap_or(&nothing);
            Node::File {
                mode,
                bytes: torn(durable, &now, luck, chance),
            }
        })
    }
}

/// Bytes as a disk may hold them that had to hold `durable` and was given `now`.
fn torn(durable: &[u8], now: &[u8], luck: Luck, chance: &mut SeededRng) -> Vec<u8> {
    match luck {
        Luck::All => return now.to_vec(),
        Luck::Nothing => return durable.to_vec(),
        Luck::Some => {}
    }
    let (short, long) = (durable.len().min(now.len()), durable.len().max(now.len()));
    let length = short + chance.below((long - short) as u64 + 1) as usize;
    let block = if chance.one_in(2) { 512 } else { 4096 };
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let range = bytes.len()..(bytes.len() + block).min(length);
        let part = |from: &[u8]| -> Vec<u8> {
            // What was never written there is zeros.
            let mut part = from
                .get(range.start..range.end.min(from.len()))
                .unwrap_or(&[])
                .to_vec();
            part.resize(range.len(), 0);
            part
        };
        let (old, new) = (part(durable), part(now));
        let is_new = range.start >= durable.len() || chance.one_in(2);
        let chosen = if !is_new {
            old
        } else if range.end > durable.len() && chance.one_in(8) {
            // Allocated and never written; what was durable of the block stays.
            let kept = durable.len().saturating_sub(range.start);
            let mut zeros = new;
            zeros[kept..].fill(0);
            zeros
        } else {
            new
        };
        bytes.extend(chosen);
    }
    bytes
}

fn entries(dir: &Path) -> BTreeMap<OsString, FileId> {
    let Ok(read) = fs::read_dir(dir) else {
        return BTreeMap::new();
    };
    read.flatten()
        .filter_map(|entry| Some((entry.file_name(), FileId::of(&entry.metadata().ok()?))))
        .collect()
}

fn bytes_of(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .expect("a file of the test's own");
    bytes
}

impl Node {
    fn write(&self, path: &Path) {
        match self {
            Node::File { mode, bytes } => {
                fs::write(path, bytes).expect("a file");
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).expect("its mode");
            }
            Node::Directory { mode, entries } => {
                fs::create_dir(path).expect("a directory");
                for (name, node) in entries {
                    node.write(&path.join(name));
                }
                fs::set_permissions(path, fs::Permissions::from_mode(*mode)).expect("its mode");
            }
            // The socket file stays behind its listener.
            Node::Socket => drop(UnixListener::bind(path)),
            Node::Link(to) => std::os::unix::fs::symlink(to, path).expect("a link"),
        }
    }
}

#[test]
fn a_synced_part_is_kept_and_the_rest_is_any() {
    let mut chance = SeededRng::with_seed(7);
    let (durable, now) = (vec![1; 5000], vec![2; 9000]);
    let mut lengths = BTreeSet::new();
    for _ in 0..200 {
        let bytes = torn(&durable, &now, Luck::Some, &mut chance);
        assert!((5000..=9000).contains(&bytes.len()));
        assert!(bytes[..4096].iter().all(|byte| matches!(byte, 1 | 2)));
        lengths.insert(bytes.len());
    }
    assert!(lengths.len() > 100);
    let appended = [&durable[..], &now[..]].concat();
    for _ in 0..200 {
        let bytes = torn(&durable, &appended, Luck::Some, &mut chance);
        assert_eq!(
            bytes[..5000],
            durable[..],
            "what was synced and not written since"
        );
    }
}

#[test]
fn a_rename_leaves_one_of_its_names_and_an_unsynced_name_may_be_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("root");
    let mut outcomes = BTreeSet::new();
    for seed in 0..40 {
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).expect("a directory");
        fs::write(root.join("old"), "durable").expect("a file");
        let mut shadow = Shadow::of(&root);
        fs::rename(root.join("old"), root.join("new")).expect("a rename");
        fs::write(root.join("fresh"), "unsynced").expect("a file");
        shadow.cut(&mut SeededRng::with_seed(seed));
        let names: Vec<_> = entries(&root).into_keys().collect();
        let renamed = names.iter().filter(|name| *name != "fresh").count();
        assert_eq!(renamed, 1, "{names:?}");
        outcomes.insert(names);
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}
