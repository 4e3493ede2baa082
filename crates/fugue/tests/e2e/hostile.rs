//! Hostile commands, each in four shells through three tools: the exit code and the output are what the shell says.
//!
//! A row is a text and what it comes to in bash; where another shell or another way to run it truly differs, the row says
//! so and why. `fugue_run_parallel` and `create_pane` give a text to `<shell> -c`; a step of a pipeline runs in a shell
//! with a terminal that lives on, so some things (job control, `exit`, `return`) are otherwise there. In a pipeline
//! each row is followed by a step that must find its shell in order, or a fresh one if the row ended it.
//!
//! All rows run, and every one that is wrong is reported: a line for each shell and tool.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt,
    thread,
    time::{Duration, Instant},
};

use fugue_api::tools::{
    ClosePaneReply, CreatePaneReply, ExpectResult, ExpectStatus, ParallelResult, PipelineResult,
    PipelineStatus, ReadPaneReply, StepStatus, TaskStatus,
};
use fugue_testkit::{
    SeededRng, TestEnv,
    mcp_client::{McpClient, facts},
    report_metric, sleep_in_test,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What is wrong in fugue and not in the row: where, the row's text in bash, and what happens. Such a row runs and is
/// shown; when it comes out right, it must leave this list.
const KNOWN_DEFECTS: &[(At, &str, &str)] = &[
    (
        ANY.as_a_step(),
        OVERWRITTEN,
        "a step can write over the output of one before",
    ),
    (
        FISH.as_a_step(),
        "set -x; echo x",
        "tracing shows fugue's own commands and the secret",
    ),
    (
        ZSH.as_a_step(),
        "sleep 1 & kill -9 %1; wait $!; exit",
        "the first job of a step is not %1",
    ),
];

/// Tells the end of every step, with whatever could be the secret in what the kernel shows of the shell, and in the file that
/// hands it over.
const FORGED: &str = r#"sh -c 'p=/proc/$PPID; for s in none $(cat $p/environ $p/cmdline /proc/self/environ "$XDG_STATE_HOME"/fugue/panes/*/steps/secret $(find $p/fd -lname "/*[^0-9]" ! -lname "/dev/*") 2>/dev/null | tr -c "0-9a-f" "\n" | grep -E "^[0-9a-f]{16,}$"); do for n in $(seq 60); do printf "\033]133;D;0;k=%s;s=%s.1\007" "$s" $n; done; done; echo shown; exit 5'"#;
/// Writes to the logs of all steps that it finds, as their shells do, and with the keys that stand there.
const FORGED_RECORDS: &str = r#"sh -c 'for l in "$XDG_STATE_HOME"/fugue/panes/*/steps/*/log; do [ -f "$l" ] || continue; k=$(tail -n 1 "$l"); k=${k##* }; for n in $(seq 60); do echo "E $n 0 -"; echo "E $n 0 - $k"; done >>"$l"; printf "D\nD $k\n\377" >>"$l"; done; exit 5'"#;
/// A shell that reads its end.
const STDIN_GONE: &str = "exec </dev/null; cat";
/// It stands before a step that writes over it.
const OVERWRITTEN: &str = "echo  kept";
/// It stands behind a step that has switched the wrapping of lines off.
const UNWRAPPED: &str = "seq -s, 1 100";

#[test]
fn every_hostile_command_comes_to_what_its_shell_says_in_every_tool() {
    let found: Vec<Tally> = thread::scope(|scope| {
        let shells = SHELLS.map(|shell| scope.spawn(move || try_all(shell)));
        shells
            .into_iter()
            .map(|shell| shell.join().expect("a shell's rows were run"))
            .collect()
    });
    let rows = table().len();
    let right: usize = found.iter().map(|tally| tally.right).sum();
    let known: Vec<&String> = found.iter().flat_map(|tally| &tally.known).collect();
    let wrong: Vec<&String> = found.iter().flat_map(|tally| &tally.wrong).collect();
    for line in &known {
        eprintln!("known defect: {line}");
    }
    report_metric(
        "hostile commands",
        format!(
            "{rows} rows × 4 shells × 3 tools: {right} of {} right, {} known defects",
            rows * 12,
            known.len()
        ),
    );
    for line in &wrong {
        eprintln!("{line}");
    }
    assert!(wrong.is_empty(), "{} are wrong, see above", wrong.len());
}

/// Texts for the shells. A `…` at the beginning or end of a line that is wanted stands for anything, and a line of its
/// own for any lines: what a shell says of itself has its name and place in it.
fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(ends_of_texts());
    rows.extend(syntax_errors());
    rows.extend(ends_of_shells());
    rows.extend(signals());
    rows.extend(jobs());
    rows.extend(not_found());
    rows.extend(words());
    rows.extend(looks_of_marks());
    rows.extend(bytes());
    rows.extend(screens());
    rows.extend(amounts());
    rows.extend(files());
    rows.extend(states());
    rows
}

/// Where a text ends, and what its last line is.
fn ends_of_texts() -> Vec<Row> {
    let lines: String = (0..300).map(|n| format!("echo line {n}\n")).collect();
    let lines_out: String = (0..300).map(|n| format!("line {n}\n")).collect();
    let no_heredocs = "Expected a string, but found a redirection";
    vec![
        row("echo hi # note", 0, "hi"),
        row("echo hi # it's \"open", 0, "hi"),
        row("#", 0, ""),
        row("\n\n#\n\n", 0, ""),
        row("\n\n\necho x\n\n\n", 0, "x"),
        row("#!/bin/sh\necho sh", 0, "sh"),
        row("printf abc", 0, "abc"),
        row("echo a;", 0, "a"),
        row("\techo tab\t", 0, "tab"),
        row("echo a \\\nb", 0, "a b"),
        row("echo a\\\n", 0, "a"),
        row("echo 'one\ntwo'", 0, "one\ntwo"),
        row(lines, 0, &lines_out),
        row("echo a\r\necho b\r\n", 0, "a\nb"),
        row("true\r\n", 127, "…: $'true\\r': command not found")
            .but(ZSH, 127, "…command not found: true^M", "its own words")
            .but(DASH, 127, "…: not found…", "the CR in its words is obeyed")
            .but(FISH, 0, "", "a CR is white space"),
        row("cat <<X\none $((1+1))\nX", 0, "one 2").fish_cannot_read(no_heredocs),
        row("cat <<'X'\n$y `no`\nX\n", 0, "$y `no`").fish_cannot_read(no_heredocs),
        row("cat <<-X\n\tin\n\tX\necho behind", 0, "in\nbehind").fish_cannot_read(no_heredocs),
        row(
            "cat <<X\nopen",
            0,
            "…delimited by end-of-file (wanted `X')\nopen",
        )
        .but(ZSH_DASH, 0, "open", "they do not mind")
        .fish_cannot_read(no_heredocs),
        row("cat <<A <<B\na\nA\nb\nB", 0, "b")
            .but(ZSH, 0, "a\nb", "it reads all inputs in turn")
            .fish_cannot_read(no_heredocs),
        row("cat <<< here", 0, "here")
            .but(DASH, 2, "…redirection unexpected", "it has no here-strings")
            .fish_cannot_read(no_heredocs),
    ]
}

