//! Real shells in a real terminal, each with a home of its own: what they mark, and what they leave alone.
//!
//! Nothing here waits for time. A test types, and then reads until the mark or the text it is after has come; a
//! deadline turns a hang into a failure that shows all that was seen.

#![cfg(target_os = "linux")]

mod pty;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use fugue_daemon::shell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use Mark::{Cwd, Done, Input, Prompt, Start};

// Far beyond what a shell needs, also on a machine where every core is busy with other tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

const SECRET: &str = "5ecretK3yOfThisShell0123456789ab";

const ALL: [&str; 3] = ["bash", "zsh", "fish"];

#[test]
fn the_first_prompt_is_marked_and_says_where_the_shell_is() {
    for name in ALL {
        let home = Home::new(name);
        let pane = home.start();
        let place = home.path().as_os_str().as_bytes().to_vec();
        assert_eq!(pane.marks(), [Cwd(place), Prompt, Input], "{name}");
        let osc7 = pane.text_of_osc(b"7;").expect("an OSC 7");
        assert!(osc7.starts_with("file://"), "{name}: {osc7}");
        assert!(osc7.ends_with(&*home.path().to_string_lossy()), "{osc7}");
    }
}

#[test]
fn a_command_has_a_start_an_end_and_its_own_code() {
    let both = [
        ("(exit 7)", 7),
        ("cat <<X\rone\rX", 0),
        ("echo hi # note", 0),
    ];
    let loops = ("for i in 1 2\rdo echo $i\rdone", 0);
    let fish_loops = ("for i in 1 2\recho $i\rend", 0);
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        let mut lines = vec![
            ("true", 0),
            ("false", 1),
            ("sh -c 'exit 255'", 255),
            ("nosuchcommand", 127),
            ("printf abc", 0),
            ("sh -c 'kill -9 $$'", 137),
            ("true; false; true", 0),
            ("false", 1),
        ];
        match name {
            "fish" => lines.push(fish_loops),
            _ => lines.extend(both.into_iter().chain([loops])),
        }
        for (line, code) in lines {
            let ran = pane.run(line);
            assert_eq!(ran.codes(), [Start, Done(code)], "{name}: {line}");
            assert_eq!(ran.marks.last(), Some(&Input), "{name}: {line}");
        }
    }
}

#[test]
fn what_lies_between_start_and_end_is_the_commands_output_and_nothing_else() {
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        for (line, output) in [
            ("printf abc", "abc"),
            ("echo one; echo two", "one\r\ntwo\r\n"),
            ("true", ""),
        ] {
            // fish goes to the first column itself before a command runs.
            let found = pane.run(line).output;
            assert_eq!(found.trim_start_matches('\r'), output, "{name}: {line}");
        }
    }
}

#[test]
fn a_line_that_runs_nothing_gives_neither_start_nor_end() {
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        pane.run("false");
        for line in ["", "   ", "# only a comment"] {
            if name == "zsh" && line.starts_with('#') {
                continue; // An interactive zsh takes it for a command, unless told otherwise.
            }
            assert_eq!(pane.press(line, b"\r").codes(), [], "{name}: {line:?}");
        }
        assert_eq!(pane.press(")", b"\r").codes(), [], "{name}: an error");
        // fish leaves such a line to be mended; Ctrl-U clears it.
        assert_eq!(pane.run("\x15true").codes(), [Start, Done(0)], "{name}");
    }
}

#[test]
fn ctrl_c_at_a_prompt_ends_nothing_and_in_a_command_ends_it_with_130() {
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        let nothing = pane.give_up_line("echo half");
        assert_eq!(nothing.codes(), [], "{name}");

        let from = pane.marks().len();
        pane.send(b"sh -c 'echo on$((1))going; exec sleep 1000'\r");
        pane.until("the command", |pane| pane.shows("on1going"));
        pane.send(b"\x03");
        let ran = pane.prompt_after(from);
        assert_eq!(ran.codes(), [Start, Done(130)], "{name}");
        assert_eq!(pane.run("true").codes(), [Start, Done(0)], "{name}");
    }
}

#[test]
fn any_directory_name_arrives_whole_and_cannot_end_the_mark() {
    let odd: [&[u8]; 6] = [
        b"two words",
        b"new\nline",
        "žluťoučký kůň".as_bytes(),
        b"esc\x1b]133;D;0\x1b\\ape\x07;%41",
        b"not utf-8 \xff\xe9",
        b"quote'\"$(x)`\\",
    ];
    for name in ALL {
        let mut home = Home::new(name);
        for (n, bytes) in odd.iter().enumerate() {
            let dir = home.path().join(OsStr::from_bytes(bytes));
            fs::create_dir(&dir).expect("mkdir");
            home.env.push((format!("D{n}").into(), dir.into()));
        }
        let mut pane = home.start();
        for (n, bytes) in odd.iter().enumerate() {
            let ran = pane.run(&format!("cd \"$D{n}\""));
            let place = home.path().join(OsStr::from_bytes(bytes));
            let place = Cwd(place.into_os_string().into_vec());
            let expected = [Start, Done(0), place, Prompt, Input];
            assert_eq!(ran.marks_once(), expected, "{name}: {n}");
            assert_eq!(pane.run("true").cwds(), 0, "{name}: said once");
        }
    }
}

