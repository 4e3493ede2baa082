//! What a holder leaves on disk beside the log, for a daemon that was not there: who the child is (`meta.<gen>`), how
//! it ended (`exit.<gen>`), and every size the terminal had (`sizes`). Tiny texts, written beside and renamed, so
//! that a reader sees all of one or nothing.
//!
//! A child's end must be recorded on a full disk too, so the file for it is made when the child starts, with room for any
//! ending, and is later overwritten in place, synced and renamed. That needs no new block on tmpfs, ext4 and xfs, where an
//! overwrite goes to the blocks that the file has. On btrfs and other copy-on-write filesystems an overwrite takes a new
//! block, which a full disk may refuse; the holder then tries again until there is one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::durable::sync_directory;
use crate::wire::{ChildExit, ProcessExit, ProcessIdentity};

/// `meta.<generation>`: written before the child starts, with its pid added after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRecord {
    pub generation: u32,
    pub holder: i32,
    /// `None`: a start was under way and nothing more is known.
    pub child: Option<ProcessIdentity>,
    /// Identities are of this boot.
    pub boot: String,
    pub rows: u16,
    pub cols: u16,
    pub log_cap: u64,
    pub segment: u64,
    /// See `Spec::marks`.
    pub marks: Vec<Vec<u8>>,
}

impl ChildRecord {
    pub fn path(dir: &Path, generation: u32) -> PathBuf {
        dir.join(format!("meta.{generation}"))
    }

    pub fn read(dir: &Path, generation: u32) -> io::Result<Option<ChildRecord>> {
        read(&ChildRecord::path(dir, generation), ChildRecord::parse)
    }

    pub fn parse(text: &str) -> Option<ChildRecord> {
        let fields = Fields(text);
        let child = match fields.get("pid") {
            Some(pid) => Some(ProcessIdentity {
                pid: pid.parse().ok()?,
                start_time: fields.number("start_time")?,
            }),
            None => None,
        };
        Some(ChildRecord {
            generation: fields.number("generation")?,
            holder: fields.number("holder")?,
            child,
            boot: fields.get("boot")?.to_owned(),
            rows: fields.number("rows")?,
            cols: fields.number("cols")?,
            log_cap: fields.number("log_cap")?,
            segment: fields.number("segment")?,
            marks: fields.all("mark").map(unescape).collect::<Option<_>>()?,
        })
    }

    /// Whether the child that it names runs.
    pub fn child_lives(&self) -> bool {
        let child = self.child.filter(|_| self.boot == boot_id());
        child.is_some_and(crate::proc::lives)
    }

    pub fn text(&self) -> String {
        let ChildRecord {
            generation,
            holder,
            child,
            boot,
            rows,
            cols,
            log_cap,
            segment,
            marks,
        } = self;
        let mut text = format!(
            "generation={generation}\nholder={holder}\nboot={boot}\nrows={rows}\ncols={cols}\n\
             log_cap={log_cap}\nsegment={segment}\n"
        );
        if let Some(ProcessIdentity { pid, start_time }) = child {
            text += &format!("pid={pid}\nstart_time={start_time}\n");
        }
        for mark in marks {
            text += &format!("mark={}\n", escape(mark));
        }
        text
    }

    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        replace(
            &ChildRecord::path(dir, self.generation),
            self.text().as_bytes(),
        )
    }

    /// Adds who holds and who is held now, as later lines that count. One small write to a page that is there: it is
    /// seen whole or not at all. (A rename over an existing file makes ext4 flush it, 10 ms in each start.)
    pub(crate) fn append_child(&self, dir: &Path) -> io::Result<()> {
        let Some(ProcessIdentity { pid, start_time }) = self.child else {
            return Ok(());
        };
        let lines = format!(
            "holder={}\npid={pid}\nstart_time={start_time}\n",
            self.holder
        );
        let path = ChildRecord::path(dir, self.generation);
        OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(lines.as_bytes())
    }
}

/// `exit.<generation>`: how the child ended, and where its output ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitRecord {
    pub exited: ChildExit,
    /// Unix milliseconds at which the holder recorded it.
    pub recorded_ms: u64,
}

impl ExitRecord {
    pub fn path(dir: &Path, generation: u32) -> PathBuf {
        dir.join(format!("exit.{generation}"))
    }

    pub fn read(dir: &Path, generation: u32) -> io::Result<Option<ExitRecord>> {
        read(&ExitRecord::path(dir, generation), ExitRecord::parse)
    }