fn syntax_errors() -> Vec<Row> {
    // What bash, zsh, dash and fish say. They have codes of their own for it: 2, 1, 2, and what fish has.
    let broken = |text: &str, bash: &str, zsh: &str, dash: &str| {
        row(text, 2, bash)
            .but(ZSH, 1, zsh, "its own code and words")
            .but(DASH, 2, dash, "its own words")
    };
    let near = |text: &str, zsh: &str, dash: &str| {
        let bash = format!("…syntax error near unexpected token `{text}'\n…: `{text}'");
        broken(text, &bash, zsh, dash)
    };
    let string = "…Unterminated quoted string";
    vec![
        broken(
            "echo \"un",
            "…unexpected EOF while looking for matching `\"'",
            "…unmatched \"",
            string,
        )
        .fish_cannot_read("quotes are not balanced"),
        broken(
            "echo 'un",
            "…unexpected EOF while looking for matching `''",
            "…unmatched '",
            string,
        )
        .fish_cannot_read("quotes are not balanced"),
        broken(
            "echo $'un",
            "…unexpected EOF while looking for matching `''",
            "…unmatched '",
            string,
        )
        .fish_cannot_read("quotes are not balanced"),
        broken(
            "echo `un",
            "…unexpected EOF while looking for matching ``'",
            "…unmatched `",
            "…EOF in backquote substitution",
        )
        .but(FISH, 0, "`un", "a backtick is a letter like others"),
        broken(
            "echo $(un",
            "…unexpected EOF while looking for matching `)'",
            "…parse error near `$(un'",
            "…end of file unexpected (expecting \")\")",
        )
        .fish_cannot_read("expecting ')'"),
        broken(
            "echo ${un",
            "…unexpected EOF while looking for matching `}'",
            "…closing brace expected",
            "…Missing '}'",
        )
        .fish_cannot_read("incomplete parameter expansion"),
        broken(
            "echo $((1+",
            "…unexpected EOF while looking for matching `)'",
            "…parse error near `$((1+'",
            "…Missing '))'",
        )
        .fish_cannot_read("expecting ')'"),
        row("echo \\", 0, "\\")
            .but(ZSH, 0, "", "it drops it")
            .fish_cannot_read("incomplete escape sequence"),
        near(";;", "…parse error near `;;'", "…\";;\" unexpected").but(
            FISH,
            0,
            "",
            "an empty command is one",
        ),
        near(";", "", "…\";\" unexpected")
            .but(ZSH, 0, "", "an empty command is one")
            .but(FISH, 0, "", "an empty command is one"),
        near("}", "…parse error near `}'", "…\"}\" unexpected")
            .fish_cannot_read("Unexpected '}' for unopened brace expansion"),
        near(")", "…parse error near `)'", "…\")\" unexpected")
            .fish_cannot_read("Unexpected ')' for unopened parenthesis"),
        near("&&", "…parse error near `&&'", "…\"&&\" unexpected").fish_cannot_read("found '&&'"),
        near("|", "…parse error near `|'", "…\"|\" unexpected").fish_cannot_read("found a pipe"),
        near("&", "…parse error near `&'", "…\"&\" unexpected").fish_cannot_read("found a '&'"),
        near("fi", "…parse error near `fi'", "…\"fi\" unexpected").but(
            FISH,
            127,
            "fish: Unknown command: fi\n…",
            "a word like others",
        ),
        broken(
            "<",
            "…near unexpected token `newline'\n…: `<'",
            "…parse error near `<'",
            "…end of file unexpected",
        )
        .fish_cannot_read("found a redirection"),
        broken(
            "{",
            "…unexpected end of file",
            "…parse error near `{'",
            "…(expecting \"}\")",
        )
        .fish_cannot_read("incomplete parameter expansion"),
        broken(
            "(",
            "…unexpected end of file",
            "…parse error near `('",
            "…(expecting \")\")",
        )
        .fish_cannot_read("expecting ')'"),
        broken(
            "if true; then",
            "…unexpected end of file",
            "…parse error near `then'",
            "…(expecting \"fi\")",
        )
        .fish_cannot_read("Missing end to balance this if statement"),
        broken(
            "echo one\n)\necho two",
            "one\n…unexpected token `)'\n…: `)'",
            "…parse error near `)'",
            "one\n…\")\" unexpected",
        )
        .fish_cannot_read("Unexpected ')' for unopened parenthesis"),
        broken(
            "echo one; )",
            "…unexpected token `)'\n…: `echo one; )'",
            "…parse error near `)'",
            "…\")\" unexpected",
        )
        .fish_cannot_read("Unexpected ')' for unopened parenthesis"),
    ]
}

const A_SCRIPT: &str = "a step is a file that it sources while it starts, and `exit` ends that";

fn ends_of_shells() -> Vec<Row> {
    vec![
        row("exit 3", Gone(3), "").but(FISH.as_a_step(), 3, "", A_SCRIPT),
        row("exit 256", Gone(0), "")
            .but(FISH, Gone(255), "", "its own idea of a code")
            .but(FISH.as_a_step(), 255, "", A_SCRIPT),
        row("exit -1", Gone(255), "")
            .but(
                DASH.alone(),
                2,
                "…Illegal number: -1",
                "only digits are a number",
            )
            .but(
                DASH.as_a_step(),
                2,
                "…Illegal number: -1",
                "a wrong `exit` is none in a shell with a terminal",
            )
            .text(FISH, "exit 255", "fish 3.6 aborts on a negative code")
            .but(FISH.as_a_step(), 255, "", A_SCRIPT),
        row("exit abc", Gone(2), "…numeric argument required")
            .but(
                ZSH,
                Gone(0),
                "",
                "an expression, of a variable that is not set",
            )
            .but(
                DASH,
                2,
                "…Illegal number: abc",
                "a wrong `exit` is none in a shell with a terminal",
            )
            .but(FISH, 2, "exit: abc: invalid integer\n…", A_SCRIPT),
        row("echo out; exit 7; echo no", Gone(7), "out").but(FISH.as_a_step(), 7, "out", A_SCRIPT),
        row("printf 'no newline'; exit 9", Gone(9), "no newline").but(
            FISH.as_a_step(),
            9,
            "no newline",
            A_SCRIPT,
        ),
        row("(exit 7)", 7, "").text(FISH, "sh -c 'exit 7'", "no subshells"),
        row("(exit 5); exit", Gone(5), "")
            .text(FISH, "sh -c 'exit 5'; exit", "no subshells")
            .but(FISH.as_a_step(), 5, "", A_SCRIPT),
        row("exit 3 | cat", 0, ""),
        row("echo x | exit 3", 3, "").but(
            ZSH,
            Gone(3),
            "",
            "the last of a pipe is the shell itself",
        ),
        row("exec true", Gone(0), ""),
        row("exec printf 'no newline'", Gone(0), "no newline"),
        row("exec false", Gone(1), ""),
        row("exec sh -c 'echo last; exit 4'", Gone(4), "last"),
        row("exec /no/such/file", Gone(127), "…").but(
            FISH,
            127,
            "fish: Unknown command: /no/such/file\n…",
            "it finds out before it tries",
        ),
        row("set -e; false; echo no", Gone(1), "")
            .text(FISH, "false; or exit 1; echo no", "no such option")
            .but(FISH.as_a_step(), 1, "", A_SCRIPT),
        row(
            "set -eu; echo $nix; echo no",
            Gone(1),
            "…nix: unbound variable",
        )
        .but(ZSH, Gone(1), "…nix: parameter not set", "its own words")
        .but(
            DASH,
            Gone(2),
            "…nix: parameter not set",
            "its own code and words",
        )
        .text(FISH, "set -q nix; or exit 1; echo no", "no such option")
        .but(FISH, Gone(1), "", "nothing is said")
        .but(FISH.as_a_step(), 1, "", A_SCRIPT),
        row(
            "return 5",
            2,
            "…can only `return' from a function or sourced script",
        )
        .but(ZSH_DASH, 5, "", "allowed everywhere")
        .but(FISH, 5, "", "allowed everywhere"),
        row(
            "break",
            0,
            "…only meaningful in a `for', `while', or `until' loop",
        )
        .but(
            ZSH,
            1,
            "…not in while, until, select, or repeat loop",
            "its own code and words",
        )
        .but(DASH, 0, "", "says nothing")
        .fish_cannot_read("'break' while not inside of loop"),
        row(
            "continue 2",
            0,
            "…only meaningful in a `for', `while', or `until' loop",
        )
        .but(
            ZSH,
            1,
            "…not in while, until, select, or repeat loop",
            "its own code and words",
        )
        .but(DASH, 0, "", "says nothing")
        .fish_cannot_read("'continue' while not inside of loop"),
        row("trap 'echo bye' EXIT; exit 6", Gone(6), "bye")
            .but(FISH.as_a_step(), 6, "", A_SCRIPT)
            .last(),
        row("bash -c 'bash -c \"bash -c \\\"exit 42\\\"\"'", 42, ""),
        row(
            "zsh -fc 'fish --no-config -c \"dash -c \\\"exit 43\\\"\"'; exit",
            Gone(43),
            "",
        )
        .but(FISH.as_a_step(), 43, "", A_SCRIPT),
        row("set -o pipefail; (exit 3) | true", 3, "")
            .but(DASH, 2, "…Illegal option -o pipefail", "no such option")
            .text(
                FISH,
                "sh -c 'exit 3' | true; exit $pipestatus[1]",
                "no such option",
            )
            .last(),
        row("false | true", 0, ""),
        row("! true", 1, ""),
        row("false && echo no || echo yes; false", 1, "yes"),
    ]
}