#[test]
fn no_process_finds_the_secret_in_what_it_inherits() {
    for name in ALL {
        let mut home = Home::new(name);
        home.rc(
            "env >> $HOME/../seen-by-rc\nexport PS1\n",
            "env >> $HOME/../seen-by-rc\n",
        );
        home.env.push(("FUGUE_PANE_ID".into(), "p7".into()));
        let mut pane = home.start();
        let lines: &[&str] = match name {
            "bash" => &[
                "env",
                "export -p",
                "sh -c env",
                "set -a",
                "x=1",
                "env",
                "bash -ic env",
            ],
            "zsh" => &[
                "env",
                "export -p",
                "sh -c env",
                "setopt allexport",
                "x=1",
                "env",
                "zsh -ic env",
            ],
            _ => &["env", "set -x", "sh -c env", "fish -ic env"],
        };
        for line in lines {
            let output = pane.run(line).output;
            assert!(!output.contains(&SECRET[..8]), "{name}: {line}: {output}");
            assert!(!output.contains(&SECRET[16..]), "{name}: {line}: {output}");
            if line.ends_with("env") {
                assert!(output.contains("FUGUE_PANE_ID=p7"), "{name}: {output}");
                assert!(!output.contains("FUGUE_USER"), "{name}: {output}");
                assert!(!output.contains("ZDOTDIR"), "{name}: {output}");
            }
        }
        let by_rc = fs::read_to_string(home.root.path().join("seen-by-rc")).expect("rc ran");
        assert!(!by_rc.contains(&SECRET[..8]), "{name}: {by_rc}");
        assert!(!by_rc.contains(&SECRET[16..]), "{name}: {by_rc}");
        // fish reads the user's config first.
        assert_eq!(by_rc.contains(shell::STEPS_DIR), name == "fish", "{name}");
    }
}

#[test]
fn no_process_finds_the_secret_in_what_the_kernel_tells_of_its_shell() {
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        // The command line of a shell is part of what is looked at, so nothing is passed by it.
        let script = "import glob, os\n\
            p = os.environ['SHELL_PID']\n\
            found = [open(f, 'rb').read() for f in\n\
                [f'/proc/{p}/environ', f'/proc/{p}/cmdline', '/proc/self/environ']]\n\
            for fd in glob.glob(f'/proc/{p}/fd/*'):\n\
            \x20   target = os.path.realpath(fd)\n\
            \x20   if os.path.isfile(target): found.append(open(target, 'rb').read())\n\
            for top, dirs, files in os.walk(os.environ['HOME'] + '/..'):\n\
            \x20   found += [open(f'{top}/{f}', 'rb').read() for f in files]\n\
            open('found', 'wb').write(b'|'.join(found))\n";
        home.write("look.py", script);
        let pid = if name == "fish" { "$fish_pid" } else { "$$" };
        pane.run(&format!("SHELL_PID={pid} python3 $HOME/look.py"));
        let found = fs::read(home.path().join("found")).expect("looked");
        let found = String::from_utf8_lossy(&found);
        assert!(found.contains("TERM=xterm-256color"), "{name}: {found}");
        assert!(!found.contains(&SECRET[..16]), "{name}");
        assert!(!found.contains(&SECRET[16..]), "{name}");
    }
}

#[test]
fn tracing_shows_no_secret() {
    for name in ["bash", "zsh"] {
        let home = Home::new(name);
        let mut pane = home.start();
        for line in ["set -x", "false", "set +x"] {
            let ran = pane.run(line);
            let code = i32::from(line == "false");
            assert_eq!(ran.codes(), [Start, Done(code)], "{name}");
        }
        assert!(!pane.without_marks().contains(SECRET), "{name}");
    }
}

#[test]
fn the_history_holds_what_was_typed_and_nothing_of_ours() {
    for name in ALL {
        let home = Home::new(name);
        let keep = "HISTFILE=$HOME/.hist\nHISTSIZE=100\nSAVEHIST=100\n";
        home.rc(keep, "");
        let mut pane = home.start();
        for line in ["true", "echo two", "false"] {
            pane.run(line);
        }
        pane.send(b"exit 4\r");
        assert_eq!(pane.wait_exit(), Some(4), "{name}");
        let (file, expected) = match name {
            "fish" => (
                ".local/share/fish/fish_history",
                "- cmd: true\n- cmd: echo two\n- cmd: false\n- cmd: exit 4\n",
            ),
            _ => (".hist", "true\necho two\nfalse\nexit 4\n"),
        };
        let history = fs::read_to_string(home.path().join(file)).expect("a history");
        let history: String = history
            .lines()
            .filter(|line| !line.starts_with("  when:"))
            .flat_map(|line| [line, "\n"])
            .collect();
        assert_eq!(history, expected, "{name}");
    }
}

#[test]
fn the_number_of_the_next_history_entry_is_as_without_us() {
    let home = Home::with("bash", "PS1='<\\!.\\#>'");
    let mut pane = home.start();
    pane.run("true");
    pane.press("", b"\r");
    pane.run("true");
    for at in ["<1.1>", "<2.2>", "<3.3>"] {
        assert!(pane.shows(at), "{at}: {}", pane.without_marks());
    }
    let home = Home::with("zsh", "PS1='<%!>'");
    let mut pane = home.start();
    pane.run("true");
    pane.run("true");
    for at in ["<1>", "<2>", "<3>"] {
        assert!(pane.shows(at), "{at}: {}", pane.without_marks());
    }
}