    pub fn parse(text: &str) -> Option<ExitRecord> {
        let fields = Fields(text);
        let ending = match fields.get("ending")? {
            "code" => ProcessExit::Code(fields.number("code")?),
            "signal" => ProcessExit::Signal {
                signo: fields.number("signal")?,
                core: fields.get("core")? == "1",
            },
            "unknown" => ProcessExit::Unknown,
            _ => return None,
        };
        Some(ExitRecord {
            exited: ChildExit {
                ending,
                at: fields.number("at")?,
            },
            recorded_ms: fields.number("recorded_ms")?,
        })
    }

    pub fn text(&self) -> String {
        let ending = match self.exited.ending {
            ProcessExit::Code(code) => format!("ending=code\ncode={code}\n"),
            ProcessExit::Signal { signo, core } => {
                format!("ending=signal\nsignal={signo}\ncore={}\n", u8::from(core))
            }
            ProcessExit::Unknown => "ending=unknown\n".to_owned(),
        };
        format!(
            "{ending}at={}\nrecorded_ms={}\n",
            self.exited.at, self.recorded_ms
        )
    }

    /// Longer than any ending's text: the longest has a signal and two numbers of 64 bits.
    pub(crate) const RESERVED: usize = 256;

    /// Takes the room for an ending of this generation. To be asked for before the child starts.
    pub(crate) fn reserve(dir: &Path, generation: u32) -> io::Result<()> {
        let path = beside(&ExitRecord::path(dir, generation));
        create(&path)?.write_all(&[b'\n'; ExitRecord::RESERVED])
    }

    /// Gives the room back where no child was started.
    pub(crate) fn release(dir: &Path, generation: u32) {
        let _ = std::fs::remove_file(beside(&ExitRecord::path(dir, generation)));
    }

    /// Writes it into the room that was taken, if there is some.
    pub(crate) fn write(&self, dir: &Path, generation: u32) -> io::Result<()> {
        let path = ExitRecord::path(dir, generation);
        let reserved = beside(&path);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&reserved)?;
        // Empty lines say nothing, and cover what a write that failed may have left.
        let mut text = self.text().into_bytes();
        text.resize(text.len().max(ExitRecord::RESERVED), b'\n');
        file.write_all_at(&text, 0)?;
        file.sync_data()?;
        std::fs::rename(&reserved, path)?;
        sync_directory(dir)
    }
}

/// From `offset` of the log on, the terminal had this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeAt {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    /// A new generation begins a new terminal: modes and screen are fresh.
    pub generation: u32,
}

impl SizeAt {
    pub(crate) const LEN: usize = 16;
    // 4,096 resizes: what a person dragging a window for minutes makes.
    const COMPACT_ABOVE: u64 = 64 << 10;

    pub fn path(dir: &Path) -> PathBuf {
        dir.join("sizes")
    }