fn signals() -> Vec<Row> {
    let patient = "a shell with a terminal is deaf to it";
    let pid = "$$ is not its name there";
    let mut rows = vec![
        row("kill -9 $$", "SIGKILL", "").text(FISH, "kill -9 $fish_pid", pid),
        row("printf 'last words'; kill -9 $$", "SIGKILL", "last words").text(
            FISH,
            "printf 'last words'; kill -9 $fish_pid",
            pid,
        ),
        row("kill -TERM $$; echo on", "SIGTERM", "")
            .text(FISH, "kill -TERM $fish_pid; echo on", pid)
            .but(ANY.as_a_step(), 0, "on", patient)
            .but(FISH, "SIGTERM", "", "not deaf"),
        row("kill -HUP $$; echo no", "SIGHUP", "")
            .text(FISH, "kill -HUP $fish_pid; echo no", pid)
            .but(ZSH, Gone(1), "", "it hears the signal and leaves by itself"),
        row("kill -SEGV $$; echo no", "SIGSEGV", "").text(
            FISH,
            "kill -SEGV $fish_pid; echo no",
            pid,
        ),
        row("kill -USR1 $$; echo no", "SIGUSR1", "").text(
            FISH,
            "kill -USR1 $fish_pid; echo no",
            pid,
        ),
        row(
            "trap '' TERM; kill -TERM $$; echo survived; trap - TERM",
            0,
            "survived",
        )
        .text(
            FISH,
            "trap '' TERM; kill -TERM $fish_pid; echo survived; trap - TERM",
            pid,
        ),
        row("trap 'echo usr' USR1; kill -USR1 $$; trap - USR1", 0, "usr").text(
            FISH,
            "trap 'echo usr' USR1; kill -USR1 $fish_pid; trap - USR1",
            pid,
        ),
    ];
    // A child's end, in the middle and at the end of a text.
    for (name, signal, code, word, zsh) in [
        ("KILL", "SIGKILL", 137, "Killed", "zsh: killed …"),
        ("TERM", "SIGTERM", 143, "Terminated", "zsh: terminated …"),
        (
            "SEGV",
            "SIGSEGV",
            139,
            "Segmentation fault",
            "zsh: segmentation fault …",
        ),
        ("ABRT", "SIGABRT", 134, "Aborted", "zsh: IOT instruction …"),
        ("PIPE", "SIGPIPE", 141, "", ""),
    ] {
        let says = "tells of it";
        let bash = if word.is_empty() {
            String::new()
        } else {
            format!("…{word}…")
        };
        rows.push(
            row(format!("sh -c 'kill -{name} $$'; exit"), Gone(code), "")
                .but(BASH.alone(), Gone(code), &bash, says)
                .but(ZSH.as_a_step(), Gone(code), zsh, says)
                .but(DASH, Gone(code), word, says)
                .but(FISH.as_a_step(), code, "", A_SCRIPT),
        );
        rows.push(
            row(format!("sh -c 'kill -{name} $$'"), code, "")
                .but(
                    BASH_ZSH.alone(),
                    signal,
                    "",
                    "the last command takes the shell's place",
                )
                .but(ZSH.as_a_step(), code, zsh, says)
                .but(DASH, code, word, says),
        );
    }
    rows.push(
        row("sh -c 'kill -INT $$'; echo on", 0, "on")
            .but(FISH, "SIGINT", "", "it ends itself by the same signal")
            .but(
                ANY.as_a_step(),
                130,
                "",
                "an interrupt ends all of what was typed",
            ),
    );
    rows
}

fn jobs() -> Vec<Row> {
    let tells = "tells the job's number";
    vec![
        row("fg", 1, "…: no job control")
            .but(
                BASH.as_a_step(),
                1,
                "…: no such job",
                "there is job control",
            )
            .but(ZSH, 1, "…no job control in this shell.", "its own words")
            .but(
                ZSH.as_a_step(),
                1,
                "…no current job",
                "there is job control",
            )
            .but(DASH, 2, "…No current job", "its own code and words")
            .but(
                FISH,
                2,
                "fg: There are no suitable jobs",
                "its own code and words",
            )
            .last(),
        row("sleep 1 & kill -9 %1; wait $!; exit", Gone(137), "…")
            .text(
                DASH,
                "sleep 1 & kill -9 $!; wait $!; exit",
                "its %1 is a group that may not be there yet",
            )
            .text(FISH, "sleep 1 & jobs %1 | wc -l", "its own way")
            .but(FISH, 0, "1", "its own way")
            .last(),
        row("sleep 1 &", 0, "")
            .but(ZSH.as_a_step(), 0, "[…", tells)
            .last(),
        row("sleep 600 & echo started", 0, "started")
            .but(ZSH.as_a_step(), 0, "[…\nstarted", tells)
            .last(),
        row(
            "sh -c 'sleep 0.1; echo late' & wait; echo on",
            0,
            "late\non",
        )
        .but(ZSH.as_a_step(), 0, "[…\nlate\non\n[…", tells)
        .but(DASH.as_a_step(), 0, "late\non\n[1] + Done …", tells)
        .last(),
        row(
            "(setsid sleep 600 >/dev/null 2>&1 &); echo forked",
            0,
            "forked",
        )
        .text(
            FISH,
            "sh -c 'setsid sleep 600 >/dev/null 2>&1 &'; echo forked",
            "no subshells",
        ),
        row(
            "sh -c 'trap \"\" HUP TERM INT; sleep 600' & echo deaf",
            0,
            "deaf",
        )
        .but(ZSH.as_a_step(), 0, "[…\ndeaf", tells)
        .last(),
        row("nohup sleep 600 >/dev/null 2>&1 & echo nohup", 0, "nohup")
            .but(ZSH.as_a_step(), 0, "[…\nnohup", tells)
            .last(),
        row("wait 999999", 127, "…").but(FISH, 2, "…'999999'", "its own code and words"),
        row("timeout 0.1 sleep 600", 124, ""),
        row("setsid -w sh -c 'echo elsewhere; exit 6'", 6, "elsewhere"),
        row("yes | head -n 2", 0, "y\ny"),
        row("cat <(echo sub)", 0, "sub")
            .but(DASH, 2, "…\"(\" unexpected", "no such thing")
            .text(FISH, "cat (echo sub | psub)", "its own way"),
    ]
}