#[test]
fn the_status_and_the_last_argument_of_a_command_are_there_for_the_next() {
    for name in ALL {
        let home = Home::new(name);
        let mut pane = home.start();
        let status = if name == "fish" {
            "echo s$status"
        } else {
            "echo s$?"
        };
        pane.run("sh -c 'exit 9'");
        assert!(pane.run(status).output.contains("s9"), "{name}");
        if name != "fish" {
            pane.run("true last-word");
            assert!(
                pane.run("echo \"<$_>\"").output.contains("<last-word>"),
                "{name}"
            );
        }
    }
    let home = Home::new("bash");
    let mut pane = home.start();
    pane.run("(exit 3) | (exit 4) | true");
    let output = pane.run("echo ${PIPESTATUS[*]}").output;
    assert!(output.contains("3 4 0"), "{output}");
}

#[test]
fn nothing_in_the_home_is_changed_but_what_the_shell_itself_keeps() {
    for name in ALL {
        let home = Home::new(name);
        home.rc(
            "PS1='> '\nHISTFILE=$HOME/.hist\n",
            "function fish_prompt; echo '> '; end\n",
        );
        home.write(".profile", "echo profile\n");
        home.write(".inputrc", "set bell-style none\n");
        let before = files(&home.path());
        let mut pane = home.start();
        pane.run("true");
        pane.run("cd /");
        pane.send(b"exit\r");
        pane.wait_exit();
        let mut after = files(&home.path());
        for (file, bytes) in before {
            assert_eq!(after.remove(&file), Some(bytes), "{name}: {file:?}");
        }
        let its_own = [
            ".hist",
            ".bash_history",
            ".local/share/fish/",
            ".config/fish/fish_variables",
            ".cache/",
        ];
        after.retain(|file, _| {
            !its_own
                .iter()
                .any(|own| file.to_string_lossy().starts_with(own))
        });
        assert!(after.is_empty(), "{name}: {:?}", after.keys());
    }
}

/// A prompt of the user's, what it shows after `false` and after `true`, in a shell that still marks both.
fn check_prompt(name: &'static str, rc: &str, after_false: &str, after_true: &str) {
    let home = Home::with(name, rc);
    let mut pane = home.start();
    for (line, code, shown) in [("false", 1, after_false), ("true", 0, after_true)] {
        let ran = pane.run(line);
        assert_eq!(
            ran.marks_once(),
            [Start, Done(code), Prompt, Input],
            "{rc}: {line}"
        );
        // What PROMPT_COMMAND of bash prints comes before D: our hook is the last, to find PS1 as it will be.
        let text = plain(&ran.bytes);
        assert!(text.contains(shown), "{rc}: {line}: {text:?}");
        assert!(
            !pane.without_marks().contains("__fugue"),
            "{rc}: {}",
            pane.without_marks()
        );
    }
}

#[test]
fn bash_keeps_every_kind_of_prompt_of_the_users() {
    for (rc, after_false, after_true) in [
        ("PROMPT_COMMAND='echo \"was $?\"'", "was 1", "was 0"),
        ("PROMPT_COMMAND='PS1=\"<$?>\"'", "<1>", "<0>"),
        (
            "f() { PS1=\"<$?>\"; }; PROMPT_COMMAND=(true f)",
            "<1>",
            "<0>",
        ),
        ("PROMPT_COMMAND=(); PS1='<$?>'", "<1>", "<0>"),
        (
            "unset PROMPT_COMMAND; PS1='one\\ntwo<$?>'",
            "two<1>",
            "two<0>",
        ),
        ("export PS1='<$?>' PROMPT_COMMAND=true", "<1>", "<0>"),
        ("PS1='<$?>\\'", "<1>\\", "<0>\\"),
        ("PS1='<$?>$'", "<1>$", "<0>$"),
        ("PS1='<$?>\\\\'; PS0='\\\\\\'", "<1>\\", "<0>\\"),
        ("PS1='<$?>'; set -u", "<1>", "<0>"),
        ("PS1='<$?>'; set -o posix", "<1>", "<0>"),
        (
            "PS1='<$?>'; shopt -s extdebug nocasematch extglob",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<$?>'; IFS=01; set -T -E; trap 'true' ERR RETURN",
            "<1>",
            "<0>",
        ),
        ("PS1='<$?>'; readonly s=1 out=2 LC_ALL=C PS2", "<1>", "<0>"),
        (
            "PS1='<$?>'; alias local=x builtin=x printf=x if=x",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<$?>'; printf() { echo mine; }; set() { echo mine; }",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<$?>'; trap 'true' DEBUG; PROMPT_COMMAND=true",
            "<1>",
            "<0>",
        ),
        ("PS1='<$?>'; return 5", "<1>", "<0>"),
        ("PS1='<$?>'; if then", "", ""),
    ] {
        // The last of these is a syntax error, which ends the reading of the rc file before its first line.
        check_prompt("bash", rc, after_false, after_true);
    }
}

