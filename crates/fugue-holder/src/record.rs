//! The records that a holder leaves beside the log, for daemons that start later: the identity of the child
//! (`meta.<gen>`), its exit (`exit.<gen>`), and every size of the terminal (`sizes`). The records are small texts,
//! written to a temporary file and renamed, so that a reader sees a complete record or none.
//!
//! A child's exit must be recorded on a full disk too. The file for it is created when the child starts, with space for
//! any exit, and is later overwritten in place, synced and renamed. On tmpfs, ext4 and xfs that needs no new block,
//! because an overwrite uses the blocks of the file. On btrfs and other copy-on-write filesystems an overwrite needs a
//! new block, which a full disk may refuse; the holder then retries until a block is free.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::durable::sync_directory;
use crate::wire::{ChildExit, ProcessExit, ProcessIdentity};

/// `meta.<generation>`: written before the child starts; its pid is appended afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRecord {
    pub generation: u32,
    pub holder: i32,
    /// `None`: a start was in progress, and nothing more is known.
    pub child: Option<ProcessIdentity>,
    /// The boot to which the process identities belong.
    pub boot: String,
    pub rows: u16,
    pub cols: u16,
    pub log_cap: u64,
    pub segment: u64,
    /// See [`crate::wire::ChildSpec::marks`].
    pub marks: Vec<Vec<u8>>,
}

impl ChildRecord {
    pub fn path(dir: &Path, generation: u32) -> PathBuf {
        dir.join(format!("meta.{generation}"))
    }

    pub fn read(dir: &Path, generation: u32) -> io::Result<Option<ChildRecord>> {
        read_record(&ChildRecord::path(dir, generation), ChildRecord::parse)
    }

    pub fn parse(text: &str) -> Option<ChildRecord> {
        let fields = RecordFields(text);
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

    /// Whether the recorded child is running.
    pub fn is_child_alive(&self) -> bool {
        let child = self.child.filter(|_| self.boot == boot_id());
        child.is_some_and(crate::proc::is_alive)
    }

    pub fn to_text(&self) -> String {
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
        write_and_rename(
            &ChildRecord::path(dir, self.generation),
            self.to_text().as_bytes(),
        )
    }

    /// Appends the current holder and child as further lines, which take precedence over earlier ones. One small write
    /// to an existing page is seen completely or not at all. (A rename over an existing file makes ext4 flush it, 10 ms
    /// in each start.)
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
    /// Unix time in milliseconds at which the holder recorded the exit.
    pub recorded_ms: u64,
}

impl ExitRecord {
    pub fn path(dir: &Path, generation: u32) -> PathBuf {
        dir.join(format!("exit.{generation}"))
    }

    pub fn read(dir: &Path, generation: u32) -> io::Result<Option<ExitRecord>> {
        read_record(&ExitRecord::path(dir, generation), ExitRecord::parse)
    }

    pub fn parse(text: &str) -> Option<ExitRecord> {
        let fields = RecordFields(text);
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
                output_end: fields.number("at")?,
            },
            recorded_ms: fields.number("recorded_ms")?,
        })
    }

    pub fn to_text(&self) -> String {
        let ending = match self.exited.ending {
            ProcessExit::Code(code) => format!("ending=code\ncode={code}\n"),
            ProcessExit::Signal { signo, core } => {
                format!("ending=signal\nsignal={signo}\ncore={}\n", u8::from(core))
            }
            ProcessExit::Unknown => "ending=unknown\n".to_owned(),
        };
        format!(
            "{ending}at={}\nrecorded_ms={}\n",
            self.exited.output_end, self.recorded_ms
        )
    }

    /// Longer than any exit record: the longest has a signal and two 64-bit numbers.
    pub(crate) const RESERVED: usize = 256;

    /// Reserves disk space for the exit record of this generation. To be called before the child starts.
    pub(crate) fn reserve(dir: &Path, generation: u32) -> io::Result<()> {
        let path = temporary_path(&ExitRecord::path(dir, generation));
        create(&path)?.write_all(&[b'\n'; ExitRecord::RESERVED])
    }

    /// Removes the reservation if no child was started.
    pub(crate) fn release(dir: &Path, generation: u32) {
        let _ = std::fs::remove_file(temporary_path(&ExitRecord::path(dir, generation)));
    }

    /// Writes the record into the reserved space, or into a new file if nothing was reserved.
    pub(crate) fn write(&self, dir: &Path, generation: u32) -> io::Result<()> {
        let path = ExitRecord::path(dir, generation);
        let reserved = temporary_path(&path);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&reserved)?;
        // Empty lines have no meaning, and cover remains of a failed write.
        let mut text = self.to_text().into_bytes();
        text.resize(text.len().max(ExitRecord::RESERVED), b'\n');
        file.write_all_at(&text, 0)?;
        file.sync_data()?;
        std::fs::rename(&reserved, path)?;
        sync_directory(dir)
    }
}

/// The size of the terminal from `offset` of the log on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeRecord {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    /// A new generation begins with a new terminal: modes and screen are reset.
    pub generation: u32,
}