fn not_found() -> Vec<Row> {
    let words = "its own words";
    let missing = |text: &str, name: &str| {
        row(text, 127, &format!("…: {name}: command not found"))
            .but(ZSH, 127, &format!("…: command not found: {name}"), words)
            .but(DASH, 127, &format!("…: {name}: not found"), words)
            .but(
                FISH,
                127,
                &format!(
                    "fish: Unknown command: {}\n…",
                    if name == " " { "' '" } else { name }
                ),
                words,
            )
    };
    let denied = |text: &str, bash: &str| {
        row(text, 126, &format!("…: {text}: {bash}"))
            .but(ZSH, 126, &format!("…permission denied: {text}"), words)
            .but(DASH, 126, &format!("…: {text}: Permission denied"), words)
    };
    vec![
        missing("no-such-command", "no-such-command"),
        missing("žluťoučký", "žluťoučký"),
        missing("' '", " "),
        missing("-x", "-x"),
        missing("-c", "-c"),
        missing("--version", "--version"),
        missing("--", "--"),
        missing("-- echo hi", "--"),
        missing("+x", "+x"),
        missing("-", "-").but(ZSH, 0, "", "a word before a command, and no command"),
        missing("!!", "!!").but(FISH, 127, "…", words),
        missing("/no/such/command", "/no/such/command")
            .but(BASH, 127, "…: /no/such/command: No such file or directory", words)
            .but(ZSH, 127, "…no such file or directory: /no/such/command", words),
        denied("./plain", "Permission denied")
            .but(FISH, 126, "…'./plain' exists but is not an executable file.\n…", words),
        denied("./a-directory", "Is a directory").but(FISH, 0, "", "goes there").last(),
        denied("/", "Is a directory").but(FISH, 0, "", "goes there").last(),
        row("./no-interpreter", 127, "…: ./no-interpreter: cannot execute: required file not found")
            .but(ZSH, 127, "…: ./no-interpreter: bad interpreter: /no/such/interpreter: no such file or directory", words)
            .but(DASH, 127, "…: ./no-interpreter: not found", words)
            .but(FISH, 127, "…The file specified the interpreter '/no/such/interpreter', which is not an executable command.", words),
        row("./nothing", 0, ""),
        row("./no-shebang", 8, "ran"),
        row("''", 127, "…: : command not found")
            .but(ZSH, 126, "…permission denied: ", "its own code and words")
            .but(DASH, 127, "…: : Permission denied", words)
            .but(FISH, 123, "…The expanded command was empty.\n…", "its own code and words"),
        row(".", 2, "…filename argument required\n…")
            .but(ZSH, 1, "…not enough arguments", "its own code and words")
            .but(DASH, 0, "", "says nothing")
            .text(FISH, "source /no/such/file", "it would read the terminal")
            .but(FISH, 1, "…", "its own code and words"),
        row("cd /no/such/dir", 1, "…cd: /no/such/dir: No such file or directory")
            .but(ZSH, 1, "…no such file or directory: /no/such/dir", words)
            .but(DASH, 2, "…can't cd to /no/such/dir", "its own code and words")
            .but(FISH, 1, "cd: The directory '/no/such/dir' does not exist\n…", words),
        row("shift 5", 1, "")
            .but(ZSH, 1, "…shift count must be <= $#", words)
            .but(DASH, 2, "…can't shift that many", "its own code and words")
            .but(FISH, 127, "fish: Unknown command: shift\n…", "no such command"),
    ]
}

fn words() -> Vec<Row> {
    vec![
        row("echo $'a\\x41\\u20ac\\n!'", 0, "aA€\n!")
            .but(DASH, 0, "$a\\x41\\u20ac\n!", "a dollar and a string")
            .text(FISH, "echo a\\x41\\u20ac\\n!", "its own quoting"),
        row("echo *.nomatch", 0, "*.nomatch")
            .but(ZSH, 1, "…no matches found: *.nomatch", "an error there")
            .but(
                FISH,
                124,
                "…No matches for wildcard '*.nomatch'.…\n…",
                "an error there",
            ),
        row("echo [ a{b ]", 0, "[ a{b ]").fish_cannot_read("incomplete parameter expansion"),
        row("echo {1..3}", 0, "1 2 3")
            .but(DASH, 0, "{1..3}", "no such thing")
            .but(FISH, 0, "{1..3}", "no such thing"),
        row("echo hi! \"a!b\" !x !!", 0, "hi! a!b !x !!"),
        row("echo `echo in`", 0, "in").but(
            FISH,
            0,
            "`echo in`",
            "a backtick is a letter like others",
        ),
        row(
            "echo '$(echo no) `echo no` $HOME \"'",
            0,
            "$(echo no) `echo no` $HOME \"",
        ),
        row("é=1; echo $é", 0, "…é=1: command not found\n$é")
            .but(ZSH, 0, "1", "a letter of a name")
            .but(DASH, 0, "…é=1: not found\n$é", "its own words")
            .text(FISH, "set é 1; echo $é", "its own way")
            .but(FISH, 0, "1", "a letter of a name"),
        row("echo žluťoučký kůň", 0, "žluťoučký kůň"),
        row("echo %s %d%% ; printf '%s\\n' '%n%n'", 0, "%s %d%%\n%n%n"),
    ]
}

/// What looks like news from the shell, and is output.
fn looks_of_marks() -> Vec<Row> {
    let guessed = "k=0123456789abcdef0123456789abcdef;s=1.1";
    vec![
        row("echo ___FUGUE_EXIT_0___; false", 1, "___FUGUE_EXIT_0___"),
        row(
            "echo 'E 1 0 9'; echo D; echo '── exit 0'; false",
            1,
            "E 1 0 9\nD\n── exit 0",
        ),
        row(
            "printf 'a\\033]133;D;0\\007b\\033]133;A\\007c\\n'; false",
            1,
            "abc",
        ),
        row(
            format!(
                "printf 'a\\033]133;C;{guessed}\\033\\134b\\033]133;D;0;{guessed}\\033\\134c\\n'; false"
            ),
            1,
            "abc",
        ),
        row(
            "printf 'a\\033]133;D;0;k=;s=1.1\\033\\134b\\n'; false",
            1,
            "ab",
        ),
        row("printf 'a\\033]52;c;ZWNobyBubw==\\007b\\n'", 0, "ab"),
        row(
            "printf 'a\\033]0;rm -rf /\\007\\033]2;exit\\033\\134b\\n'",
            0,
            "ab",
        ),
        row("printf 'a\\033]7;file:///no/such\\007b\\n'", 0, "ab"),
        row(
            "printf 'a\\033]8;;http://x/\\007link\\033]8;;\\007b\\n'",
            0,
            "alinkb",
        ),
        row("env | grep -ci secret", 1, "0"),
        // Asked and read: what every terminal answers.
        row(
            "stty -icanon -echo; printf '\\033[5n'; head -c 4 | tr '\\033' E; stty sane; echo",
            0,
            "E[0n",
        ),
        // Asked, and nobody reads: the answer is typed, and shown wherever the terminal just is.
        row("printf '\\033[6n\\033[c'; echo asked", 0, "…\n…asked…\n…")
            .next(0, "…\n…alive…\n…")
            .last(),
        // Whoever knew the secret could hide what they print.
        row(FORGED, 5, "shown").last(),
        row(FORGED_RECORDS, 5, ""),
        // Left open. What comes next closes it.
        row("printf 'x\\033]133;D;0'", 0, "x"),
        row("printf 'x\\033]0;open'", 0, "x"),
        row("printf 'x\\033P1;open'", 0, "x"),
        row("printf 'x\\033_open'", 0, "x"),
        row("printf 'x\\033[3'", 0, "x"),
        row("printf 'x\\033'", 0, "x"),
    ]
}