#[test]
fn zsh_keeps_every_kind_of_prompt_of_the_users() {
    for (rc, after_false, after_true) in [
        ("precmd() { echo \"was $?\" }", "was 1", "was 0"),
        ("f() { PS1=\"<$?>\" }; precmd_functions+=(f)", "<1>", "<0>"),
        (
            "f() { PS1=\"<$?>\" }; autoload -U add-zsh-hook; add-zsh-hook precmd f; preexec() { : }",
            "<1>",
            "<0>",
        ),
        ("PS1=$'one\\ntwo<%?>'", "two<1>", "two<0>"),
        ("export PS1='<%?>'", "<1>", "<0>"),
        ("setopt prompt_subst; PS1='<$?>$'", "<1>$", "<0>$"),
        ("PS1='<%?>%'", "<1>", "<0>"),
        ("PS1='<%?>%%'; RPS1='right'", "<1>%", "<0>%"),
        (
            "PS1='<%?>'; setopt nounset all_export warn_create_global",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<%?>'; setopt ksh_arrays sh_word_split no_clobber glob_subst",
            "<1>",
            "<0>",
        ),
        ("PS1='<%?>'; setopt no_prompt_sp", "<1>", "<0>"),
        (
            "PS1='<%?>'; PROMPT_EOL_MARK=''; trap ': ' DEBUG ZERR",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<%?>'; typeset -r s=1 out=2 MATCH PROMPT_EOL_MARK",
            "<1>",
            "<0>",
        ),
        (
            "PS1='<%?>'; alias -g local=x emulate=x print=x; alias if=x",
            "<1>",
            "<0>",
        ),
        ("PS1='<%?>'; PERIOD=5; periodic() { : }", "<1>", "<0>"),
        ("PS1='<%?>'; emulate sh", "", ""),
    ] {
        check_prompt("zsh", rc, after_false, after_true);
    }
}

#[test]
fn fish_keeps_every_kind_of_prompt_of_the_users() {
    for (rc, after_false, after_true) in [
        (
            "function fish_prompt; echo \"<$status>\"; end",
            "<1>",
            "<0>",
        ),
        (
            "function fish_prompt; echo -n \"<$pipestatus>\"; end",
            "<1>",
            "<0>",
        ),
        (
            "function fish_prompt; set -l s $status; echo one; echo; echo \"two<$s>\"; end",
            "two<1>",
            "two<0>",
        ),
        (
            "function fish_prompt; set -l s $status; test $s = 0; and printf 'good> '; or printf 'bad> '; end",
            "bad> ",
            "good> ",
        ),
        (
            "function fish_right_prompt; echo right; end",
            "right",
            "right",
        ),
        ("function fish_prompt; end", "", ""),
        ("set -g IFS", "", ""),
        (
            "fish_vi_key_bindings; function fish_prompt; echo \"<$status>\"; end",
            "<1>",
            "<0>",
        ),
        (
            "function p --on-event fish_prompt; echo ev $status; end",
            "ev 1",
            "ev 0",
        ),
    ] {
        check_prompt("fish", rc, after_false, after_true);
    }
}

#[test]
fn a_prompt_that_is_changed_while_working_is_marked_at_once() {
    for (name, changes) in [
        (
            "bash",
            &[
                ("PS1='new> '", "new> "),
                ("PS1=\"[x]$PS1$PS1\"", "[x]new> new> "),
                ("PROMPT_COMMAND='PS1=\"<$?>\"'", "<0>"),
                ("PROMPT_COMMAND+=(true)", "<0>"),
                ("PS0='zero '", "<0>"),
                ("PS0=$PS0$PS0", "<0>"),
                ("PROMPT_COMMAND=", "<0>"),
                ("unset PS1", ""),
                (". ~/.bashrc", ""),
            ][..],
        ),
        (
            "zsh",
            &[
                ("PS1='new> '", "new> "),
                ("PS1=\"[x]$PS1$PS1\"", "[x]new> new> "),
                ("precmd() { PS1=\"<$?>\" }", "<0>"),
                ("unfunction precmd; precmd_functions+=(true)", "<0>"),
                ("export PS1", "<0>"),
                ("preexec_functions=()", "<0>"),
                (". ~/.zshrc", ""),
            ],
        ),
        (
            "fish",
            &[
                ("function fish_prompt; echo 'new> '; end", "new> "),
                (
                    "functions -c fish_prompt old; function fish_prompt; echo -n '[x]'; old; end",
                    "[x]new> ",
                ),
                ("function fish_prompt; echo '<last>'; end", "<last>"),
            ],
        ),
    ] {
        let home = Home::with(name, "PS1='> '");
        let mut pane = home.start();
        for (line, shown) in changes {
            let ran = pane.run(line);
            assert_eq!(
                ran.marks_once(),
                [Start, Done(0), Prompt, Input],
                "{name}: {line}"
            );
            let prompt = ran.prompt();
            assert!(prompt.ends_with(shown), "{name}: {line}: {prompt:?}");
            let ran = pane.run("false");
            assert_eq!(
                ran.marks_once(),
                [Start, Done(1), Prompt, Input],
                "{name}: after {line}"
            );
            pane.run("true");
        }
    }
}

