//! A holder's command line: `key=value` words, so that `ps` tells which pane it is and an older or newer binary skips
//! what it does not know.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::wire::ProcessIdentity;

/// The inherited fds, by number.
pub(crate) const LISTENER: RawFd = 3;
pub(crate) const MASTER: RawFd = 4;
pub(crate) const PIPE_R: RawFd = 5;
pub(crate) const PIPE_W: RawFd = 6;
/// The child's pidfd if there is one, then the kept ones.
pub(crate) const FURTHER: RawFd = 7;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) dir: PathBuf,
    pub(crate) generation: u32,
    /// The daemon that starts it. If that one is gone before there is a child, nobody will come.
    pub(crate) parent: i32,
    /// Lower epochs are refused.
    pub(crate) epoch: u64,
    /// read+write from the start, for a machine whose splice cannot be trusted.
    pub(crate) copy: bool,
    /// tmux starts it, in a pane that shows it; it listens by itself.
    pub(crate) view: bool,
    pub(crate) adopt: Option<Adopt>,
}

/// What a replacement is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Adopt {
    pub(crate) child: Option<ProcessIdentity>,
    pub(crate) pidfd: bool,
    pub(crate) kept: u8,
    pub(crate) last_seq: u64,
    pub(crate) answered_upto: u64,
}

impl Args {
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut dir = OsString::from("dir=");
        dir.push(&self.dir);
        let mut words = vec![
            dir,
            format!("gen={}", self.generation).into(),
            format!("parent={}", self.parent).into(),
            format!("epoch={}", self.epoch).into(),
        ];
        if self.copy {
            words.push("copy=1".into());
        }
        if self.view {
            words.push("view=1".into());
        }
        if let Some(adopt) = &self.adopt {
            words.push("adopt=1".into());
            if let Some(child) = adopt.child {
                words.push(format!("child={}", child.pid).into());
                words.push(format!("start_time={}", child.start_time).into());
            }
            words.push(format!("pidfd={}", u8::from(adopt.pidfd)).into());
            words.push(format!("kept={}", adopt.kept).into());
            words.push(format!("seq={}", adopt.last_seq).into());
            words.push(format!("answered={}", adopt.answered_upto).into());
        }
        words
    }

    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Option<Args> {
        let words: Vec<OsString> = words.collect();
        let get = |key: &str| {
            words.iter().find_map(|w| {
                w.as_bytes()
                    .strip_prefix(key.as_bytes())?
                    .strip_prefix(b"=")
            })
        };
        let number = |key: &str| std::str::from_utf8(get(key)?).ok()?.parse::<u64>().ok();
        let adopt = if number("adopt") == Some(1) {
            let child = number("child")
                .zip(number("start_time"))
                .map(|(pid, start_time)| ProcessIdentity {
                    pid: pid as i32,
                    start_time,
                });
            Some(Adopt {
                child,
                pidfd: number("pidfd")? == 1,
                kept: u8::try_from(number("kept")?).ok()?,
                last_seq: number("seq")?,
                answered_upto: number("answered")?,
            })
        } else {
            None
        };
        Some(Args {
            dir: PathBuf::from(OsString::from_vec(get("dir")?.to_vec())),
            generation: u32::try_from(number("gen")?).ok()?,
            parent: i32::try_from(number("parent")?).ok()?,
            epoch: number("epoch")?,
            copy: number("copy") == Some(1),
            view: number("view") == Some(1),
            adopt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_survives_its_words_and_words_of_the_future() {
        let fresh = Args {
            dir: PathBuf::from(OsString::from_vec(b"/a b/\xff=x".to_vec())),
            generation: 3,
            parent: 12,
            epoch: u64::MAX,
            copy: true,
            view: true,
            adopt: None,
        };
        let child = Some(ProcessIdentity {
            pid: 5,
            start_time: 6,
        });
        let adopt = Adopt {
            child,
            pidfd: true,
            kept: 2,
            last_seq: 9,
            answered_upto: 10,
        };
        let taken = Args {
            copy: false,
            adopt: Some(adopt),
            ..fresh.clone()
        };
        for args in [fresh, taken] {
            let words = args.words().into_iter().chain(["later=1".into()]);
            assert_eq!(Args::parse(words), Some(args));
        }
        assert_eq!(Args::parse(["gen=1".into()].into_iter()), None);
    }
}