fn bytes() -> Vec<Row> {
    let storm = "a\\007".repeat(2000);
    let half = "half a character is none until more comes";
    vec![
        row("printf 'a\\000b\\000\\000c\\n'", 0, "abc"),
        row(
            "printf 'a\\377b\\300\\200c\\n'",
            0,
            "a\u{fffd}b\u{fffd}\u{fffd}c",
        ),
        row("printf 'x\\342\\202'", 0, "x\u{fffd}").but(ANY.alone(), 0, "x", half),
        row(
            "printf 'x\\342\\202\\n'; printf '\\254y\\n'",
            0,
            "x\u{fffd}\n\u{fffd}y",
        ),
        row(format!("printf '{storm}\\n'"), 0, &"a".repeat(2000)),
        row("printf 'a\\tb\\n'", 0, "a       b"),
        row("echo '  a  b  '", 0, "  a  b  "),
        row("printf '\\n\\n\\n'", 0, "\n\n\n"),
        row("printf 'a\\n\\n\\n'", 0, "a\n\n\n"),
        row("printf '\\n\\n\\na'", 0, "\n\n\na"),
        row("echo '👩‍👩‍👧‍👦 🏳️‍🌈 日本語 ｆｕｌｌ'", 0, "👩‍👩‍👧‍👦 🏳️‍🌈 日本語 ｆｕｌｌ"),
        row(
            "echo 'e\u{301} n\u{303} a\u{300}\u{301}\u{302}'",
            0,
            "e\u{301} n\u{303} a\u{300}\u{301}\u{302}",
        ),
        row(
            "echo 'x\u{202e}abc\u{202c} a\u{200b}b c\u{feff}'",
            0,
            "x\u{202e}abc\u{202c} a\u{200b}b c\u{feff}",
        ),
        row(format!("echo '{}'", "x".repeat(1000)), 0, &"x".repeat(1000)),
        row(
            format!("echo '{}'; echo y", "x".repeat(120)),
            0,
            &format!("{}\ny", "x".repeat(120)),
        ),
        row(format!("printf '{}'", "x".repeat(240)), 0, &"x".repeat(240)),
        row(
            format!("echo 'x{}'", "語".repeat(200)),
            0,
            &format!("x{}", "語".repeat(200)),
        ),
        row("echo err >&2", 0, "err"),
        row(
            "printf '\\033[1;31mred\\033[0m plain\\033[38;5;200m\\n'",
            0,
            "red plain",
        ),
    ]
}

/// What moves the cursor, or leaves the terminal in a mode that the next step must not notice.
fn screens() -> Vec<Row> {
    let hundred: Vec<String> = (1..=100).map(|n: u8| n.to_string()).collect();
    vec![
        row("printf '\\r10%%\\r20%%\\r100%%\\n'", 0, "100%"),
        row("printf 'abc\\rX\\n'", 0, "Xbc"),
        row("printf 'abc\\r\\033[KX\\n'", 0, "X"),
        row("printf 'abc\\b\\bX\\n'", 0, "aXc"),
        row(
            "printf 'before\\n\\033[?1049h\\033[Hinside\\033[?1049lafter\\n'",
            0,
            "before\nafter",
        ),
        row(
            "printf 'one\\ntwo\\nthree\\033[2A\\rX\\n'",
            0,
            "Xne\ntwo\nthree",
        )
        .last(),
        row("printf 'one\\ntwo\\033[1A\\r'", 0, "one\ntwo").last(),
        row("echo kept", 0, "kept"),
        row("printf 'one\\n\\033[20A\\033[Jtwo\\n'", 0, "one\ntwo").last(),
        row("echo kept", 0, "kept"),
        row("printf 'one\\n\\033[2J\\033[Htwo\\n'", 0, "one\ntwo").last(),
        row("echo kept", 0, "kept"),
        row("printf '\\033[3J\\033[2J\\033[Hall\\n'", 0, "all").last(),
        row("echo kept", 0, "kept"),
        row("clear; echo clean", 0, "clean").last(),
        row("echo kept", 0, "kept"),
        row("printf 'a\\033cb\\n'", 0, "a\nb").last(),
        row(OVERWRITTEN, 0, "kept"),
        row("printf 'down\\033[8A\\rOVER\\033[8B\\n'", 0, "down")
            .but(
                ANY.alone(),
                0,
                "OVER\n\n\n\n\n\n\n\n\n",
                "there is nothing above it",
            )
            .last(),
        row("printf '\\033[99999;99999Hx'", 0, "…\n…x").last(),
        row("printf 'before\\n\\033[?1049h\\033[Hinside'", 0, "before").last(),
        row("printf '\\033[5;10r\\n'", 0, "…").last(),
        row("printf '\\033[?7l'", 0, ""),
        row(UNWRAPPED, 0, &hundred.join(",")).last(),
        row("printf '\\033[4hx\\n'", 0, "x").last(),
        row("printf '\\033(0x\\n'", 0, "│").last(),
        row("printf '\\033[?25l\\033[8mhidden\\n'", 0, "hidden").last(),
        row(
            "printf '\\033[?2004h\\033[?1000h\\033[?1h\\033=keys\\n'",
            0,
            "keys",
        )
        .last(),
        row("stty raw -echo", 0, ""),
    ]
}

fn amounts() -> Vec<Row> {
    let seq: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    let euros = format!("{}\n", "€".repeat(100));
    vec![
        row("seq 1 300000", 0, &seq),
        row(
            format!("yes {} | head -n 800", "€".repeat(100)),
            0,
            &euros.repeat(800),
        ),
        row(
            format!("echo {}", "x".repeat(100_000)),
            0,
            &"x".repeat(100_000),
        ),
        row(format!("echo hi # {}", "y".repeat(100_000)), 0, "hi"),
        row(
            "head -c 100000 /dev/zero | tr '\\0' z",
            0,
            &"z".repeat(100_000),
        ),
        row("yes '' | head -n 3000", 0, &"\n".repeat(3000)),
        row("seq 1 20000 | wc -l", 0, "20000"),
    ]
}

fn files() -> Vec<Row> {
    let words = "its own words";
    vec![
        row("cat </dev/null", 0, ""),
        row("wc -c </dev/null", 0, "0"),
        row("cat <&-", 1, "cat: -: Bad file descriptor\n…"),
        row("echo x >&-", 1, "…write error: Bad file descriptor")
            .but(ZSH, 0, "", "it does not look")
            .but(DASH, 1, "…I/O error", words)
            .but(FISH, 0, "", "it does not look"),
        row("sh -c 'exec >&-; echo x' 2>/dev/null", 1, ""),
        row(
            "echo x >/no/such/dir/file",
            1,
            "…: /no/such/dir/file: No such file or directory",
        )
        .but(
            ZSH,
            1,
            "…: no such file or directory: /no/such/dir/file",
            words,
        )
        .but(
            DASH,
            2,
            "…cannot create /no/such/dir/file: Directory nonexistent",
            "its own code and words",
        )
        .but(
            FISH,
            1,
            "…'/no/such/dir/file'\n…'/no' does not exist",
            words,
        ),
        row(
            "echo x >/dev/full",
            1,
            "…write error: No space left on device",
        )
        .but(ZSH, 1, "…write error: no space left on device", words)
        .but(DASH, 1, "…I/O error", words)
        .but(FISH, 1, "…No space left on device", words),
        row(
            "echo direct >/dev/tty; test -t 0 && test -t 1 && test -t 2",
            0,
            "direct",
        ),
        row("sh -c 'echo out; echo err >&2' 2>&1 | sort", 0, "err\nout"),
        row("mkdir d1; cd d1; rmdir ../d1; ls; cd ..", 0, ""),
        row("sh -c 'ulimit -f 0; echo x >limited'; exit", Gone(153), "…")
            .but(FISH.as_a_step(), 153, "…", A_SCRIPT)
            .last(),
        row("sh -c 'ulimit -v 1000; exec ls'", 127, "…"),
    ]
}

