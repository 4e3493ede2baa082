# The steps of a pipeline in a POSIX shell, which reads this file as $ENV when it starts.
#
# Such a shell has no hooks, so the steps run from this file's top level, before the first prompt; commands that are typed
# later are not marked, and the shell cannot be woken. There is one line of text per step and no loop that a `break` could
# end. An interrupt is a `return` out of the step, and has no effect while no step runs. These shells have no clock: the time
# in records is `-`.
#
# Between two steps the options that would display, end or export code of fugue are off; the step's own text switches them
# on again.

# The secret is read, and its file emptied, before the first step runs. (An old bash has read it already: see bash.sh.)
__fugue_dir=${FUGUE_STEPS_DIR-} __fugue_home=${ENV%/*} __fugue_secret=${__fugue_secret-}
if [ -s "$__fugue_dir/secret" ]; then
    IFS= read -r __fugue_secret <"$__fugue_dir/secret"
    command : >|"$__fugue_dir/secret" || __fugue_secret=
fi 2>/dev/null
__fugue_c="$(printf '\033]133;C;k=')$__fugue_secret;s=" __fugue_d="$(printf '\033]133;D;')"
__fugue_k=";k=$__fugue_secret;s=" __fugue_st="$(printf '\033\\')"
__fugue_b="$(printf '\033]133;B;k=')$__fugue_secret$__fugue_st"
unset ENV __fugue_secret FUGUE_STEPS_DIR FUGUE_SHELL_BARE
readonly __fugue_dir __fugue_home __fugue_b __fugue_c __fugue_d __fugue_k __fugue_st
__fugue_n= __fugue_last=0 __fugue_count=0 __fugue_code=0 __fugue_flags= __fugue_born=

# Runs before step $1, and fails if the step must not run. Each record ends with a key that is used once (see steps.rs): $2
# is the key of this record, $3 the key of the plan's end.
__fugue_before() {
    if [ -z "$__fugue_n" ]; then return 1; fi
    if [ -e "$__fugue_dir/$__fugue_n/stop" ]; then
        __fugue_finish "$3"
        return 1
    fi
    __fugue_text=$(command -p cat "$__fugue_dir/$__fugue_n/$1" && command echo .)
    __fugue_text=${__fugue_text%.}
    if [ -n "$__fugue_flags" ]; then
        __fugue_text="command set$__fugue_flags
$__fugue_text"
    fi
    # A step whose start cannot be recorded must not run: a fresh shell would run it again.
    if ! command printf '\nS %s - %s %s\n' "$1" "$$" "$2" >>"$__fugue_dir/$__fugue_n/log"; then
        __fugue_give_up
        return 1
    fi
    __fugue_last=$1
    IFS= read -r __fugue_head <"$__fugue_dir/$__fugue_n/$1.head"
    __fugue_children
} 2>/dev/null

__fugue_start() {
    command printf '%s\n%s' "$__fugue_head" "$__fugue_c$__fugue_n.$__fugue_last$__fugue_st" >/dev/tty
    __fugue_runs=1
    if [ -n "$__fugue_flags" ]; then return 0; fi
    return "$__fugue_code"
}

# Runs after a step. $1: the step's exit code; $2: the key of this record; $3: the key of the plan's end.
__fugue_after() {
    # One option at a time: with `set -a` an assignment would be an export.
    case $- in *a*) set +a && __fugue_flags=' -a' ;; *) __fugue_flags= ;; esac
    case $- in *e*) set +e && __fugue_flags="$__fugue_flags -e" ;; esac
    case $- in *f*) __fugue_flags="$__fugue_flags -f" ;; esac
    case $- in *u*) set +u && __fugue_flags="$__fugue_flags -u" ;; esac
    case $- in *v*) set +v && __fugue_flags="$__fugue_flags -v" ;; esac
    case $- in *x*) set +x && __fugue_flags="$__fugue_flags -x" ;; esac
    __fugue_runs=
    if [ -z "$__fugue_n" ]; then return 0; fi
    # A `return` out of a loop does not carry its code.
    if [ -n "${__fugue_int-}" ]; then set -- 130 "$2" "$3"; fi
    __fugue_int=
    __fugue_code=$1
    # A program may have left the terminal in raw mode. Where no child has ended there was no such program, and starting stty
    # is not needed.
    __fugue_had=$__fugue_born
    __fugue_children
    if [ -n "$__fugue_tty" ] && [ -z "$__fugue_born" -o "$__fugue_born" != "$__fugue_had" ]; then
        command -p stty "$__fugue_tty" </dev/tty
    fi
    __fugue_had=
    command printf '\nE %s %s - %s\n' "$__fugue_last" "$1" "$2" >>"$__fugue_dir/$__fugue_n/log" || __fugue_had=lost
    command printf '%s\n── exit %s\n' "$__fugue_d$1$__fugue_k$__fugue_n.$__fugue_last$__fugue_st" "$1" >/dev/tty
    if [ -n "$__fugue_had" ]; then
        __fugue_give_up
    elif [ "$1" != 0 ] && [ ! -e "$__fugue_dir/$__fugue_n/keep-going" ]; then
        __fugue_finish "$3"
    fi
    return 0
}

# $1: the key of this record.
__fugue_finish() {
    command printf '\nD %s\n' "$1" >>"$__fugue_dir/$__fugue_n/log" || __fugue_give_up
    __fugue_n=
}

# A record could not be written. The mark of a prompt, the only one that this shell prints, shows that no step follows.
__fugue_give_up() {
    command printf '%s' "$__fugue_b" >/dev/tty
    __fugue_n=
}

# The page faults of ended children, of which each child has some. Empty without /proc.
__fugue_children() {
    __fugue_born=
    if [ ! -r "/proc/$$/stat" ]; then return 0; fi
    IFS= read -r __fugue_born <"/proc/$$/stat"
    __fugue_born=${__fugue_born##*) }
    __fugue_born=${__fugue_born#* * * * * * * * }
    __fugue_born=${__fugue_born%% *}
}

# The text that runs the steps after $__fugue_last. $@: the keys of all records.
__fugue_build() {
    __fugue_lines= __fugue_i=$__fugue_last
    for __fugue_end; do :; done
    while [ "$__fugue_i" -lt "$__fugue_count" ]; do
        __fugue_i=$((__fugue_i + 1))
        __fugue_lines="$__fugue_lines
if __fugue_before $__fugue_i $1 $__fugue_end; then . \"\$__fugue_home/posix-run.sh\"; { __fugue_after \$? $2 $__fugue_end; } >/dev/null 2>&1; fi"
        shift 2
    done
    __fugue_lines="$__fugue_lines
if [ -n \"\$__fugue_n\" ]; then __fugue_finish $__fugue_end; fi"
}

PS1='$ '
if [ -r "$__fugue_dir/go" ]; then
    IFS= read -r __fugue_n <"$__fugue_dir/go"
    IFS= read -r __fugue_count <"$__fugue_dir/$__fugue_n/count"
    # The first remaining step, and the keys of all records. The keys are erased from the disk before the first step. A shell
    # without keys runs no steps.
    __fugue_i= __fugue_rest=
    IFS=' ' read -r __fugue_i __fugue_rest <"$__fugue_dir/$__fugue_n/keys"
    if [ -n "$__fugue_rest" ] && command : >|"$__fugue_dir/$__fugue_n/keys"; then
        __fugue_last=$((__fugue_i - 1))
    else
        __fugue_n=
    fi
fi 2>/dev/null
if [ -n "$__fugue_n" ]; then
    __fugue_tty=$(command -p stty -g </dev/tty 2>/dev/null)
    # The keys are 16 letters each.
    __fugue_build $(command printf '%s' "$__fugue_rest" | command -p sed 's/.\{16\}/& /g')
    unset __fugue_rest __fugue_end
    trap 'if [ -n "${__fugue_runs-}" ]; then __fugue_int=1; return 130; fi' INT
    eval "$__fugue_lines"
    trap - INT
    if [ -n "$__fugue_flags" ]; then command set $__fugue_flags; fi
fi
unset __fugue_lines __fugue_text __fugue_head
