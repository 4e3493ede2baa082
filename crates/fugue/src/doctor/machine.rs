//! The machine: terminals, descriptors, the kernel's features, and what happens at logout.

use std::{fs, path::Path};

use fugue_holder::features::{self, KernelFeatures};
use rustix::{fs::inotify, process::Resource};

use super::{Cure, DoctorContext, Finding};

pub fn check_terminals(_: &DoctorContext) -> Vec<Finding> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/pty/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let (most, used) = (number("max").unwrap_or(0), number("nr").unwrap_or(0));
    let raise = || {
        Cure::Command(format!(
            "sudo sysctl kernel.pty.max={}",
            (2 * most).max(4096)
        ))
    };
    vec![
        match rustix::pty::openpt(rustix::pty::OpenptFlags::NOCTTY) {
            Err(error) if used >= most => Finding::fail(
                "terminals",
                format!("none can be opened ({error}): {used} of {most} are in use"),
                raise(),
            ),
            Err(error) => Finding::fail(
                "terminals",
                format!("none can be opened: /dev/ptmx: {error}"),
                Cure::Person("whoever runs this machine: mount devpts at /dev/pts".to_owned()),
            ),
            Ok(_) if used * 10 >= most * 9 => {
                Finding::warn("terminals", format!("{used} of {most} are in use"), raise())
            }
            Ok(_) => Finding::ok("terminals", format!("{used} of {most} are in use")),
        },
    ]
}

// Descriptors of the daemon for a pane, with what a viewer and a reader of its log need.
const FILES_PER_PANE: u64 = 8;
// Enough for a hundred panes.
const ENOUGH_FILES: u64 = 1024;

pub fn check_descriptors(context: &DoctorContext) -> Vec<Finding> {
    // The daemon raises its own limit up to the hard one.
    let ours = rustix::process::getrlimit(Resource::Nofile).maximum;
    let ours = ours.unwrap_or(u64::MAX);
    let daemons = daemon_limit(context);
    let limit = daemons.unwrap_or(ours);
    let panes = limit / FILES_PER_PANE;
    let mut found = vec![if limit >= ENOUGH_FILES {
        Finding::ok(
            "descriptors",
            format!("{limit} open files, for about {panes} panes"),
        )
    } else {
        let message = format!(
            "a daemon may have {limit} files open, which is enough for about {panes} panes"
        );
        let cure = match ours >= ENOUGH_FILES {
            // The running daemon was started where the limit was lower.
            true => Cure::Command("fugue daemon restart".to_owned()),
            false => Cure::Person(
                "you: use a shell with a higher limit (`ulimit -Hn` shows it); root raises it in /etc/security/limits.conf".to_owned(),
            ),
        };
        Finding::fail("descriptors", message, cure)
    }];
    if let Err(error) = inotify::init(inotify::CreateFlags::CLOEXEC) {
        found.push(Finding::fail(
            "descriptors",
            format!("no inotify instance can be had: {error}; a daemon cannot watch its directory"),
            Cure::Command("sudo sysctl fs.inotify.max_user_instances=1024".to_owned()),
        ));
    }
    found
}

/// The limit of open files of the running daemon.
fn daemon_limit(context: &DoctorContext) -> Option<u64> {
    let pid = super::daemon::lock_owner(&context.paths)?;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    // Max open files            1024                 524288               files
    let hard = line.split_whitespace().nth(4)?;
    Some(hard.parse().unwrap_or(u64::MAX))
}

pub fn check_kernel(_: &DoctorContext) -> Vec<Finding> {
    let features = match features::kernel_features() {
        Ok(features) => features,
        Err(error) => {
            let cure = Cure::Person(
                "you: see the other lines; a pane would fail in the same way".to_owned(),
            );
            return vec![Finding::fail("kernel", error.to_string(), cure)];
        }
    };
    kernel_findings(features)
}