/// What a step changes for those behind it.
fn states() -> Vec<Row> {
    let own = "its own way";
    vec![
        row("mkdir d2; cd d2; rmdir ../d2", 0, "").last(),
        row("PATH=; ls", 127, "…ls: No such file or directory")
            .but(ZSH, 127, "…command not found: ls", "its own words")
            .but(DASH, 127, "…ls: not found", "its own words")
            .text(FISH, "set PATH; command ls", own)
            .but(FISH, 127, "fish: Unknown command: ls\n…", "its own words")
            .last(),
        row("unset HOME TERM PWD SHELL USER LANG; echo on", 0, "on")
            .text(FISH, "set -e HOME TERM SHELL USER LANG; echo on", own)
            .but(
                FISH.as_a_step(),
                0,
                "…\n…TERM environment variable not set.\n…\non",
                "a shell with a terminal minds",
            )
            .last(),
        row("env -i 'we ird=1' 'A=\n' sh -c 'echo ok'", 0, "ok"),
        row(
            "TERM=nosuch tput cols",
            3,
            "…\ntput: unknown terminal \"nosuch\"",
        ),
        row("LC_ALL=xx_YY.nope; echo é", 0, "…\né")
            .text(FISH, "set -x LC_ALL xx_YY.nope; echo é", own)
            .last(),
        row("IFS=e1; echo 1e1", 0, "1e1")
            .text(FISH, "set -g IFS e1; echo 1e1", own)
            .last(),
        row("umask 777; echo x", 0, "x").last(),
        row("ulimit -n 20; ulimit -n", 0, "20").last(),
        row(STDIN_GONE, 0, "")
            .text(FISH, "cat </dev/null", "`exec` does no redirections")
            .last(),
        row("exec >/dev/null; echo no", 0, "")
            .next(0, "")
            .text(FISH, "echo no >/dev/null", "`exec` does no redirections")
            .next_but(FISH, 0, "alive", "only that one was sent there")
            .last(),
        row("exec 2>&1; echo x >&2", 0, "x")
            .text(FISH, "echo x >&2", "`exec` does no redirections")
            .last(),
        row("set -x; echo x", 0, "+ echo x\nx")
            .next(0, "+ echo alive\nalive")
            .but(
                BASH.as_a_step(),
                0,
                "++++ echo x\nx",
                "a plus for each `eval` around it",
            )
            .next_but(
                BASH,
                0,
                "++++ echo alive\nalive",
                "a plus for each `eval` around it",
            )
            .but(ZSH, 0, "+zsh:1> echo x\nx", "says where")
            .but(ZSH.as_a_step(), 0, "+(eval):1> echo x\nx", "says where")
            .next_but(ZSH, 0, "+(eval):2> echo alive\nalive", "says where")
            .text(FISH, "set fish_trace 1; echo x", own)
            .but(FISH, 0, "…> echo x\nx", own)
            .next_but(FISH, 0, "…> echo alive\nalive", own)
            .last(),
        row("set -v; echo x", 0, "x")
            .next_but(BASH, 0, "echo alive\nalive", "it reads the next step now")
            .text(FISH, "echo x", "no such option")
            .last(),
        row("set -o noglob; echo *", 0, "*")
            .text(FISH, "echo '*'", "no such option")
            .last(),
        row("echo() { printf fake; }; echo x", 0, "fake")
            .next(0, "fake")
            .text(FISH, "function echo; printf fake; end; echo x", own)
            .last(),
    ]
}

#[test]
fn a_text_that_no_shell_can_be_given_is_refused_before_anything_starts() {
    let test_env = test_env();
    let mut client = client(&test_env);
    let long = "x".repeat(128 * 1024);
    for (text, says) in [
        ("", "empty"),
        (" \t", "empty"),
        ("\n\n\n", "empty"),
        ("a\0b", "NUL"),
        (&long, "131072"),
    ] {
        let list = json!([{"command": "true"}, {"command": text}]);
        for (tool, args) in [
            ("fugue_run_parallel", json!({"commands": list})),
            ("fugue_run_pipeline", json!({"commands": list})),
            ("create_pane", json!({"command": text})),
        ] {
            let error = client.refused(tool, args);
            let named = error.message.contains("command") && error.message.contains(says);
            let line = format!("{tool} {}: {error:?}", short(text));
            assert!(named, "{line}");
        }
    }
    assert!(test_env.overview().panes.is_empty());
}

#[test]
fn a_step_that_removes_its_shells_log_ends_the_pipeline_with_that_reason() {
    let test_env = test_env();
    let mut client = client(&test_env);
    for shell in SHELLS {
        for (remove, reason) in [
            ("rm -r \"$XDG_STATE_HOME\"/fugue/panes/*/steps", true),
            ("rm \"$XDG_STATE_HOME\"/fugue/panes/*/steps/*/log", false),
        ] {
            let result: PipelineResult = call(
                &mut client,
                "fugue_run_pipeline",
                json!({
                    "commands": [
                        {"command": "true"},
                        {"command": format!("sh -c '{remove}; exit 3'")},
                        {"command": "echo on"},
                    ],
                    "shell": shell.name(),
                    "stop_on_error": false,
                    "cleanup": true,
                    "timeout_ms": PATIENCE_MS,
                }),
            );
            let name = format!("{} {remove}: {result:?}", shell.name());
            let codes: Vec<_> = result.steps.iter().map(|step| step.exit_code).collect();
            // A log that is removed takes with it every record that the daemon has not read yet, on a busy machine also
            // the start of the first step.
            let lost = result.status == PipelineStatus::Failed;
            if reason || lost {
                let note = result.note.as_deref().unwrap_or_default();
                assert!(lost, "{name}");
                assert!(note.contains("was changed or removed"), "{name}");
                assert!(
                    matches!(codes[..], [Some(0), None] | [None] | []),
                    "{codes:?}, {name}"
                );
            } else {
                assert_eq!(codes, [Some(0), Some(3), Some(0)], "{name}");
            }
        }
    }
}

#[test]
fn a_pane_that_ends_by_itself_while_it_is_closed_is_closed_all_the_same() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--max-wait-ms", "3000"]));
    client.initialize("2025-06-18", "hostile");
    let mut chance = SeededRng::default();
    let mut late = Vec::new();
    for turn in 0..40 {
        let start = Instant::now();
        let commands = json!([{"command": "exec </dev/null"}]);
        let args = json!({"commands": commands, "shell": "dash", "cleanup": true});
        let result: PipelineResult = call(&mut client, "fugue_run_pipeline", args);
        if start.elapsed() > Duration::from_secs(2) {
            let (status, ms) = (result.status, result.total_duration_ms);
            late.push(format!("pipeline {turn}: {status:?} after {ms} ms"));
        }
        let length = chance.below(40);
        let args = json!({"command": format!("sleep 0.0{length:02}")});
        let pane: CreatePaneReply = call(&mut client, "create_pane", args);
        sleep_in_test(Duration::from_millis(chance.below(40)));
        let args = json!({"pane_id": pane.pane_id.to_string()});
        let closed: ClosePaneReply = call(&mut client, "close_pane", args);
        if closed
            .note
            .is_some_and(|note| note.contains("still closing"))
        {
            late.push(format!("pane {turn}, of {length} ms"));
        }
    }
    assert!(late.is_empty(), "seed {}: {late:#?}", chance.seed());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Dash,
}

const SHELLS: [Shell; 4] = [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Dash];

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
            Shell::Dash => "dash",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Parallel,
    Pipeline,
    Expect,
}

