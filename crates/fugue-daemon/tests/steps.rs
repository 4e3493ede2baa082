//! Real shells in a real terminal run plans of steps: every code, and every byte between the marks of a step.
//!
//! Nothing here waits for time. A test waits for a record or a mark; a deadline turns a hang into a failure that shows
//! all that was seen.

#![cfg(target_os = "linux")]

mod pty;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use fugue_daemon::shell::{self, ShellKind, steps};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

// Far beyond what a shell needs, also on a machine where every core is busy with other tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

const SECRET: &str = "5ecretK3yOfThisShell0123456789ab";
const PLAN: u64 = 7;
const STEPS_SECRET: steps::StepSecret = [5; 16];
const ALL: [&str; 4] = ["bash", "zsh", "fish", "dash"];
// Counts the variables that fugue could have left, by name or value. zsh and fish export the name of the person, who may be
// `fugue-test`.
const NAMED_FUGUE: &str = "env | grep -vE '^(USER|USERNAME|LOGNAME)=' | grep -ci fugue";
const WOKEN: [&str; 3] = ["bash", "zsh", "fish"];

/// What a step prints.
enum Out {
    /// Exactly this, with plain newlines.
    Is(String),
    /// A message of the shell's own, with this in it.
    Says(&'static str),
}

/// What a step ends with.
#[derive(Clone, Copy)]
enum End {
    Code(i32),
    /// The shell is gone, with this code; there is no record of the step's end.
    Exit(i32),
    Signal(i32),
}

use End::{Code, Exit, Signal};

struct Row {
    text: String,
    end: End,
    out: Out,
}

fn row(text: impl Into<String>, end: End, out: &str) -> Row {
    let (text, out) = (text.into(), Out::Is(out.into()));
    Row { text, end, out }
}

fn says(text: &str, end: End, out: &'static str) -> Row {
    let (text, out) = (text.into(), Out::Says(out));
    Row { text, end, out }
}

/// Each list is one plan in a shell of its own, with another step behind it that must find the shell in order.
fn table(shell: &str) -> Vec<Vec<Row>> {
    let mut all = common();
    all.extend(match shell {
        "fish" => fish(),
        _ => posix(shell),
    });
    all.extend(match shell {
        "bash" => bash(),
        "zsh" => zsh(),
        "fish" => Vec::new(),
        _ => dash(),
    });
    all
}

/// Texts that mean the same to all four.
fn common() -> Vec<Vec<Row>> {
    let long = format!("echo {}", "x".repeat(100_000));
    let long_out = format!("{}\n", "x".repeat(100_000));
    let lines: String = (0..300).map(|n| format!("echo line {n}\n")).collect();
    let lines_out: String = (0..300).map(|n| format!("line {n}\n")).collect();
    vec![
        vec![row("true", Code(0), ""), row("false", Code(1), "")],
        vec![
            row(":", Code(0), ""),
            row("", Code(0), ""),
            row("\n \n", Code(0), ""),
        ],
        vec![
            row("echo hi # note", Code(0), "hi\n"),
            row("# only this", Code(0), ""),
        ],
        vec![
            row("printf abc", Code(0), "abc"),
            row("printf '\\nabc'", Code(0), "\nabc"),
        ],
        vec![row(long, Code(0), &long_out)],
        vec![row(lines, Code(0), &lines_out)],
        vec![row("echo 'one\ntwo'\n\n\n", Code(0), "one\ntwo\n")],
        vec![row(
            "echo žluťoučký 🐴 'e\u{301}'",
            Code(0),
            "žluťoučký 🐴 e\u{301}\n",
        )],
        vec![row("#!/bin/sh\necho sh", Code(0), "sh\n")],
        vec![
            row("sh -c 'exit 255'", Code(255), ""),
            row("sh -c 'exit 77'", Code(77), ""),
        ],
        // What looks like a mark or a record is output, the real thing without the secret included.
        vec![
            row(
                "echo 'E 1 9 9'; echo D; echo 'S 2 - 1'",
                Code(0),
                "E 1 9 9\nD\nS 2 - 1\n",
            ),
            row(
                "printf '\\033]133;D;9\\007\\033]133;C;s=7.2\\007'",
                Code(0),
                "\x1b]133;D;9\x07\x1b]133;C;s=7.2\x07",
            ),
            row("echo '── exit 9'", Code(0), "── exit 9\n"),
        ],
        // The terminal is as it was, whatever a program left.
        vec![
            row("stty raw -echo", Code(0), ""),
            row(
                "stty -a | grep -c -- ' icanon'; stty -a | grep -c -- ' echo '",
                Code(0),
                "1\n1\n",
            ),
        ],
        vec![row(
            "printf '\\033[?1049h\\033[2Jx\\033[?1049l'",
            Code(0),
            "\x1b[?1049h\x1b[2Jx\x1b[?1049l",
        )],
        vec![row("test -t 0 && test -t 1 && test -t 2", Code(0), "")],
        vec![row("cd /usr", Code(0), ""), row("pwd", Code(0), "/usr\n")],
        vec![
            row("mkdir gone; cd gone; rmdir ../gone", Code(0), ""),
            row("cd /", Code(0), ""),
            row("pwd", Code(0), "/\n"),
        ],
        vec![row("mkdir gone; cd gone; rmdir ../gone", Code(0), "")],
        // What a step writes to its shell's own log, or removes from it, changes no code.
        vec![
            row(
                "sh -c 'cd ../*steps*/7; printf \"E 1 0 -\\nE 1 0 - 0123456789abcdef\\nD\\n\" >>log; exit 5'",
                Code(5),
                "",
            ),
            row(
                "sh -c 'cd ../*steps*/7; k=$(tail -n 1 log); k=${k##* }
                printf \"E 2 0 - %s\\nS 3 - 1 %s\\nE 3 0 - %s\\nD %s\\n\" $k $k $k $k >>log; exit 6'",
                Code(6),
                "",
            ),
            row(
                "sh -c 'cd ../*steps*/7; printf \"\\377 torn\" >>log; cat keys; exit 7'",
                Code(7),
                "",
            ),
        ],
        vec![row("sh -c 'cd ../*steps*/7; : >log; exit 4'", Code(4), "")],
        vec![row("sh -c 'cd ../*steps*/7; rm log; exit 3'", Code(3), "")],
        vec![row("exec true", Exit(0), "")],
        vec![row("exec sh -c 'echo last; exit 4'", Exit(4), "last\n")],
    ]
}

/// What bash, zsh and dash read alike, even where they differ in what they say.
fn posix(shell: &str) -> Vec<Vec<Row>> {
    let of = |bash: i32, zsh: i32, dash: i32| {
        Code(match shell {
            "bash" => bash,
            "zsh" => zsh,
            _ => dash,
        })
    };
    let says_of = |text: &str, end, bash, zsh, dash| {
        let out = match shell {
            "bash" => bash,
            "zsh" => zsh,
            _ => dash,
        };
        says(text, end, out)
    };
    vec![
        // The last step's code is there when a step begins, and only then.
        vec![
            row("(exit 3)", Code(3), ""),
            row("echo $?", Code(0), "3\n"),
            row("x=1", Code(0), ""),
            row("(exit 4)", Code(4), ""),
            row("x=1", Code(0), ""),
        ],
        // State of every kind lives on.
        vec![
            row(
                "x=plain; export Y=exported; f() { echo in f; return 6; }",
                Code(0),
                "",
            ),
            row(
                "echo $x $Y; sh -c 'echo $x $Y'",
                Code(0),
                "plain exported\nexported\n",
            ),
            row("f", Code(6), "in f\n"),
            row("set -- a 'b c'; umask 027", Code(0), ""),
            row(
                "echo $#; umask",
                Code(0),
                if shell == "zsh" {
                    "2\n027\n"
                } else {
                    "2\n0027\n"
                },
            ),
        ],
        vec![
            row("cat <<X\none $((1+1))\nX", Code(0), "one 2\n"),
            row("cat <<'X'\n$y\nX\n", Code(0), "$y\n"),
        ],
        vec![row("for i in 1 2\ndo\n  echo $i\ndone", Code(0), "1\n2\n")],
        vec![
            row("echo a \\\nb", Code(0), "a b\n"),
            row("echo a\\\n", Code(0), "a\n"),
        ],
        vec![says_of(
            "echo \"un",
            of(2, 1, 2),
            "unexpected EOF",
            "unmatched",
            "Unterminated",
        )],
        vec![says_of(
            "echo 'un",
            of(2, 1, 2),
            "unexpected EOF",
            "unmatched",
            "Unterminated",
        )],
        vec![says_of(
            "fi",
            of(2, 1, 2),
            "syntax error",
            "parse error",
            "Syntax error",
        )],
        vec![says_of(
            "if true; then",
            of(2, 1, 2),
            "syntax error",
            "parse error",
            "Syntax error",
        )],
        vec![says_of(
            "no-such-command",
            Code(127),
            "not found",
            "not found",
            "not found",
        )],
        vec![
            row("(exit 9)", Code(9), ""),
            row("(exit 9); true", Code(0), ""),
        ],
        vec![row("false | true", Code(0), ""), row("! true", Code(1), "")],
        vec![row("f() { return 3; }; f", Code(3), "")],
        // In zsh and dash a step is a sourced file.
        vec![match shell {
            "bash" => says("return 5", Code(2), "can only `return'"),
            _ => row("return 5", Code(5), ""),
        }],
        vec![match shell {
            "bash" => says("break", Code(0), "only meaningful in"),
            "zsh" => says("break", Code(1), "not in while"),
            _ => row("break", Code(0), ""),
        }],
        vec![match shell {
            "bash" => says("continue 2", Code(0), "only meaningful in"),
            "zsh" => says("continue 2", Code(1), "not in while"),
            _ => row("continue 2", Code(0), ""),
        }],
        vec![
            row("while :; do break; done", Code(0), ""),
            row("for i in 1 2; do continue; done", Code(0), ""),
        ],
        vec![row("exit 3", Exit(3), "")],
        vec![row("(exit 5); exit", Exit(5), "")],
        vec![row("set -e; false; echo no", Exit(1), "")],
        vec![
            row("set -e", Code(0), ""),
            row("if false; then :; fi; false || echo on", Code(0), "on\n"),
            row("false", Exit(1), ""),
        ],
        vec![row(
            "set -e; ! true",
            match shell {
                // dash takes the eval around the step for a command of its own.
                "dash" => Exit(1),
                _ => Code(1),
            },
            "",
        )],
        vec![
            row("trap 'echo bye' EXIT", Code(0), ""),
            row("exit 6", Exit(6), "bye\n"),
        ],
        vec![row("kill -9 $$", Signal(9), "")],
        vec![
            says_of(
                "set -u; echo $nix",
                of(1, 1, 2),
                "unbound",
                "not set",
                "not set",
            ),
            row("set +u", Code(0), ""),
        ],
        vec![row("set -u", Code(0), ""), row("echo on", Code(0), "on\n")],
        vec![says_of(
            "echo ${nix?gone}",
            of(1, 126, 2),
            "gone",
            "gone",
            "gone",
        )],
        vec![says_of(
            "readonly r=1; r=2",
            of(1, 1, 2),
            "readonly",
            "read-only",
            "read only",
        )],
        // Tracing shows the step and nothing of ours. bash counts its evaluations in pluses.
        vec![
            row("set -x", Code(0), ""),
            row(
                "echo hi",
                Code(0),
                match shell {
                    "bash" => "++++ echo hi\nhi\n",
                    "zsh" => "+(eval):2> echo hi\nhi\n",
                    _ => "+ echo hi\nhi\n",
                },
            ),
            row("{ set +x; } 2>/dev/null", Code(0), ""),
            row("echo hi", Code(0), "hi\n"),
        ],
        // Only bash shows what it reads from there.
        vec![
            row("set -v", Code(0), ""),
            row(
                "echo hi",
                Code(0),
                if shell == "bash" {
                    "echo hi\nhi\n"
                } else {
                    "hi\n"
                },
            ),
        ],
        vec![
            row("set -f; IFS=1x; LC_ALL=C", Code(0), ""),
            if shell == "zsh" {
                says("echo *", Code(1), "no matches")
            } else {
                row("echo *", Code(0), "*\n")
            },
            row("set +f; unset IFS LC_ALL", Code(0), ""),
        ],
        vec![
            row("set -a; new=1", Code(0), ""),
            row(NAMED_FUGUE, Code(1), "0\n"),
            row("set +a", Code(0), ""),
        ],
        vec![
            row("PATH=", Code(0), ""),
            says_of("ls", Code(127), "ls", "ls", "ls"),
            row("echo on", Code(0), "on\n"),
            row("PATH=/usr/bin:/bin", Code(0), ""),
        ],
        vec![
            row(
                "printf() { echo fake; }; read() { echo fake; }",
                Code(0),
                "",
            ),
            row("printf x", Code(0), "fake\n"),
            row("unset -f printf read", Code(0), ""),
        ],
        vec![row("exec 3>&- 8>&- 9>&-", Code(0), "")],
        vec![
            row("exec >/dev/null", Code(0), ""),
            row("echo gone; echo here >&2", Code(0), "here\n"),
            row("exec >&2", Code(0), ""),
            row("echo back", Code(0), "back\n"),
        ],
        vec![
            row("exec 2>&1", Code(0), ""),
            row("echo on >&2", Code(0), "on\n"),
        ],
        vec![
            row("exec 2>&-", Code(0), ""),
            row("echo on", Code(0), "on\n"),
        ],
        vec![
            row(
                "unset PWD OLDPWD HOME SHLVL _ TERM PS1 PS2 PS4",
                Code(0),
                "",
            ),
            row("echo on", Code(0), "on\n"),
        ],
        vec![
            says_of("!!", Code(127), "not found", "not found", "not found"),
            says_of("!x", Code(127), "not found", "not found", "not found"),
        ],
        vec![says_of("-x", Code(127), "-x", "-x", "-x")],
        vec![
            row("echo a\r", Code(0), "a\r\n"),
            says_of("true\r", Code(127), "not found", "not found", "not found"),
        ],
        vec![says_of(
            "fg",
            of(1, 1, 2),
            "no such job",
            "no current job",
            "No current job",
        )],
        vec![
            row(
                "kill -INT $$",
                Code(130),
                if shell == "bash" { "\n" } else { "" },
            ),
            row("echo $?", Code(0), "130\n"),
        ],
        // A program's death by a signal; bash says nothing of it here.
        vec![says_of(
            "sh -c 'kill -SEGV $$'",
            Code(139),
            "",
            "segmentation fault",
            "Segmentation fault",
        )],
        vec![says_of(
            "sh -c 'kill -TERM $$'",
            Code(143),
            "",
            "terminated",
            "Terminated",
        )],
        vec![says_of(
            "sh -c 'kill -9 $$'",
            Code(137),
            "",
            "killed",
            "Killed",
        )],
        vec![row(
            "ulimit -f 100; ulimit -c 0; ulimit -f",
            Code(0),
            "100\n",
        )],
        vec![
            row(
                "big=$(head -c 60000 /dev/zero | tr '\\0' y); export big; b2=$big; export b2",
                Code(0),
                "",
            ),
            row("sh -c 'echo ${#big}'", Code(0), "60000\n"),
        ],
        vec![
            row("alias echo='echo aliased'", Code(0), ""),
            row(
                "echo x",
                Code(0),
                if shell == "dash" {
                    "aliased x\n"
                } else {
                    "x\n"
                },
            ),
            row("unalias echo", Code(0), ""),
        ],
        // zsh tells the job of each background command to the terminal, as long as it keeps jobs apart.
        vec![
            match shell {
                "zsh" => says("sleep 60 &", Code(0), "["),
                _ => row("sleep 60 &", Code(0), ""),
            },
            // zsh and dash say when they find out that it has ended.
            says("kill $!; wait $!", Code(143), ""),
        ],
        vec![row("wait", Code(0), ""), row("jobs", Code(0), "")],
        vec![row("trap 'echo usr' USR1; kill -USR1 $$", Code(0), "usr\n")],
    ]
}

/// Not here, for they forbid the shell every further command, ours included, and it sits at its prompt without a record:
/// `set -n`, `shopt -s extdebug; trap false DEBUG`, `set -r`, `ulimit -n 3`.
fn bash() -> Vec<Vec<Row>> {
    vec![
        vec![
            row("declare -A m=([a]=1); declare -i n=4", Code(0), ""),
            row("n+=1; echo ${m[a]} $n", Code(0), "1 5\n"),
        ],
        vec![says("local x=1", Code(1), "can only be used in a function")],
        vec![
            row("set -o pipefail", Code(0), ""),
            row("false | true", Code(1), ""),
            row("(exit 3) | true | (exit 0)", Code(3), ""),
        ],
        vec![
            row("trap 'echo debug' DEBUG", Code(0), ""),
            row("echo hi", Code(0), "debug\nhi\n"),
            row("false", Code(1), "debug\n"),
            row("trap - DEBUG", Code(0), "debug\n"),
        ],
        vec![
            row("trap 'echo failed' ERR", Code(0), ""),
            row("false", Code(1), "failed\n"),
            row("! true", Code(1), ""),
            row("trap - ERR", Code(0), ""),
        ],
        vec![row(
            "readonly PROMPT_COMMAND PS1 IFS; echo on",
            Code(0),
            "on\n",
        )],
        vec![row("PROMPT_COMMAND=; unset PROMPT_COMMAND", Code(0), "")],
        vec![
            says(
                "unset ${!__fugue*}; unset -f $(compgen -A function __fugue)",
                Code(1),
                "cannot unset",
            ),
            row("echo on", Code(0), "on\n"),
        ],
        vec![
            row(
                "shopt -s expand_aliases extglob nocasematch nullglob failglob; alias zz='echo zed'",
                Code(0),
                "",
            ),
            row("zz", Code(0), "zed\n"),
        ],
        vec![row("set -o posix; echo on", Code(0), "on\n")],
        vec![row("history; history -s nothing", Code(0), "")],
        vec![row(
            "sleep 1 & sleep 1 & jobs %1 %2 | wc -l; kill %1 %2",
            Code(0),
            "2\n",
        )],
        vec![row(
            "unset EPOCHREALTIME PIPESTATUS; echo on",
            Code(0),
            "on\n",
        )],
    ]
}

fn zsh() -> Vec<Vec<Row>> {
    vec![
        vec![
            row("typeset -A m=(a 1); typeset -i n=4", Code(0), ""),
            row("n+=1; echo $m[a] $n", Code(0), "1 5\n"),
        ],
        vec![
            row("local x=1", Code(0), ""),
            row("echo $x", Code(0), "1\n"),
        ],
        vec![
            row("set -o pipefail", Code(0), ""),
            row("false | true", Code(1), ""),
        ],
        // Once for the eval around the step, and once for what follows it.
        vec![
            row("trap 'echo debug' DEBUG", Code(0), "debug\n"),
            row("echo hi", Code(0), "debug\ndebug\nhi\ndebug\n"),
            row("trap - DEBUG", Code(0), "debug\ndebug\n"),
        ],
        vec![
            row("trap 'echo failed' ZERR", Code(0), ""),
            row("false", Code(1), "failed\n"),
            row("trap - ZERR", Code(0), ""),
        ],
        vec![
            row("setopt err_return; false; echo no", Code(1), ""),
            row("unsetopt err_return", Code(0), ""),
        ],
        vec![
            row(
                "setopt ksh_arrays sh_word_split local_options no_unset",
                Code(0),
                "",
            ),
            row("a=(x y); echo $a", Code(0), "x\n"),
        ],
        vec![
            row("emulate sh", Code(0), ""),
            row("echo on", Code(0), "on\n"),
            row("emulate zsh", Code(0), ""),
        ],
        vec![
            row("unset -m '_fugue*'", Code(0), ""),
            row("unfunction -m '_fugue*'", Code(0), ""),
            row("echo on", Code(0), "on\n"),
        ],
        vec![row(
            "readonly precmd_functions PS1; echo on",
            Code(0),
            "on\n",
        )],
        vec![
            row("setopt aliases; alias zz='echo zed'", Code(0), ""),
            row("zz", Code(0), "zed\n"),
        ],
    ]
}

fn dash() -> Vec<Vec<Row>> {
    vec![
        vec![
            says(
                "readonly __fugue_dir; unset __fugue_dir",
                Code(2),
                "read only",
            ),
            row("echo on", Code(0), "on\n"),
        ],
        vec![
            row(
                "unset __fugue_text __fugue_flags __fugue_head __fugue_code __fugue_born __fugue_tty",
                Code(0),
                "",
            ),
            row("echo on", Code(0), "on\n"),
        ],
    ]
}

fn fish() -> Vec<Vec<Row>> {
    vec![
        vec![
            row(
                "set x plain; set -x Y exported; function f; echo in f; return 6; end",
                Code(0),
                "",
            ),
            row(
                "echo $x $Y; sh -c 'echo $x $Y'",
                Code(0),
                "plain exported\nexported\n",
            ),
            row("f", Code(6), "in f\n"),
        ],
        // A step begins with status 0: `set` leaves it as it is, and would fail after a failed step.
        vec![
            row("false", Code(1), ""),
            row("set x 1", Code(0), ""),
            row("echo $status", Code(0), "0\n"),
        ],
        vec![says("echo \"un", Code(1), "quotes are not balanced")],
        vec![says("end", Code(1), "'end' outside of a block")],
        vec![says("no-such-command", Code(127), "Unknown command")],
        vec![
            row("return 5", Code(5), ""),
            row("function f; return 3; end; f", Code(3), ""),
        ],
        vec![
            says("break", Code(1), "not inside of loop"),
            says("continue", Code(1), "not inside of loop"),
        ],
        vec![row("while true; break; end", Code(0), "")],
        vec![
            row("begin; false; end", Code(1), ""),
            row("false | true", Code(0), ""),
            row("not true", Code(1), ""),
        ],
        // fish takes a file that it reads while it starts for a script of its own: `exit` ends that.
        vec![row("exit 3", Code(3), "")],
        vec![row("kill -9 $fish_pid", Signal(9), "")],
        vec![
            row("sleep 60 &", Code(0), ""),
            row("kill $last_pid", Code(0), ""),
        ],
        vec![
            row("set -gx PATH", Code(0), ""),
            says("ls", Code(127), "Unknown command"),
            row("echo on", Code(0), "on\n"),
            row("set -gx PATH /usr/bin /bin", Code(0), ""),
        ],
        vec![
            row(
                "function echo; builtin echo fake; end; function printf; end; function math; end
                function source; end; function functions; end",
                Code(0),
                "",
            ),
            row("echo x", Code(0), "fake\n"),
            row(
                "builtin functions -e printf echo math source functions",
                Code(0),
                "",
            ),
        ],
        vec![
            row(
                "for x in (set -n | string match '__fugue*'); set -e $x; end",
                Code(0),
                "",
            ),
            row(
                "functions -e (functions -an | string match '__fugue*')",
                Code(0),
                "",
            ),
            row("echo on", Code(0), "on\n"),
        ],
        vec![row("sh -c 'kill -SEGV $$'", Code(139), "")],
        vec![
            says("!!", Code(127), ""),
            says("-x", Code(127), "Unknown command"),
        ],
        vec![
            row("set -gx big (string repeat -n 60000 y)", Code(0), ""),
            row("sh -c 'echo ${#big}'", Code(0), "60000\n"),
        ],
        vec![
            row("sh -c 'kill -INT $$'; echo no", Code(130), ""),
            row("echo on", Code(0), "on\n"),
        ],
        vec![
            row("wait", Code(0), ""),
            row("ulimit -f 100; ulimit -f", Code(0), "100\n"),
        ],
        vec![row(NAMED_FUGUE, Code(1), "0\n")],
    ]
}

fn check_table(shell: &'static str) {
    // All of them, so that one run shows every plan that goes wrong.
    let mut wrong = Vec::new();
    for rows in table(shell) {
        if std::panic::catch_unwind(|| check(shell, &rows)).is_err() {
            wrong.extend(rows.into_iter().map(|row| row.text));
        }
    }
    assert!(wrong.is_empty(), "{shell}, see above: {wrong:#.200?}");
}

fn check(shell: &'static str, rows: &[Row]) {
    let home = Home::new(shell);
    let mut texts: Vec<&str> = rows.iter().map(|row| &row.text[..]).collect();
    texts.push("echo alive");
    home.plan(&texts, KeepGoing::Yes);
    let mut pane = home.bare();
    let last = rows.last().map(|row| row.end);
    let ended = match last {
        Some(Code(_)) | None => {
            pane.until_done();
            None
        }
        Some(Exit(_) | Signal(_)) => Some(pane.wait()),
    };
    let found = home.records();
    for (row, k) in rows.iter().zip(1..) {
        let name = format!("{shell}: {:.200?}", row.text);
        let step = found
            .steps
            .get(k - 1)
            .unwrap_or_else(|| panic!("{name} did not start"));
        let code = step.ended.map(|(code, _)| code);
        match row.end {
            Code(wanted) => assert_eq!(code, Some(wanted), "{name}\n{}", pane.shown()),
            Exit(wanted) => {
                assert_eq!(code, None, "{name}");
                assert_eq!(ended.and_then(|ended| ended.code()), Some(wanted), "{name}");
            }
            Signal(wanted) => {
                assert_eq!(code, None, "{name}");
                assert_eq!(
                    ended.and_then(|ended| ended.signal()),
                    Some(wanted),
                    "{name}"
                );
            }
        }
        let output = pane.output(PLAN, k, code);
        match &row.out {
            Out::Is(wanted) => assert_eq!(&output, wanted, "{name}\n{}", pane.shown()),
            Out::Says(part) => assert!(output.contains(part), "{name}: {output}"),
        }
    }
    if ended.is_none() {
        let k = rows.len() + 1;
        let name = format!("{shell}: after {:.200?}", rows[rows.len() - 1].text);
        assert_eq!(found.steps.len(), k, "{name}");
        assert_eq!(
            found.steps[k - 1].ended.map(|(code, _)| code),
            Some(0),
            "{name}"
        );
        // Wherever the step has sent its output.
        let output = pane.output(PLAN, k, Some(0));
        assert!(
            ["alive\n", "aliased alive\n"]
                .iter()
                .any(|said| output.ends_with(said)),
            "{name}: {output:?}"
        );
    }
}

#[test]
fn every_step_gives_its_own_code_and_output_in_bash() {
    check_table("bash");
}

#[test]
fn every_step_gives_its_own_code_and_output_in_zsh() {
    check_table("zsh");
}

#[test]
fn every_step_gives_its_own_code_and_output_in_fish() {
    check_table("fish");
}

#[test]
fn every_step_gives_its_own_code_and_output_in_dash() {
    check_table("dash");
}

#[test]
fn a_step_that_reads_gets_what_is_typed() {
    for name in ALL {
        let home = Home::new(name);
        home.plan(&["head -n 1", "read x; echo \"got $x\""], KeepGoing::No);
        let mut pane = home.bare();
        pane.until_started(PLAN, 1);
        pane.send(b"one\r");
        pane.until_started(PLAN, 2);
        if name == "fish" {
            // Its read is a line editor, which takes what is typed once it has drawn its own prompt.
            pane.until("read's prompt", |pane| pane.shown().contains("read"));
        }
        pane.send(b"two\r");
        pane.until_done();
        assert_eq!(pane.output(PLAN, 1, Some(0)), "one\none\n", "{name}");
        assert!(
            pane.output(PLAN, 2, Some(0)).ends_with("got two\n"),
            "{name}"
        );
    }
}

#[test]
fn an_interrupt_ends_the_step_with_130_and_the_next_one_runs() {
    for name in ALL {
        let home = Home::new(name);
        let endless = if name == "fish" {
            "while true; end"
        } else {
            "while :; do :; done"
        };
        home.plan(
            &[
                "echo begun; sleep 1000; echo no",
                endless,
                "sh -c 'echo in sh; exec sleep 1000'",
                "echo on",
            ],
            KeepGoing::Yes,
        );
        let mut pane = home.bare();
        for (k, said) in [(1, "begun"), (2, ""), (3, "in sh")] {
            pane.until_started(PLAN, k);
            pane.until(said, |pane| pane.output(PLAN, k, None).contains(said));
            pane.interrupt_until_ended(k);
        }
        pane.until_done();
        assert_eq!(
            home.codes(),
            [Some(130), Some(130), Some(130), Some(0)],
            "{name}"
        );
        assert!(!pane.output(PLAN, 1, Some(130)).contains("no"), "{name}");
        assert_eq!(pane.output(PLAN, 4, Some(0)), "on\n", "{name}");
    }
}

#[test]
fn an_interrupted_step_that_forged_or_emptied_the_log_is_not_run_again() {
    for name in ALL {
        for change in ["printf \"E 2 0 -\\nD\\n\" >>log", ": >log", "rm log"] {
            let home = Home::new(name);
            let text = format!("sh -c 'cd ../*steps*/7; {change}; echo begun; exec sleep 1000'");
            home.plan(&["true", &text, "echo on"], KeepGoing::Yes);
            let mut pane = home.bare();
            pane.until("begun", |pane| pane.output(PLAN, 2, None).contains("begun"));
            pane.interrupt_until_ended(2);
            pane.until_done();
            assert_eq!(home.codes()[1..], [Some(130), Some(0)], "{name} {change}");
            assert_eq!(pane.output(PLAN, 3, Some(0)), "on\n", "{name} {change}");
            assert_eq!(pane.shown().matches("begun\r\n").count(), 1, "{name}");
        }
    }
}

#[test]
fn a_shell_whose_log_is_gone_runs_no_further_step_and_shows_its_prompt() {
    for name in ALL {
        let home = Home::new(name);
        home.plan(&["sh -c 'rm -r ../*steps*/7'", "echo no"], KeepGoing::Yes);
        let mut pane = home.bare();
        pane.until_prompt(0);
        assert!(pane.start_of(PLAN, 2).is_none(), "{name}: {}", pane.shown());
    }
}

#[test]
fn an_interrupted_step_is_a_failed_one_and_ends_the_plan() {
    for name in ALL {
        let home = Home::new(name);
        home.plan(&["echo begun; sleep 1000", "echo no"], KeepGoing::No);
        let mut pane = home.bare();
        pane.until("begun", |pane| pane.output(PLAN, 1, None).contains("begun"));
        pane.interrupt_until_ended(1);
        pane.until_done();
        assert_eq!(home.codes(), [Some(130)], "{name}");
    }
}

#[test]
fn a_failed_step_ends_the_plan_unless_it_is_to_go_on() {
    for name in ALL {
        for (keep_going, codes) in [
            (KeepGoing::No, &[Some(0), Some(1)][..]),
            (KeepGoing::Yes, &[Some(0), Some(1), Some(0)][..]),
        ] {
            let home = Home::new(name);
            home.plan(&["true", "false", "echo more"], keep_going);
            let mut pane = home.bare();
            pane.until_done();
            assert_eq!(home.codes(), codes, "{name}");
        }
    }
}

#[test]
fn no_step_starts_once_the_plan_is_stopped() {
    for name in ALL {
        let home = Home::new(name);
        home.plan(&["head -n 1", "echo no"], KeepGoing::Yes);
        let mut pane = home.bare();
        pane.until_started(PLAN, 1);
        steps::stop(&home.steps(), PLAN).expect("stopped");
        pane.send(b"x\r");
        pane.until_done();
        assert_eq!(home.codes(), [Some(0)], "{name}");
    }
}

#[test]
fn a_fresh_shell_goes_on_with_the_step_after_the_one_that_ended_the_last() {
    for name in ALL {
        let home = Home::new(name);
        let kill = if name == "fish" {
            "kill -9 $fish_pid"
        } else {
            "kill -9 $$"
        };
        home.plan(
            &["echo a", "exec sh -c 'exit 3'", "echo b", kill, "echo c"],
            KeepGoing::Yes,
        );
        assert_eq!(home.bare().wait().code(), Some(3), "{name}");
        assert_eq!(home.bare().wait().signal(), Some(9), "{name}");
        let mut pane = home.bare();
        pane.until_done();
        assert_eq!(
            home.codes(),
            [Some(0), None, Some(0), None, Some(0)],
            "{name}"
        );
        assert_eq!(pane.output(PLAN, 5, Some(0)), "c\n", "{name}");
        // And a shell that comes when all is done finds nothing to do. Prompts: `$` and `%` of a user, `#` of root, `>` of fish.
        let mut pane = home.bare();
        pane.until("a prompt", |pane| {
            pane.shown().contains(['$', '%', '#', '>'])
        });
        assert_eq!(home.codes().len(), 5, "{name}");
    }
}

#[test]
fn after_the_steps_there_is_a_shell_in_the_state_that_they_left() {
    for name in ALL {
        let home = Home::new(name);
        let (set, show) = match name {
            "fish" => ("set x kept; cd /usr", "echo $x (pwd)"),
            _ => ("x=kept; cd /usr", "echo $x $(pwd)"),
        };
        home.plan(&[set], KeepGoing::No);
        let mut pane = home.bare();
        pane.until_done();
        pane.send(format!("{show}\r").as_bytes());
        pane.until("the answer", |pane| pane.shown().contains("kept /usr"));
    }
}

#[test]
fn a_shell_at_its_prompt_is_woken_and_gives_the_half_typed_line_back() {
    for (name, rc) in [
        ("bash", ""),
        ("bash", "set -o vi\n"),
        ("zsh", "bindkey -e\n"),
        ("zsh", "bindkey -v\n"),
        ("fish", ""),
        ("fish", "fish_vi_key_bindings\n"),
    ] {
        let home = Home::with(name, rc);
        let mut pane = home.interactive();
        pane.until_prompt(0);
        pane.send(b"echo dra");
        pane.until("the echo", |pane| pane.shown().contains("dra"));

        let at = pane.seen.len();
        home.plan(&["cd /usr", "pwd"], KeepGoing::No);
        pane.send(shell::WAKE);
        pane.until_done();
        assert_eq!(pane.output(PLAN, 2, Some(0)), "/usr\n", "{name} {rc}");
        pane.until_prompt(at);
        pane.until("the line", |pane| pane.shown_from(at).contains("echo dra"));

        // Once more, with nothing to do; and the line is whole.
        let at = pane.seen.len();
        pane.send(shell::WAKE);
        pane.until_prompt(at);
        pane.until("the line", |pane| pane.shown_from(at).contains("echo dra"));
        let at = pane.seen.len();
        pane.send(b"ft\r");
        let done = format!("\x1b]133;D;0;k={SECRET}\x1b\\");
        pane.until("its end", |pane| pane.shown_from(at).contains(&done));
        assert!(pane.shown_from(at).contains("draft\r\n"), "{name} {rc}");

        // The next plan, from an empty line.
        home.plan_numbered(8, &["echo again"], KeepGoing::No);
        pane.send(shell::WAKE);
        pane.until("the end", |_| home.records_of(8).done);
        pane.until("its mark", |pane| pane.mark_of_end(8, 1, 0).is_some());
        assert_eq!(pane.output(8, 1, Some(0)), "again\n", "{name} {rc}");
    }
}

#[test]
fn a_half_typed_line_is_never_run_by_an_interrupt_in_a_step() {
    for name in WOKEN {
        let home = Home::new(name);
        let mut pane = home.interactive();
        pane.until_prompt(0);
        pane.send(b"echo un$((6*7))touched");
        pane.until("the echo", |pane| pane.shown().contains("touched"));
        home.plan(&["echo begun; sleep 1000", "echo on"], KeepGoing::Yes);
        pane.send(shell::WAKE);
        pane.until("begun", |pane| pane.output(PLAN, 1, None).contains("begun"));
        pane.interrupt_until_ended(1);
        pane.until_done();
        assert_eq!(home.codes(), [Some(130), Some(0)], "{name}");
        pane.until_prompt(pane.mark_of_end(PLAN, 2, 0).expect("its mark"));
        assert!(
            !pane.shown().contains("un42touched"),
            "{name}: {}",
            pane.shown()
        );
    }
}

#[test]
fn a_users_aliases_hooks_and_prompt_stay_theirs() {
    let rc = "alias echo='echo aliased'\nPROMPT_COMMAND='PS1=\"<${PWD##*/}>\"'\nprecmd() { PS1=\"<${PWD##*/}>\" }\n";
    for name in ["bash", "zsh"] {
        let home = Home::with(name, rc);
        let mut pane = home.interactive();
        pane.until_prompt(0);
        home.plan(&["echo hi", "cd /usr"], KeepGoing::No);
        pane.send(shell::WAKE);
        pane.until_done();
        assert_eq!(
            pane.output(PLAN, 1, Some(0)),
            "hi\n",
            "{name}: as in a script"
        );
        pane.until("the new prompt", |pane| pane.shown().contains("<usr>"));
        pane.send(b"echo hi\r");
        pane.until("the alias", |pane| pane.shown().contains("aliased hi"));
    }
}

#[test]
fn a_bash_that_has_bash_preexec_is_woken_too() {
    // As much of it as matters: hooks are called from a function, and a DEBUG trap waits behind them.
    let rc = r#"
bash_preexec_imported=defined
precmd_functions=()
preexec_seen=0
__bp_precmd() { local f; for f in "${precmd_functions[@]}"; do "$f"; done; }
PROMPT_COMMAND='__bp_precmd'
"#;
    let home = Home::with("bash", rc);
    let mut pane = home.interactive();
    pane.until_prompt(0);
    home.plan(&["declare -A m=([a]=global)", "cd /usr"], KeepGoing::No);
    pane.send(shell::WAKE);
    pane.until_done();
    pane.send(b"echo ${m[a]} $PWD ${#PROMPT_COMMAND[@]}\r");
    pane.until("the answer", |pane| pane.shown().contains("global /usr 1"));
}

#[test]
fn a_shell_that_takes_no_steps_is_replaced_and_says_so() {
    let home = Home::new("tcsh");
    home.plan(&["echo hi"], KeepGoing::No);
    let mut pane = home.bare();
    pane.until_done();
    assert_eq!(pane.output(PLAN, 1, Some(0)), "hi\n");
    assert_eq!(pane.instead.as_deref(), Some(Path::new("/bin/sh")));
    assert!(!shell::takes_steps(ShellKind::from_path(Path::new("tcsh"))));
    assert!(!shell::takes_steps(ShellKind::from_path(Path::new("dash"))));
}

#[test]
fn a_thousand_steps_run_one_after_the_other() {
    for name in ALL {
        let home = Home::new(name);
        let texts = vec!["true"; 1000];
        let begun = Instant::now();
        home.plan(&texts, KeepGoing::No);
        let mut pane = home.bare();
        pane.until_done();
        let found = home.records();
        assert_eq!(found.steps.len(), 1000, "{name}");
        eprintln!("{name}: {:?} a step", begun.elapsed() / 1000);
    }
}

#[derive(Clone, Copy)]
enum KeepGoing {
    Yes,
    No,
}

/// A home for one shell, with the files that we would install and steps for it.
struct Home {
    root: tempfile::TempDir,
    name: &'static str,
    plan: RefCell<Option<steps::StepFiles>>,
}

impl Home {
    fn new(name: &'static str) -> Home {
        Home::with(name, "")
    }