#[test]
fn hooks_that_are_taken_away_leave_a_working_shell_and_no_wrong_code() {
    for (name, rc, takes_away) in [
        ("bash", "", "unset PROMPT_COMMAND"),
        ("bash", "", "PROMPT_COMMAND=(true)"),
        ("bash", "", "shopt -u promptvars"),
        ("bash", "", "set -r"),
        (
            "bash",
            "",
            "PROMPT_COMMAND=\"true;${PROMPT_COMMAND[*]}\"; unset 'PROMPT_COMMAND[1]'",
        ),
        ("bash", "readonly PROMPT_COMMAND=true", "true"),
        ("bash", "readonly PROMPT_COMMAND", "true"),
        ("bash", "readonly PROMPT_COMMAND PS0 PS1", "true"),
        ("zsh", "precmd_functions=() preexec_functions=()", "true"),
        ("zsh", "setopt no_prompt_percent; typeset -r PS1", "true"),
        (
            "fish",
            "",
            "functions -e __fugue_on_prompt __fugue_on_postexec",
        ),
    ] {
        let home = Home::with(name, rc);
        let mut pane = home.spawn();
        pane.send(format!("{takes_away}; echo taken a''way\r").as_bytes());
        pane.until("its output", |pane| pane.shows("taken away\r"));
        // Another two, of which any mark that still comes must be right.
        for n in [3, 4] {
            pane.send(format!("sh -c 'exit {n}'\r").as_bytes());
            let status = if name == "fish" { "$status" } else { "$?" };
            pane.send(format!("echo it w''as {status}\r").as_bytes());
            let was = format!("it was {n}\r");
            pane.until(&was, |pane| pane.shows(&was));
        }
        pane.send(b"exit 6\r");
        assert_eq!(pane.wait_exit(), Some(6), "{takes_away}");
        let mut open = 0;
        let mut codes = vec![0, 3, 0, 4, 0].into_iter();
        for mark in pane.marks() {
            match mark {
                Start => open += 1,
                Done(code) => assert!(
                    codes.any(|right| right == code),
                    "{name}: {takes_away}: D;{code}"
                ),
                Cwd(_) | Prompt | Input => {}
            }
        }
        assert!(open <= 6, "{name}: {takes_away}");
        let complaints = pane.without_marks().matches("readonly").count();
        let asked = rc.matches("readonly").count() * 2;
        assert!(
            complaints <= asked,
            "{name}: {takes_away}: {}",
            pane.without_marks()
        );
    }
}

#[test]
fn a_debug_trap_that_times_commands_sees_the_users_commands_only() {
    let rc = "start() { t=${t:-$SECONDS,$BASH_COMMAND}; }\n\
              stop() { PS1=\"<${t#*,}>\"; unset t; }\n\
              trap start DEBUG; PROMPT_COMMAND=stop";
    let home = Home::with("bash", rc);
    let mut pane = home.spawn();
    pane.until("a prompt", |pane| pane.shows(">"));
    for line in ["true one", "true two"] {
        pane.send(line.as_bytes());
        pane.send(b"\r");
        let shown = format!("<{line}>");
        pane.until(&shown, |pane| pane.shows(&shown));
    }
    // Only A is lost to a prompt that is written after us, not the commands.
    let marks = pane.marks();
    let codes: Vec<_> = marks
        .iter()
        .filter(|m| matches!(m, Start | Done(_)))
        .collect();
    assert_eq!(codes, [&Start, &Done(0), &Start, &Done(0)]);
}

#[test]
fn bash_preexec_takes_our_hook_for_no_command() {
    // The way bash-preexec works: whatever runs after its last hook is a command of the user's.
    let rc = "__bp_imported=defined\n\
              mine() { PS1=\"<$?>\"; }; precmd_functions=(mine)\n\
              with() { return $1; }\n\
              before() { local s=$? f; for f in \"${precmd_functions[@]}\"; do with $s; $f; done; }\n\
              ready() { on=1; }\n\
              trap '[[ -n $on ]] && on= && [[ $BASH_COMMAND != before ]] && echo \"runs $BASH_COMMAND\"' DEBUG\n\
              PROMPT_COMMAND=$'before\\nready'\n";
    let home = Home::with("bash", rc);
    let mut pane = home.start();
    for (line, code) in [("true one", 0), ("false two", 1), ("true three", 0)] {
        let ran = pane.run(line);
        assert_eq!(ran.marks_once(), [Start, Done(code), Prompt, Input]);
        assert_eq!(ran.output, format!("runs {line}\r\n"));
        assert_eq!(ran.prompt(), format!("<{code}>"));
    }
    // A function that comes after ours is overtaken by the next prompt.
    pane.send(b"late() { PS1='la''te> '; }; precmd_functions+=(late)\r");
    pane.until("its prompt", |pane| pane.shows("late> "));
    assert_eq!(pane.run("true").prompt(), "late> ");
}

#[test]
fn an_rc_file_that_asks_is_answered_as_without_us() {
    for (name, rc) in [
        ("bash", "read -p 'name? ' X; echo \"hello $X\""),
        ("zsh", "read 'X?name? '; echo \"hello $X\""),
        ("fish", "read -P 'name? ' X; echo \"hello $X\""),
    ] {
        let home = Home::with(name, rc);
        let mut pane = home.spawn();
        pane.until("the question", |pane| pane.shows("name? "));
        assert_eq!(pane.marks(), [], "{name}: nothing is ready yet");
        pane.send(b"you\r");
        pane.until("a prompt", |pane| pane.marks().contains(&Input));
        assert!(pane.shows("hello you"), "{name}");
        assert_eq!(pane.run("false").codes(), [Start, Done(1)], "{name}");
    }
}

#[test]
fn an_rc_file_that_exits_or_becomes_another_program_does_so() {
    for name in ALL {
        // An `exit` in config.fish ends the reading of that file only.
        if name != "fish" {
            let home = Home::with(name, "exit 3");
            let mut pane = home.spawn();
            assert_eq!(pane.wait_exit(), Some(3), "{name}");
            assert_eq!(pane.marks(), [], "{name}");
        }

        let home = Home::with(name, "exec sh -c 'env; exit 5'");
        let mut pane = home.spawn();
        assert_eq!(pane.wait_exit(), Some(5), "{name}");
        assert!(!pane.without_marks().contains(&SECRET[16..]), "{name}");
        assert!(pane.shows("HOME="), "{name}");
    }
}