    /// All of them, oldest first. A torn last record is not there yet.
    pub fn read_all(dir: &Path) -> io::Result<Vec<SizeAt>> {
        match std::fs::read(SizeAt::path(dir)) {
            Ok(bytes) => Ok(SizeAt::decode_all(&bytes).collect()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Appends it. What is older than `log_first` is forgotten when the file has grown large.
    pub(crate) fn append(self, dir: &Path, log_first: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(SizeAt::path(dir))?;
        let len = file.metadata()?.len();
        if len > SizeAt::COMPACT_ABOVE {
            let all = SizeAt::read_all(dir)?;
            let kept = SizeAt::since(&all, log_first);
            let bytes: Vec<u8> = kept
                .iter()
                .chain([&self])
                .flat_map(|s| s.encode())
                .collect();
            return replace(&SizeAt::path(dir), &bytes);
        }
        // Over a record that a full disk tore.
        let at = len - len % SizeAt::LEN as u64;
        file.write_all_at(&self.encode(), at)
    }

    /// The last one at or before `first`, and all after it.
    fn since(all: &[SizeAt], first: u64) -> &[SizeAt] {
        let from = all.iter().rposition(|s| s.offset <= first).unwrap_or(0);
        &all[from..]
    }

    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = SizeAt> {
        bytes.chunks_exact(SizeAt::LEN).map(SizeAt::decode)
    }

    pub(crate) fn encode(self) -> [u8; SizeAt::LEN] {
        let mut bytes = Vec::with_capacity(SizeAt::LEN);
        let mut w = crate::wire::Writer(&mut bytes);
        w.u64(self.offset);
        w.u16(self.rows);
        w.u16(self.cols);
        w.u32(self.generation);
        let mut record = [0; SizeAt::LEN];
        record.copy_from_slice(&bytes);
        record
    }

    fn decode(b: &[u8]) -> SizeAt {
        SizeAt {
            offset: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            rows: u16::from_le_bytes([b[8], b[9]]),
            cols: u16::from_le_bytes([b[10], b[11]]),
            generation: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }
}

/// This boot's id, without which a pid and a start time mean nothing.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// Lines of `key=value`. Unknown keys are left to those who know them.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .lines()
            .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
    }

    /// The last one counts, so that a text can be brought up to date by adding to it.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.all(key).last()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

fn read<T>(path: &Path, parse: impl FnOnce(&str) -> Option<T>) -> io::Result<Option<T>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is not readable", path.display()),
            )
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Not synced: a power cut may lose the text. Only an ending has no other witness; a sync takes milliseconds, and who
/// starts a pane waits for them.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    create(&new)?.write_all(bytes)?;
    std::fs::rename(&new, path)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

/// Keeps a mark on its line: `%`, control bytes and what is not ASCII become `%XX`.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => text += &format!("%{byte:02X}"),
            printable => text.push(char::from(*printable)),
        }
    }
    text
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meta_survives_its_text() {
        let meta = ChildRecord {
            generation: 2,
            holder: 77,
            child: Some(ProcessIdentity {
                pid: 78,
                start_time: 12345,
            }),
            boot: "b".into(),
            rows: 40,
            cols: 120,
            log_cap: 64 << 20,
            segment: 4 << 20,
            marks: vec![b"FUGUE_PANE_ID=p1".to_vec(), b"X=50%\n\xff".to_vec()],
        };
        assert_eq!(ChildRecord::parse(&meta.text()), Some(meta.clone()));
        let starting = ChildRecord {
            child: None,
            ..meta.clone()
        };
        assert_eq!(ChildRecord::parse(&starting.text()), Some(starting.clone()));
        let dir = tempfile::tempdir().unwrap();
        starting.write(dir.path()).unwrap();
        assert_eq!(ChildRecord::read(dir.path(), 2).unwrap(), Some(starting));
        let replaced = ChildRecord { holder: 99, ..meta };
        replaced.append_child(dir.path()).unwrap();
        assert_eq!(ChildRecord::read(dir.path(), 2).unwrap(), Some(replaced));
    }

    #[test]
    fn an_exit_survives_its_text() {
        for ending in [
            ProcessExit::Code(0),
            ProcessExit::Code(255),
            ProcessExit::Signal {
                signo: 9,
                core: false,
            },
            ProcessExit::Signal {
                signo: 11,
                core: true,
            },
            ProcessExit::Unknown,
        ] {
            let record = ExitRecord {
                exited: ChildExit { ending, at: 99 },
                recorded_ms: 1,
            };
            assert_eq!(ExitRecord::parse(&record.text()), Some(record));
        }
        assert_eq!(ExitRecord::parse("ending=code\n"), None);
    }

    #[test]
    fn an_exit_is_written_into_its_room_and_without_room_as_well() {
        let record = ExitRecord {
            exited: ChildExit {
                ending: ProcessExit::Signal {
                    signo: i32::MIN,
                    core: true,
                },
                at: u64::MAX,
            },
            recorded_ms: u64::MAX,
        };
        assert!(record.text().len() <= ExitRecord::RESERVED);
        let dir = tempfile::tempdir().unwrap();
        let read = |generation| ExitRecord::read(dir.path(), generation).unwrap();
        ExitRecord::reserve(dir.path(), 1).unwrap();
        assert_eq!(read(1), None);
        record.write(dir.path(), 1).unwrap();
        record.write(dir.path(), 2).unwrap();
        assert_eq!((read(1), read(2)), (Some(record), Some(record)));
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "nothing lies beside them");
    }

    #[test]
    fn a_torn_size_is_written_over_and_old_ones_are_forgotten_in_bulk() {
        let dir = tempfile::tempdir().unwrap();
        let size = |offset| SizeAt {
            offset,
            rows: 1,
            cols: 2,
            generation: 3,
        };
        size(0).append(dir.path(), 0).unwrap();
        let path = SizeAt::path(dir.path());
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend([7; 5]);
        std::fs::write(&path, torn).unwrap();
        assert_eq!(SizeAt::read_all(dir.path()).unwrap(), [size(0)]);
        size(10).append(dir.path(), 0).unwrap();
        assert_eq!(SizeAt::read_all(dir.path()).unwrap(), [size(0), size(10)]);
        for offset in 11..5000 {
            size(offset).append(dir.path(), 4000).unwrap();
        }
        let all = SizeAt::read_all(dir.path()).unwrap();
        assert!(all.len() < 4200, "{}", all.len());
        assert!(
            all.iter().any(|s| s.offset <= 4000),
            "the size at the log's first byte is known"
        );
        assert_eq!(all.last(), Some(&size(4999)));
    }
}