/// Some shells, in some tools.
#[derive(Clone, Copy)]
struct At {
    shells: &'static [Shell],
    tools: &'static [Tool],
}

const EVERY_TOOL: &[Tool] = &[Tool::Parallel, Tool::Pipeline, Tool::Expect];
const BASH: At = At::of(&[Shell::Bash]);
const ZSH: At = At::of(&[Shell::Zsh]);
const FISH: At = At::of(&[Shell::Fish]);
const DASH: At = At::of(&[Shell::Dash]);
const ZSH_DASH: At = At::of(&[Shell::Zsh, Shell::Dash]);
const BASH_ZSH: At = At::of(&[Shell::Bash, Shell::Zsh]);
const ANY: At = At::of(&SHELLS);

impl At {
    const fn of(shells: &'static [Shell]) -> At {
        At {
            shells,
            tools: EVERY_TOOL,
        }
    }

    /// As a step, in a shell that has a terminal and lives on.
    const fn as_a_step(self) -> At {
        At {
            tools: &[Tool::Pipeline],
            ..self
        }
    }

    /// As the text of `-c`.
    const fn alone(self) -> At {
        At {
            tools: &[Tool::Parallel, Tool::Expect],
            ..self
        }
    }

    fn has(self, shell: Shell, tool: Tool) -> bool {
        self.shells.contains(&shell) && self.tools.contains(&tool)
    }
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Code(i32),
    /// As a step, it ends its shell too.
    Gone(i32),
    /// So does a signal.
    Signal(&'static str),
}

use End::{Code, Gone, Signal};

impl From<i32> for End {
    fn from(code: i32) -> End {
        Code(code)
    }
}

impl From<&'static str> for End {
    fn from(signal: &'static str) -> End {
        Signal(signal)
    }
}

struct Row {
    text: String,
    wanted: Wanted,
    next: Wanted,
    last: bool,
    but: Vec<(At, But, &'static str)>,
}

#[derive(Clone)]
struct Wanted {
    end: End,
    out: String,
}

enum But {
    Text(String),
    Comes(Wanted),
    Next(Wanted),
}

fn row(text: impl Into<String>, end: impl Into<End>, out: &str) -> Row {
    Row {
        text: text.into(),
        wanted: wanted(end, out),
        next: wanted(0, "alive"),
        last: false,
        but: Vec::new(),
    }
}

fn wanted(end: impl Into<End>, out: &str) -> Wanted {
    // The text of a pane has no newline behind its last line.
    let out = out.strip_suffix('\n').unwrap_or(out).to_owned();
    Wanted {
        end: end.into(),
        out,
    }
}

impl Row {
    /// Another text, for a shell that would not understand it.
    fn text(mut self, at: At, text: &str, why: &'static str) -> Row {
        self.but.push((at, But::Text(text.to_owned()), why));
        self
    }

    /// fish's words for a text it cannot read.
    fn fish_cannot_read(self, says: &str) -> Row {
        let said = format!("…{says}…\n…");
        self.but(
            FISH,
            0,
            &said,
            "fish 3.6 gives 0 for a text of `-c` that it cannot read",
        )
        .but(FISH.as_a_step(), 1, &said, "sourcing such a text fails")
    }

    fn but(mut self, at: At, end: impl Into<End>, out: &str, why: &'static str) -> Row {
        self.but.push((at, But::Comes(wanted(end, out)), why));
        self
    }

    /// What the step behind it comes to.
    fn next(mut self, end: impl Into<End>, out: &str) -> Row {
        self.next = wanted(end, out);
        self
    }

    fn next_but(mut self, at: At, end: impl Into<End>, out: &str, why: &'static str) -> Row {
        self.but.push((at, But::Next(wanted(end, out)), why));
        self
    }

    /// It leaves its shell as no later row wants to find it.
    fn last(mut self) -> Row {
        self.last = true;
        self
    }

    fn case(&self, shell: Shell, tool: Tool) -> Case<'_> {
        let mut case = Case {
            row: self,
            shell,
            tool,
            text: &self.text,
            wanted: &self.wanted,
            next: &self.next,
            why: "",
        };
        for (_, but, why) in self.but.iter().filter(|(at, ..)| at.has(shell, tool)) {
            match but {
                But::Text(text) => case.text = text,
                But::Comes(wanted) => case.wanted = wanted,
                But::Next(wanted) => case.next = wanted,
            }
            case.why = why;
        }
        case
    }
}

/// A row in one shell by one tool.
struct Case<'a> {
    row: &'a Row,
    shell: Shell,
    tool: Tool,
    text: &'a str,
    wanted: &'a Wanted,
    next: &'a Wanted,
    why: &'a str,
}

/// What came of it.
#[derive(Clone)]
struct Came {
    /// Anything but an end of its own.
    otherwise: Option<String>,
    code: Option<i32>,
    signal: Option<String>,
    output: String,
    omitted: u64,
}

impl Came {
    fn wrong(&self, wanted: &Wanted) -> bool {
        let end = match wanted.end {
            Code(code) | Gone(code) => (Some(code), None),
            Signal(signal) => (None, Some(signal)),
        };
        self.otherwise.is_some()
            || self.omitted > 0
            || end != (self.code, self.signal.as_deref())
            || !is_like(&self.output, &wanted.out)
    }
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.otherwise, &self.signal, self.code) {
            (Some(otherwise), ..) => write!(f, "{otherwise}")?,
            (None, Some(signal), _) => write!(f, "{signal}")?,
            (None, None, code) => write!(f, "{code:?}")?,
        }
        if self.omitted > 0 {
            write!(f, ", {} left out", self.omitted)?;
        }
        write!(f, " {}", short(&self.output))
    }
}

/// A report's line must not be a megabyte.
fn short(text: &str) -> String {
    let count = text.chars().count();
    if count <= 300 {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(100).collect();
    let tail: String = text.chars().skip(count - 100).collect();
    format!("{head:?}…{tail:?} ({count} characters)")
}

fn is_like(text: &str, wanted: &str) -> bool {
    if !wanted.contains('…') {
        return text == wanted;
    }
    let text: Vec<&str> = text.split('\n').collect();
    let wanted: Vec<&str> = wanted.split('\n').collect();
    lines_are_like(&text, &wanted)
}

fn lines_are_like(text: &[&str], wanted: &[&str]) -> bool {
    match (text, wanted) {
        ([], []) => true,
        (_, ["…", rest @ ..]) => {
            (0..=text.len()).any(|skipped| lines_are_like(&text[skipped..], rest))
        }
        ([line, text @ ..], [like, wanted @ ..]) => {
            line_is_like(line, like) && lines_are_like(text, wanted)
        }
        ([], _) | (_, []) => false,
    }
}

fn line_is_like(line: &str, like: &str) -> bool {
    match (like.strip_prefix('…'), like.strip_suffix('…')) {
        (Some(_), Some(_)) => line.contains(like.trim_matches('…')),
        (Some(tail), None) => line.ends_with(tail),
        (None, Some(head)) => line.starts_with(head),
        (None, None) => line == like,
    }
}

#[derive(Default)]
struct Tally {
    right: usize,
    known: Vec<String>,
    wrong: Vec<String>,
}

impl Tally {
    /// A case as it came, and the step behind it if there was one: how it came, and whether its shell was a fresh one.
    fn note(&mut self, case: &Case<'_>, came: &Came, next: Option<(&Came, bool)>) {
        let mut faults = Vec::new();
        if came.wrong(case.wanted) {
            let Wanted { end, out } = case.wanted;
            faults.push(format!("wanted {end:?} {}, came {came}", short(out)));
        }
        if let Some((next, fresh)) = next {
            let gone = match case.wanted.end {
                Code(_) => false,
                Gone(_) | Signal(_) => true,
            };
            if next.wrong(case.next) {
                let Wanted { end, out } = case.next;
                faults.push(format!(
                    "behind it wanted {end:?} {}, came {next}",
                    short(out)
                ));
            }
            if fresh != gone {
                faults.push(format!(
                    "wanted its shell gone: {gone}, and it was: {fresh}"
                ));
            }
        }
        let Case {
            row,
            shell,
            tool,
            text,
            why,
            ..
        } = case;
        let known = KNOWN_DEFECTS
            .iter()
            .find(|(at, text, _)| at.has(*shell, *tool) && *text == row.text);
        let name = format!("{} {tool:?} {}", shell.name(), short(text));
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(" ({why})")
        };
        match (faults.is_empty(), known) {
            (true, None) => self.right += 1,
            (true, Some(_)) => self
                .wrong
                .push(format!("{name}: a known defect, and it came right")),
            (false, Some((_, _, what))) => self
                .known
                .push(format!("{name}: {what}: {}", faults.join("; "))),
            (false, None) => self
                .wrong
                .push(format!("{name}: {}{why}", faults.join("; "))),
        }
    }
}

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(600))
}