impl SizeRecord {
    pub(crate) const LEN: usize = 16;
    // 4,096 resizes: a person who drags a window for minutes.
    const COMPACT_ABOVE: u64 = 64 << 10;

    pub fn path(dir: &Path) -> PathBuf {
        dir.join("sizes")
    }

    /// Reads all records, oldest first. An incomplete last record is ignored.
    pub fn read_all(dir: &Path) -> io::Result<Vec<SizeRecord>> {
        match std::fs::read(SizeRecord::path(dir)) {
            Ok(bytes) => Ok(SizeRecord::decode_all(&bytes).collect()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Appends the record. If the file has grown large, records older than `log_first` are removed.
    pub(crate) fn append(self, dir: &Path, log_first: u64) -> io::Result<()> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(SizeRecord::path(dir))?;
        let len = file.metadata()?.len();
        if len > SizeRecord::COMPACT_ABOVE {
            let all = SizeRecord::read_all(dir)?;
            let kept = SizeRecord::covering(&all, log_first);
            let bytes: Vec<u8> = kept
                .iter()
                .chain([&self])
                .flat_map(|s| s.encode())
                .collect();
            return write_and_rename(&SizeRecord::path(dir), &bytes);
        }
        // Overwrites an incomplete record that a full disk left.
        let at = len - len % SizeRecord::LEN as u64;
        file.write_all_at(&self.encode(), at)
    }

    /// The last record at or before `first`, and all later records.
    fn covering(all: &[SizeRecord], first: u64) -> &[SizeRecord] {
        let from = all.iter().rposition(|s| s.offset <= first).unwrap_or(0);
        &all[from..]
    }

    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = SizeRecord> {
        bytes.chunks_exact(SizeRecord::LEN).map(SizeRecord::decode)
    }

    pub(crate) fn encode(self) -> [u8; SizeRecord::LEN] {
        let mut bytes = Vec::with_capacity(SizeRecord::LEN);
        let mut w = crate::wire::FieldWriter(&mut bytes);
        w.u64(self.offset);
        w.u16(self.rows);
        w.u16(self.cols);
        w.u32(self.generation);
        let mut record = [0; SizeRecord::LEN];
        record.copy_from_slice(&bytes);
        record
    }

    fn decode(b: &[u8]) -> SizeRecord {
        SizeRecord {
            offset: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            rows: u16::from_le_bytes([b[8], b[9]]),
            cols: u16::from_le_bytes([b[10], b[11]]),
            generation: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        }
    }
}

/// The id of the current boot, without which a pid and a start time are meaningless.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// Lines of `key=value`. Unknown keys are ignored.
struct RecordFields<'a>(&'a str);

impl<'a> RecordFields<'a> {
    fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .lines()
            .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
    }

    /// The last value takes precedence, so that a record can be updated by appending lines.
    fn get(&self, key: &str) -> Option<&'a str> {
        self.all(key).last()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }
}

fn read_record<T>(path: &Path, parse: impl FnOnce(&str) -> Option<T>) -> io::Result<Option<T>> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("cannot parse {}", path.display()),
            )
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Without a sync: a power cut may lose the text. Only an exit has no other source; a sync takes milliseconds, and a
/// client waits for the start of a pane.
fn write_and_rename(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = temporary_path(path);
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

fn temporary_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

/// Escapes a mark to fit on one line: `%`, control bytes and non-ASCII bytes become `%XX`.
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
        assert_eq!(ChildRecord::parse(&meta.to_text()), Some(meta.clone()));
        let starting = ChildRecord {
            child: None,
            ..meta.clone()
        };
        assert_eq!(
            ChildRecord::parse(&starting.to_text()),
            Some(starting.clone())
        );
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
                exited: ChildExit {
                    ending,
                    output_end: 99,
                },
                recorded_ms: 1,
            };
            assert_eq!(ExitRecord::parse(&record.to_text()), Some(record));
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
                output_end: u64::MAX,
            },
            recorded_ms: u64::MAX,
        };
        assert!(record.to_text().len() <= ExitRecord::RESERVED);
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
        let size = |offset| SizeRecord {
            offset,
            rows: 1,
            cols: 2,
            generation: 3,
        };
        size(0).append(dir.path(), 0).unwrap();
        let path = SizeRecord::path(dir.path());
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend([7; 5]);
        std::fs::write(&path, torn).unwrap();
        assert_eq!(SizeRecord::read_all(dir.path()).unwrap(), [size(0)]);
        size(10).append(dir.path(), 0).unwrap();
        assert_eq!(
            SizeRecord::read_all(dir.path()).unwrap(),
            [size(0), size(10)]
        );
        for offset in 11..5000 {
            size(offset).append(dir.path(), 4000).unwrap();
        }
        let all = SizeRecord::read_all(dir.path()).unwrap();
        assert!(all.len() < 4200, "{}", all.len());
        assert!(
            all.iter().any(|s| s.offset <= 4000),
            "the size at the log's first byte is known"
        );
        assert_eq!(all.last(), Some(&size(4999)));
    }
}