#[test]
fn a_shell_inside_the_shell_marks_nothing() {
    for (name, inner) in [
        ("bash", "bash"),
        ("bash", "sh"),
        ("bash", "bash --norc"),
        ("zsh", "zsh"),
        ("fish", "fish"),
    ] {
        let home = Home::new(name);
        home.rc(
            "export PS1='mine> '\n",
            "function fish_prompt; echo 'mine> '; end\n",
        );
        let mut pane = home.start();
        let from = pane.marks().len();
        pane.send(format!("{inner}\r").as_bytes());
        pane.until("the inner prompt", |pane| {
            pane.without_marks().matches("mine> ").count() == 2
        });
        pane.send(b"echo in''side; false\r");
        pane.until("the inner shell", |pane| pane.shows("inside\r"));
        pane.send(b"exit 8\r");
        let ran = pane.prompt_after(from);
        assert_eq!(ran.codes(), [Start, Done(8)], "{name}: {inner}");
        assert!(
            !ran.output.contains("fugue"),
            "{name}: {inner}: {}",
            ran.output
        );
        assert!(
            !ran.output.contains("ubstitution"),
            "{name}: {inner}: {}",
            ran.output
        );
    }
}

#[test]
fn zsh_finds_its_files_where_the_user_keeps_them() {
    // In ZDOTDIR of the environment, in one that .zshenv sets, and, with neither, at home.
    for (env, zshenv, dir) in [
        (Some("z dir"), "true", "z dir"),
        (None, "ZDOTDIR=$HOME/own", "own"),
        (Some("z dir"), "ZDOTDIR=$HOME/own; return 3", "own"),
        (None, "true", "."),
        (None, "false; $((1/0)); echo never", "."),
    ] {
        let mut home = Home::new("zsh");
        for sub in ["z dir", "own"] {
            fs::create_dir(home.path().join(sub)).expect("mkdir");
        }
        home.write(
            &format!("{dir}/.zshrc"),
            "echo \"rc in ${ZDOTDIR-home}\"; HISTFILE=${ZDOTDIR:-$HOME}/.hist SAVEHIST=9\n",
        );
        home.write(&format!("{}/.zshenv", env.unwrap_or(".")), zshenv);
        if let Some(env) = env {
            home.env
                .push(("ZDOTDIR".into(), home.path().join(env).into()));
        }
        let mut pane = home.start();
        let told = match dir {
            "." => "rc in home".to_owned(),
            dir => format!("rc in {}", home.path().join(dir).display()),
        };
        assert!(pane.shows(&told), "{told}: {}", pane.without_marks());
        assert_eq!(pane.run("false").codes(), [Start, Done(1)], "{dir}");
        pane.send(b"exit\r");
        pane.wait_exit();
        assert!(home.path().join(dir).join(".hist").is_file(), "{dir}");
    }
}

#[test]
fn the_first_prompt_of_zsh_is_marked_also_when_others_write_it() {
    let rc = "f() { PS1=\"<$?>\" }; precmd_functions+=(f)";
    let home = Home::with("zsh", rc);
    let mut pane = home.start();
    assert!(pane.shows("<0>"));
    let told = pane.run("echo \"[$+PERIOD$+periodic_functions]\"").output;
    assert!(told.contains("[00]"), "{told}");
}

#[test]
fn fish_shows_and_saves_the_users_own_prompt() {
    let home = Home::with("fish", "function fish_prompt; echo 'mine> '; end");
    let mut pane = home.start();
    let shown = pane.run("functions fish_prompt").output;
    assert!(
        shown.contains("mine") && !shown.contains("fugue"),
        "{shown}"
    );
    pane.run("funcsave fish_prompt");
    let saved = fs::read_to_string(home.path().join(".config/fish/functions/fish_prompt.fish"))
        .expect("saved");
    assert!(
        saved.contains("mine> ") && !saved.contains("fugue"),
        "{saved}"
    );
}

#[test]
fn another_shell_is_started_as_it_is() {
    let home = Home::new("dash");
    let mut pane = home.spawn();
    pane.send(b"echo pl''ain; env\r");
    pane.until("its answer", |pane| pane.shows("plain\r"));
    pane.send(b"exit 2\r");
    assert_eq!(pane.wait_exit(), Some(2));
    assert!(!pane.without_marks().contains(SECRET));
}

/// A private home, and how one shell is started in it.
struct Home {
    root: tempfile::TempDir,
    name: &'static str,
    env: Vec<(OsString, OsString)>,
}

impl Home {
    fn new(name: &'static str) -> Home {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("home")).expect("mkdir");
        let home = Home {
            root,
            name,
            env: Vec::new(),
        };
        // With it there, fish does not start to read all manual pages in the background.
        fs::create_dir_all(home.path().join(".local/share/fish/generated_completions"))
            .expect("mkdir");
        fs::create_dir_all(home.path().join(".config/fish")).expect("mkdir");
        // A zsh without any file of the user's asks a newcomer's questions.
        home.rc("", "");
        home
    }

    fn with(name: &'static str, rc: &str) -> Home {
        let home = Home::new(name);
        home.rc(rc, if name == "fish" { rc } else { "" });
        home
    }