fn client(test_env: &TestEnv) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.initialize("2025-06-18", "hostile");
    client
}

fn try_all(shell: Shell) -> Tally {
    let test_env = test_env();
    for (name, mode, text) in [
        ("plain", 0o644, "echo no\n"),
        ("no-interpreter", 0o755, "#!/no/such/interpreter\n"),
        ("nothing", 0o755, ""),
        ("no-shebang", 0o755, "echo ran; exit 8\n"),
    ] {
        let path = test_env.work().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    }
    fs::create_dir(test_env.work().join("a-directory")).expect("a directory");
    // Ten fishes that make these at the same time complain of each other.
    for dir in ["config/fish", "home/.local/share/fish"] {
        fs::create_dir_all(test_env.dir().join(dir)).expect("a directory");
    }
    let mut client = client(&test_env);
    let rows = table();
    let mut tally = Tally::default();
    side_by_side(&mut client, shell, &rows, &mut tally);
    one_after_the_other(&mut client, shell, &rows, &mut tally);
    waited_for(&mut client, shell, &rows, &mut tally);
    tally
}

// Far more than any row takes, and less than a client waits: a row that hangs is one line of the report.
const PATIENCE_MS: u64 = 30_000;
const ALL_CHARS: u64 = 16_000_000;

fn answer<T: DeserializeOwned>(client: &mut McpClient, call: u64) -> T {
    let found = facts(&client.result(call));
    serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found:.2000}"))
}

fn call<T: DeserializeOwned>(client: &mut McpClient, tool: &str, args: Value) -> T {
    let call = client.send_tool_call(tool, args);
    answer(client, call)
}

fn side_by_side(client: &mut McpClient, shell: Shell, rows: &[Row], tally: &mut Tally) {
    for rows in rows.chunks(10) {
        let cases: Vec<Case<'_>> = rows
            .iter()
            .map(|row| row.case(shell, Tool::Parallel))
            .collect();
        let commands: Vec<Value> = cases
            .iter()
            .map(|case| json!({"command": case.text}))
            .collect();
        let result: ParallelResult = call(
            client,
            "fugue_run_parallel",
            json!({
                "commands": commands,
                "shell": shell.name(),
                "timeout_ms": PATIENCE_MS,
                "max_output_chars": ALL_CHARS,
            }),
        );
        for (case, task) in cases.iter().zip(result.results) {
            let came = Came {
                otherwise: (task.status != TaskStatus::Exited)
                    .then(|| format!("{:?}", task.status)),
                code: task.exit_code,
                signal: task.signal,
                output: task.output,
                omitted: task.omitted_chars + task.omitted_lines,
            };
            tally.note(case, &came, None);
        }
    }
}

fn one_after_the_other(client: &mut McpClient, shell: Shell, rows: &[Row], tally: &mut Tally) {
    // With the step behind each row they are the most that a pipeline takes.
    for rows in rows
        .split_inclusive(|row| row.last)
        .flat_map(|rows| rows.chunks(25))
    {
        let cases: Vec<Case<'_>> = rows
            .iter()
            .map(|row| row.case(shell, Tool::Pipeline))
            .collect();
        let commands: Vec<Value> = cases
            .iter()
            .flat_map(|case| [case.text, "echo alive"])
            .map(|text| json!({"command": text}))
            .collect();
        let result: PipelineResult = call(
            client,
            "fugue_run_pipeline",
            json!({
                "commands": commands,
                "shell": shell.name(),
                "stop_on_error": false,
                // Its shell ends by itself at its next prompt, and must not be just then closed: see the test below
                // the table.
                "cleanup": true,
                "timeout_ms": PATIENCE_MS,
                "max_output_chars": ALL_CHARS,
            }),
        );
        let mut steps = result.steps.into_iter();
        let not_reached = Came {
            otherwise: Some("not reached".to_owned()),
            code: None,
            signal: None,
            output: String::new(),
            omitted: 0,
        };
        for case in &cases {
            let mut step = || {
                let Some(step) = steps.next() else {
                    return (not_reached.clone(), false);
                };
                let came = Came {
                    otherwise: (step.status != StepStatus::Exited)
                        .then(|| format!("{:?}", step.status)),
                    code: step.exit_code,
                    signal: step.signal,
                    output: step.output,
                    omitted: step.omitted_chars + step.omitted_lines,
                };
                (came, step.note.is_some())
            };
            let ((came, _), (next, fresh)) = (step(), step());
            tally.note(case, &came, Some((&next, fresh)));
        }
    }
}

fn waited_for(client: &mut McpClient, shell: Shell, rows: &[Row], tally: &mut Tally) {
    for rows in rows.chunks(10) {
        let cases: Vec<Case<'_>> = rows
            .iter()
            .map(|row| row.case(shell, Tool::Expect))
            .collect();
        let made: Vec<u64> = cases
            .iter()
            .map(|case| {
                client.send_tool_call(
                    "create_pane",
                    json!({"command": case.text, "shell": shell.name()}),
                )
            })
            .collect();
        let panes: Vec<String> = made
            .into_iter()
            .map(|call| answer::<CreatePaneReply>(client, call).pane_id.to_string())
            .collect();
        let asked: Vec<u64> = panes
            .iter()
            .map(|pane| {
                client.send_tool_call(
                    "fugue_expect",
                    json!({
                        "pane_id": pane,
                        "pattern": "words that no row prints",
                        "action": "return_output",
                        "lines": 1_000_000,
                        "timeout_ms": PATIENCE_MS,
                    }),
                )
            })
            .collect();
        for ((case, pane), asked) in cases.iter().zip(&panes).zip(asked) {
            let found: ExpectResult = answer(client, asked);
            let mut came = Came {
                otherwise: (found.status != ExpectStatus::Exited)
                    .then(|| format!("{:?}", found.status)),
                code: found.exit_code,
                signal: found.signal,
                output: found.output.unwrap_or_default(),
                omitted: found.omitted_chars,
            };
            if came.omitted > 0 {
                // A wait's output has a bound that nobody can raise; all of it stays readable.
                let all: ReadPaneReply = call(
                    client,
                    "read_pane",
                    json!({"pane_id": pane, "lines": 1_000_000, "max_output_chars": ALL_CHARS}),
                );
                (came.output, came.omitted) = (all.text, all.omitted_lines + all.omitted_chars);
            }
            tally.note(case, &came, None);
        }
        let closed: Vec<u64> = panes
            .iter()
            .map(|pane| client.send_tool_call("close_pane", json!({"pane_id": pane})))
            .collect();
        for call in closed {
            client.result(call);
        }
    }
}