/// Each feature with the promise that depends on it.
fn kernel_findings(features: KernelFeatures) -> Vec<Finding> {
    let KernelFeatures {
        splice,
        exit_after_reap,
        blocked_reads,
    } = features;
    let newer = |version: &str| {
        Cure::Person(format!(
            "whoever runs this machine: Linux {version} or newer has it"
        ))
    };
    let rows = [
        (
            splice,
            "splice on terminals: no output is lost when a holder is killed",
            "no splice on terminals: a holder that is killed may lose the output that it was copying",
            newer("5.11"),
        ),
        (
            exit_after_reap,
            "exits after the reaping: the exit code is known although a holder was killed",
            "no exits after the reaping: the exit code of a command whose holder was killed is unknown",
            newer("6.15"),
        ),
        (
            blocked_reads,
            "/proc/PID/syscall: a program that waits for a line is told from one that works",
            "no /proc/PID/syscall: whether a program waits for a line is inferred from silence",
            Cure::Person("whoever runs this machine: a kernel with CONFIG_HAVE_ARCH_TRACEHOOK, and /proc without hidepid".to_owned()),
        ),
    ];
    rows.into_iter()
        .map(|(has, with, without, cure)| match has {
            true => Finding::ok("kernel", with),
            false => Finding::warn("kernel", without, cure),
        })
        .collect()
}

pub fn check_logout(_: &DoctorContext) -> Vec<Finding> {
    if !Path::new("/run/systemd/seats").exists() {
        return vec![Finding::ok(
            "logout",
            "no logind: panes go on after a logout",
        )];
    }
    let uid = rustix::process::getuid();
    let lingers = user_name(uid.as_raw())
        .is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists());
    let kills = kills_user_processes(Path::new("/"));
    vec![match (kills, lingers) {
        (false, _) => Finding::ok(
            "logout",
            "panes go on after a logout (KillUserProcesses=no)",
        ),
        (true, true) => Finding::ok("logout", "panes go on after a logout (lingering)"),
        (true, false) => Finding::warn(
            "logout",
            "logind ends all processes of a user who logs out (KillUserProcesses=yes): panes and their daemon too",
            Cure::Command("loginctl enable-linger".to_owned()),
        ),
    }]
}

fn user_name(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// The setting of logind: the last one in its file and in the drop-ins, by name.
fn kills_user_processes(root: &Path) -> bool {
    let dirs = ["usr/lib/systemd", "run/systemd", "etc/systemd"].map(|dir| root.join(dir));
    let mut files: Vec<_> = dirs.iter().map(|dir| dir.join("logind.conf")).collect();
    let mut added: Vec<_> = dirs
        .iter()
        .filter_map(|dir| fs::read_dir(dir.join("logind.conf.d")).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "conf"))
        .collect();
    added.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    files.extend(added);
    let texts = files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    let settings = texts.flat_map(|text| {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("KillUserProcesses="))
            .map(|value| ["yes", "true", "1", "on"].contains(&value.trim()))
            .collect::<Vec<_>>()
    });
    settings.last().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_missing_feature_names_the_promise_that_is_weaker() {
        let all = KernelFeatures {
            splice: true,
            exit_after_reap: true,
            blocked_reads: true,
        };
        let verdicts = |features| -> Vec<Verdict> {
            kernel_findings(features)
                .iter()
                .map(|found| found.verdict)
                .collect()
        };
        use Verdict::{Ok, Warn};
        assert_eq!(verdicts(all), [Ok, Ok, Ok]);
        assert_eq!(
            verdicts(KernelFeatures {
                splice: false,
                ..all
            }),
            [Warn, Ok, Ok]
        );
        assert_eq!(
            verdicts(KernelFeatures {
                exit_after_reap: false,
                ..all
            }),
            [Ok, Warn, Ok]
        );
        assert_eq!(
            verdicts(KernelFeatures {
                blocked_reads: false,
                ..all
            }),
            [Ok, Ok, Warn]
        );
    }

    #[test]
    fn the_last_setting_of_logind_holds() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert!(!kills_user_processes(root.path()));
        write(
            "etc/systemd/logind.conf",
            "[Login]\n#KillUserProcesses=no\nKillUserProcesses=yes\n",
        );
        assert!(kills_user_processes(root.path()));
        write(
            "usr/lib/systemd/logind.conf.d/10-a.conf",
            "[Login]\nKillUserProcesses=no\n",
        );
        assert!(!kills_user_processes(root.path()));
        write(
            "etc/systemd/logind.conf.d/90-z.conf",
            "[Login]\nKillUserProcesses = no\nKillUserProcesses=1\n",
        );
        assert!(kills_user_processes(root.path()));
    }
}