    fn path(&self) -> PathBuf {
        // Real, so that it is what a shell has in PWD.
        self.root.path().canonicalize().expect("there").join("home")
    }

    fn rc(&self, posix: &str, fish: &str) {
        self.write(".bashrc", posix);
        self.write(".zshrc", posix);
        self.write(
            ".config/fish/config.fish",
            &format!("set -g fish_greeting\n{fish}"),
        );
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path().join(file), text).expect("write");
    }

    /// Started, and at its first prompt.
    fn start(&self) -> Pane {
        let mut pane = self.spawn();
        pane.until("the first prompt", |pane| pane.marks().contains(&Input));
        pane
    }

    fn spawn(&self) -> Pane {
        let dir = self.root.path().join("fugue's own");
        shell::install(&dir).expect("install");
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.path().into()),
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("TERM".into(), "xterm-256color".into()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        env.extend(self.env.iter().cloned());
        let launch =
            shell::interactive(Path::new(self.name), &dir, SECRET, &dir.join("steps"), &env);
        assert_eq!(launch.integrated, ALL.contains(&self.name));
        if launch.integrated {
            shell::write_secret(&dir.join("steps"), SECRET).expect("handed over");
        }

        let (master, child) = pty::start(&launch, env, &self.path());
        Pane {
            master,
            child,
            seen: Vec::new(),
            ended: false,
        }
    }
}

/// A shell in a terminal, and all it has written.
struct Pane {
    master: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    Prompt,
    Input,
    Start,
    Done(i32),
    Cwd(Vec<u8>),
}

/// What one line brought about, up to and with the next prompt.
struct Ran {
    marks: Vec<Mark>,
    /// Between C and D, with escape sequences taken out.
    output: String,
    /// All of it, the raw bytes.
    bytes: Vec<u8>,
}

impl Pane {
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = rustix::io::write(&self.master, rest).expect("typed");
            rest = &rest[n..];
        }
    }

    fn run(&mut self, line: &str) -> Ran {
        let from = self.marks().len();
        self.send(format!("{line}\r").as_bytes());
        self.prompt_after(from)
    }

    /// Types a line and keys that lead to a new prompt without running anything.
    fn press(&mut self, line: &str, keys: &[u8]) -> Ran {
        let from = self.marks().len();
        self.type_in(line);
        self.send(keys);
        self.new_prompt_after(from)
    }

    /// Types a line and Ctrl-C, once more each time it is not heeded: also without us, bash and fish lose the signal
    /// when it comes just before they wait for a key (6 of 40 and 10 of 30 times, typed this fast).
    fn give_up_line(&mut self, line: &str) -> Ran {
        let from = self.marks().len();
        self.type_in(line);
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !self.has_new_prompt(from) {
            assert!(Instant::now() < deadline, "{}", self.seen.escape_ascii());
            self.send(b"\x03");
            while !self.has_new_prompt(from) && self.read(Duration::from_millis(300)) {}
        }
        self.since(from)
    }

    fn type_in(&mut self, line: &str) {
        let at = self.seen.len();
        self.send(line.as_bytes());
        // A Ctrl-C makes the kernel forget what the shell has not read.
        let word = line.split(' ').next_back().unwrap_or_default();
        self.until("the echo", |pane| plain(&pane.seen[at..]).contains(word));
    }

    fn new_prompt_after(&mut self, from: usize) -> Ran {
        self.until("a new prompt", |pane| pane.has_new_prompt(from));
        self.since(from)
    }

    fn has_new_prompt(&self, from: usize) -> bool {
        let marks = self.marks();
        let prompt = marks[from..].iter().position(|mark| *mark == Prompt);
        prompt.is_some_and(|at| marks[from + at..].contains(&Input))
    }

    /// Reads until a command has ended and the prompt after it is complete.
    fn prompt_after(&mut self, from: usize) -> Ran {
        self.until("the end of a command, and a prompt", |pane| {
            let marks = pane.marks();
            let done = marks[from..]
                .iter()
                .position(|mark| matches!(mark, Done(_)));
            done.is_some_and(|at| marks[from + at..].contains(&Input))
        });
        self.since(from)
    }

    fn since(&self, from: usize) -> Ran {
        let found = self.found();
        let at = found.get(from).map_or(self.seen.len(), |(_, at, _)| *at);
        let edge =
            |wanted: fn(&Mark) -> bool| found[from..].iter().find(|(mark, _, _)| wanted(mark));
        let start = edge(|mark| *mark == Start).map_or(at, |(_, _, end)| *end);
        let done = edge(|mark| matches!(mark, Done(_)));
        let done_at = done.map_or(start, |(_, at, _)| *at);
        Ran {
            marks: found[from..]
                .iter()
                .map(|(mark, _, _)| mark.clone())
                .collect(),
            output: plain(&self.seen[start..done_at.max(start)]),
            bytes: self.seen[at..].to_vec(),
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Pane) -> bool) {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended || left.is_zero() || !self.read(left) {
                panic!(
                    "{what} did not come; seen so far:\n{}",
                    self.seen.escape_ascii()
                );
            }
        }
    }

    /// Whether something came, or the end did, in time.
    fn read(&mut self, left: Duration) -> bool {
        let mut fds = [PollFd::new(&self.master, PollFlags::IN)];
        let left = Timespec::try_from(left).expect("a short time");
        if poll(&mut fds, Some(&left)).expect("poll") == 0 {
            return false;
        }
        let mut chunk = [0; 4096];
        match rustix::io::read(&self.master, &mut chunk) {
            Ok(0) | Err(rustix::io::Errno::IO) => self.ended = true,
            Ok(n) => self.seen.extend_from_slice(&chunk[..n]),
            Err(error) => panic!("read: {error}"),
        }
        true
    }

    fn wait_exit(&mut self) -> Option<i32> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !self.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                self.read(left),
                "still there; seen so far:\n{}",
                self.seen.escape_ascii()
            );
        }
        self.child.wait().expect("its status").code()
    }

    fn marks(&self) -> Vec<Mark> {
        self.found().into_iter().map(|(mark, _, _)| mark).collect()
    }

    /// The marks with the secret in them, each with where it begins and ends.
    fn found(&self) -> Vec<(Mark, usize, usize)> {
        let mut found = Vec::new();
        for (at, end, text) in oscs(&self.seen) {
            let Some(text) = text.strip_prefix(b"133;") else {
                continue;
            };
            let text = String::from_utf8(text.to_vec()).expect("marks are ASCII");
            let Some((what, rest)) = text.split_once(&format!(";k={SECRET}")) else {
                assert!(!text.contains(SECRET), "a misshapen mark: {text}");
                continue;
            };
            let mark = match (what, rest) {
                ("A", "") => Prompt,
                ("B", "") => Input,
                ("C", "") => Start,
                ("P", cwd) => Cwd(decode(cwd.strip_prefix(";cwd=").expect("a directory"))),
                (done, "") => Done(
                    done.strip_prefix("D;")
                        .and_then(|code| code.parse().ok())
                        .expect("a code"),
                ),
                _ => panic!("an unknown mark: {text}"),
            };
            found.push((mark, at, end));
        }
        found
    }

    fn text_of_osc(&self, prefix: &[u8]) -> Option<String> {
        let mut all = oscs(&self.seen).into_iter();
        all.find_map(|(_, _, text)| {
            text.strip_prefix(prefix)
                .map(|rest| String::from_utf8_lossy(rest).into_owned())
        })
    }

    fn without_marks(&self) -> String {
        plain(&self.seen)
    }

    fn shows(&self, text: &str) -> bool {
        self.without_marks().contains(text)
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    fn codes(&self) -> Vec<Mark> {
        let wanted = |mark: &&Mark| matches!(mark, Start | Done(_));
        self.marks.iter().filter(wanted).cloned().collect()
    }

    fn cwds(&self) -> usize {
        self.marks
            .iter()
            .filter(|mark| matches!(mark, Cwd(_)))
            .count()
    }

    /// The marks from C on, without the prompts that fish draws again after the first.
    fn marks_once(&self) -> Vec<Mark> {
        let from = self
            .marks
            .iter()
            .position(|mark| *mark == Start)
            .unwrap_or(0);
        let to = self
            .marks
            .iter()
            .rposition(|mark| matches!(mark, Done(_) | Cwd(_)))
            .unwrap_or(from);
        let prompt = self.marks[to..].iter().position(|mark| *mark == Input);
        self.marks[from..=to + prompt.unwrap_or(0)].to_vec()
    }

    /// The text between the last A and the B after it.
    fn prompt(&self) -> String {
        let find = |bytes: &[u8], mark: &str| {
            let mark = format!("\x1b]133;{mark};k={SECRET}\x1b\\");
            bytes
                .windows(mark.len())
                .rposition(|found| found == mark.as_bytes())
        };
        let end = find(&self.bytes, "B").expect("a B");
        let start = find(&self.bytes[..end], "A").expect("an A");
        plain(&self.bytes[start..end])
    }
}

