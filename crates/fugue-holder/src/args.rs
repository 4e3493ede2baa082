//! A holder's command line: `key=value` words, so that `ps` shows the pane, and an older or newer binary skips unknown
//! keys.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::wire::ProcessIdentity;

/// Numbers of the inherited fds.
pub(crate) const LISTENER_FD: RawFd = 3;
pub(crate) const MASTER_FD: RawFd = 4;
pub(crate) const PIPE_R_FD: RawFd = 5;
pub(crate) const PIPE_W_FD: RawFd = 6;
/// First of the optional fds: the child's pidfd, if `pidfd=1`, then the kept fds.
pub(crate) const FIRST_EXTRA_FD: RawFd = 7;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HolderArgs {
    pub(crate) dir: PathBuf,
    pub(crate) generation: u32,
    /// Pid of the daemon that starts this holder. If that daemon is gone before a child exists, no other daemon will
    /// connect.
    pub(crate) parent: i32,
    /// Epoch of the starting daemon. Daemons with a lower epoch are refused.
    pub(crate) epoch: u64,
    /// Use read and write from the start, for machines whose `splice` cannot be trusted.
    pub(crate) copy: bool,
    /// Started by tmux in a pane that shows the child. Such a holder binds its own socket.
    pub(crate) view: bool,
    pub(crate) adopt: Option<AdoptArgs>,
}

/// Handover from a dead holder to its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdoptArgs {
    pub(crate) child: Option<ProcessIdentity>,
    pub(crate) pidfd: bool,
    pub(crate) kept: u8,
    pub(crate) last_seq: u64,
    pub(crate) answered_upto: u64,
}

impl HolderArgs {
    pub(crate) fn to_words(&self) -> Vec<OsString> {
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

    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Option<HolderArgs> {
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
            Some(AdoptArgs {
                child,
                pidfd: number("pidfd")? == 1,
                kept: u8::try_from(number("kept")?).ok()?,
                last_seq: number("seq")?,
                answered_upto: number("answered")?,
            })
        } else {
            None
        };
        Some(HolderArgs {
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
        let fresh = HolderArgs {
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
        let adopt = AdoptArgs {
            child,
            pidfd: true,
            kept: 2,
            last_seq: 9,
            answered_upto: 10,
        };
        let taken = HolderArgs {
            copy: false,
            adopt: Some(adopt),
            ..fresh.clone()
        };
        for args in [fresh, taken] {
            let words = args.to_words().into_iter().chain(["later=1".into()]);
            assert_eq!(HolderArgs::parse(words), Some(args));
        }
        assert_eq!(HolderArgs::parse(["gen=1".into()].into_iter()), None);
    }
}