    fn with(name: &'static str, rc: &str) -> Home {
        let root = tempfile::tempdir().expect("a directory");
        let plan = RefCell::default();
        let home = Home { root, name, plan };
        let path = home.path();
        // With it there, fish does not start to read all manual pages in the background.
        for dir in [".local/share/fish/generated_completions", ".config/fish"] {
            fs::create_dir_all(path.join(dir)).expect("mkdir");
        }
        for file in [".bashrc", ".zshrc"] {
            fs::write(path.join(file), rc).expect("write");
        }
        let fish = if name == "fish" { rc } else { "" };
        let fish = format!("set -g fish_greeting\n{fish}");
        fs::write(path.join(".config/fish/config.fish"), fish).expect("write");
        shell::install(&home.files()).expect("install");
        home
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn files(&self) -> PathBuf {
        self.root.path().join("our own 'files'")
    }

    fn steps(&self) -> PathBuf {
        self.root.path().join("our own 'steps'")
    }

    fn plan(&self, texts: &[&str], keep_going: KeepGoing) {
        self.plan_numbered(PLAN, texts, keep_going);
    }

    fn plan_numbered(&self, number: u64, texts: &[&str], keep_going: KeepGoing) {
        let step = |text: &&str| steps::Step {
            heading: "▶ a step".into(),
            text: (*text).into(),
        };
        let plan = steps::StepFiles {
            number,
            steps: texts.iter().map(step).collect(),
            keep_going: matches!(keep_going, KeepGoing::Yes),
            begun: 0,
            secret: STEPS_SECRET,
        };
        steps::write_plan(&self.steps(), &plan).expect("laid out");
        self.plan.replace(Some(plan));
    }

    fn records(&self) -> steps::StepRecords {
        self.records_of(PLAN)
    }

    fn records_of(&self, plan: u64) -> steps::StepRecords {
        steps::records(&self.steps(), plan, STEPS_SECRET).expect("records")
    }

    fn codes(&self) -> Vec<Option<i32>> {
        let ended = |step: &steps::StepRecord| step.ended.map(|(code, _)| code);
        self.records().steps.iter().map(ended).collect()
    }

    fn bare(&self) -> Pane {
        if let Some(plan) = &*self.plan.borrow() {
            steps::write_plan_for_new_shell(&self.steps(), plan).expect("laid out");
        }
        self.start(shell::bare)
    }

    fn interactive(&self) -> Pane {
        self.start(shell::interactive)
    }

    fn start(
        &self,
        way: impl Fn(&Path, &Path, &str, &Path, &[(OsString, OsString)]) -> shell::ShellLaunch,
    ) -> Pane {
        let env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.path().into()),
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("TERM".into(), "xterm-256color".into()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        let launch = way(
            Path::new(self.name),
            &self.files(),
            SECRET,
            &self.steps(),
            &env,
        );
        assert!(launch.integrated);
        shell::write_secret(&self.steps(), SECRET).expect("handed over");

        let (master, child) = pty::start(&launch, env, &self.path());
        Pane {
            master,
            child,
            seen: Vec::new(),
            ended: false,
            steps: self.steps(),
            instead: launch.instead,
        }
    }
}

/// A shell in a terminal, and all it has written.
struct Pane {
    master: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    ended: bool,
    steps: PathBuf,
    instead: Option<PathBuf>,
}

impl Pane {
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rustix::io::write(&self.master, rest).expect("typed");
            rest = &rest[n..];
        }
    }