/// Each operating system command: where it begins, where it ends, its text.
fn oscs(bytes: &[u8]) -> Vec<(usize, usize, &[u8])> {
    let mut all = Vec::new();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if &bytes[at..at + 2] != b"\x1b]" {
            at += 1;
            continue;
        }
        let text = &bytes[at + 2..];
        let Some(len) = text.iter().position(|byte| matches!(byte, 0x07 | 0x1b)) else {
            break;
        };
        let end = if text[len] == 0x07 { len + 1 } else { len + 2 };
        if end > text.len() {
            break;
        }
        all.push((at, at + 2 + end, &text[..len]));
        at += 2 + end;
    }
    all
}

/// The text without escape sequences: enough of a terminal for these tests.
fn plain(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (0x1b, Some(b']')) => match oscs(&bytes[at..]).first() {
                Some((0, end, _)) => at += end,
                _ => break,
            },
            (0x1b, Some(b'[')) => {
                let end = bytes[at + 2..]
                    .iter()
                    .position(|byte| (0x40..=0x7e).contains(byte));
                at = end.map_or(bytes.len(), |end| at + 3 + end);
            }
            (0x1b, Some(b'(')) => at += 3,
            (0x1b, _) => at += 2,
            (byte, _) => {
                text.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let hex = [rest.next(), rest.next()].map(|digit| digit.map_or('?', char::from));
                let hex = String::from_iter(hex);
                bytes.push(u8::from_str_radix(&hex, 16).expect("two digits"));
            }
            byte => {
                assert!(
                    byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte),
                    "{text}"
                );
                bytes.push(byte);
            }
        }
    }
    bytes
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(dir: &Path, top: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, top, all);
            } else {
                let name = path.strip_prefix(top).expect("inside").to_owned();
                all.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(dir, dir, &mut all);
    all
}