    /// Waits for the plan's end and for the mark of its last step.
    fn until_done(&mut self) {
        let dir = self.steps.clone();
        // A step may have removed the log, and its shell makes it anew.
        let found = || steps::records(&dir, PLAN, STEPS_SECRET).unwrap_or_default();
        self.until("the plan's end", |_| found().done);
        let found = found();
        let last = found.steps.len();
        if let Some((code, _)) = found.steps.last().and_then(|step| step.ended) {
            self.until("the last mark", |pane| {
                pane.mark_of_end(PLAN, last, code).is_some()
            });
        }
    }

    fn until_started(&mut self, plan: u64, k: usize) {
        self.until("the step's start", |pane| pane.start_of(plan, k).is_some());
    }

    /// Waits for a whole prompt behind `at`.
    fn until_prompt(&mut self, at: usize) {
        let mark = format!("\x1b]133;B;k={SECRET}\x1b\\");
        self.until("a prompt", |pane| {
            find(&pane.seen[at..], mark.as_bytes()).is_some()
        });
    }

    /// Types Ctrl-C, once more each time it is not heeded: a shell may be just between two of its own commands.
    fn interrupt_until_ended(&mut self, k: usize) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let dir = self.steps.clone();
        let ended = || {
            let found = steps::records(&dir, PLAN, STEPS_SECRET).unwrap_or_default();
            found
                .steps
                .get(k - 1)
                .is_some_and(|step| step.ended.is_some())
        };
        while !ended() {
            assert!(Instant::now() < deadline, "{}", self.shown());
            self.send(b"\x03");
            let soon = Instant::now() + Duration::from_millis(500);
            while !ended() && Instant::now() < soon {
                self.read(Duration::from_millis(50));
            }
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Pane) -> bool) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !done(self) {
            let late = Instant::now() > deadline;
            if self.ended || late {
                panic!("{what} did not come; seen so far:\n{}", self.shown());
            }
            // A record may come without a byte, and many bytes with no news.
            let mut had = self.seen.len();
            self.read(Duration::from_millis(20));
            while self.seen.len() > had {
                had = self.seen.len();
                self.read(Duration::ZERO);
            }
        }
    }

    fn read(&mut self, left: Duration) {
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        let left = Timespec::try_from(left).expect("a short time");
        if poll(&mut fds, Some(&left)).expect("poll") == 0 {
            return;
        }
        let mut chunk = [0; 65536];
        match rustix::io::read(&self.master, &mut chunk) {
            Ok(0) | Err(rustix::io::Errno::IO) => self.ended = true,
            Ok(n) => self.seen.extend_from_slice(&chunk[..n]),
            Err(error) => panic!("read: {error}"),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !self.ended {
            assert!(Instant::now() < deadline, "still there; {}", self.shown());
            self.read(Duration::from_millis(100));
        }
        self.child.wait().expect("its status")
    }

    fn start_of(&self, plan: u64, k: usize) -> Option<usize> {
        let mark = format!("\x1b]133;C;k={SECRET};s={plan}.{k}\x1b\\");
        find(&self.seen, mark.as_bytes()).map(|at| at + mark.len())
    }

    fn mark_of_end(&self, plan: u64, k: usize, code: i32) -> Option<usize> {
        let mark = format!("\x1b]133;D;{code};k={SECRET};s={plan}.{k}\x1b\\");
        find(&self.seen, mark.as_bytes())
    }

    /// What lies between the step's marks, with plain newlines; up to now, if it has no code.
    fn output(&self, plan: u64, k: usize, code: Option<i32>) -> String {
        let Some(from) = self.start_of(plan, k) else {
            return String::new();
        };
        let to = match code {
            Some(code) => self
                .mark_of_end(plan, k, code)
                .unwrap_or_else(|| panic!("no D of {k}: {}", self.shown())),
            None => self.seen.len(),
        };
        String::from_utf8_lossy(&self.seen[from..to]).replace("\r\n", "\n")
    }

    fn shown(&self) -> String {
        self.shown_from(0)
    }

    fn shown_from(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.seen[at..]).into_owned()
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|found| found == wanted)
}
