# The steps of a pipeline in a POSIX shell, which reads this file as $ENV when it starts.
#
# Such a shell has no hooks, so all is done here, at the file's top level, before the first prompt; it marks nothing
# that is typed later and cannot be woken. There is one line of text per step and no loop that a `break` could end. An
# interrupt is a `return` out of the step, and while none runs it is nothing. These shells have no clock: records say `-`.
#
# Between two steps the options that would show, end or export something of ours are off, and the step's own text
# switches them on again.

__fugue_dir=${FUGUE_STEPS_DIR-} __fugue_home=${ENV%/*}
__fugue_c="$(printf '\033]133;C;k=')${FUGUE_SHELL_SECRET-};s=" __fugue_d="$(printf '\033]133;D;')"
__fugue_k=";k=${FUGUE_SHELL_SECRET-};s=" __fugue_st="$(printf '\033\\')"
unset ENV FUGUE_SHELL_SECRET FUGUE_STEPS_DIR FUGUE_SHELL_BARE
readonly __fugue_dir __fugue_home __fugue_c __fugue_d __fugue_k __fugue_st
__fugue_n= __fugue_last=0 __fugue_count=0 __fugue_code=0 __fugue_flags= __fugue_born=

# Step $1. Fails if it must not run.
__fugue_before() {
    if [ -z "$__fugue_n" ]; then return 1; fi
    if [ -e "$__fugue_dir/$__fugue_n/stop" ]; then
        __fugue_finish
        return 1
    fi
    __fugue_text=$(command -p cat "$__fugue_dir/$__fugue_n/$1" && command echo .)
    __fugue_text=${__fugue_text%.}
    if [ -n "$__fugue_flags" ]; then
        __fugue_text="command set$__fugue_flags
$__fugue_text"
    fi
    # What cannot be written down must not run: a fresh shell would run it again.
    if ! command printf 'S %s - %s\n' "$1" "$$" >>"$__fugue_dir/$__fugue_n/log"; then
        __fugue_n=
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

# $1: the step's code.
__fugue_after() {
    # One by one, for with `set -a` an assignment is an export.
    case $- in *a*) set +a && __fugue_flags=' -a' ;; *) __fugue_flags= ;; esac
    case $- in *e*) set +e && __fugue_flags="$__fugue_flags -e" ;; esac
    case $- in *f*) __fugue_flags="$__fugue_flags -f" ;; esac
    case $- in *u*) set +u && __fugue_flags="$__fugue_flags -u" ;; esac
    case $- in *v*) set +v && __fugue_flags="$__fugue_flags -v" ;; esac
    case $- in *x*) set +x && __fugue_flags="$__fugue_flags -x" ;; esac
    __fugue_runs=
    if [ -z "$__fugue_n" ]; then return 0; fi
    # Out of a loop, the `return` did not bring its code along.
    if [ -n "${__fugue_int-}" ]; then set -- 130; fi
    __fugue_int=
    __fugue_code=$1
    # A program that made the terminal raw and did not put it back would leave it so. Without a child that ended there
    # was no such program, and the time for another can be saved.
    __fugue_had=$__fugue_born
    __fugue_children
    if [ -n "$__fugue_tty" ] && [ -z "$__fugue_born" -o "$__fugue_born" != "$__fugue_had" ]; then
        command -p stty "$__fugue_tty" </dev/tty
    fi
    command printf 'E %s %s -\n' "$__fugue_last" "$1" >>"$__fugue_dir/$__fugue_n/log"
    command printf '%s\n── exit %s\n' "$__fugue_d$1$__fugue_k$__fugue_n.$__fugue_last$__fugue_st" "$1" >/dev/tty
    if [ "$1" != 0 ] && [ ! -e "$__fugue_dir/$__fugue_n/keep-going" ]; then __fugue_finish; fi
    return 0
}

__fugue_finish() {
    command printf 'D\n' >>"$__fugue_dir/$__fugue_n/log"
    __fugue_n=
}

# Page faults of the children that have ended: each has some. Nothing where there is no /proc.
__fugue_children() {
    __fugue_born=
    if [ ! -r "/proc/$$/stat" ]; then return 0; fi
    IFS= read -r __fugue_born <"/proc/$$/stat"
    __fugue_born=${__fugue_born##*) }
    __fugue_born=${__fugue_born#* * * * * * * * }
    __fugue_born=${__fugue_born%% *}
}

PS1='$ '
if [ -r "$__fugue_dir/go" ]; then
    IFS= read -r __fugue_n <"$__fugue_dir/go"
    IFS= read -r __fugue_count <"$__fugue_dir/$__fugue_n/count"
    # A step that is open died with its shell: it has run.
    while read -r __fugue_r __fugue_i __fugue_rest; do
        case $__fugue_r in
        S) __fugue_last=$__fugue_i ;;
        D) __fugue_n= ;;
        esac
    done <"$__fugue_dir/$__fugue_n/log"
fi 2>/dev/null
if [ -n "$__fugue_n" ]; then
    __fugue_tty=$(command -p stty -g </dev/tty 2>/dev/null)
    __fugue_lines= __fugue_i=$__fugue_last
    while [ "$__fugue_i" -lt "$__fugue_count" ]; do
        __fugue_i=$((__fugue_i + 1))
        __fugue_lines="$__fugue_lines
if __fugue_before $__fugue_i; then . \"\$__fugue_home/posix-run.sh\"; { __fugue_after \$?; } >/dev/null 2>&1; fi"
    done
    trap 'if [ -n "${__fugue_runs-}" ]; then __fugue_int=1; return 130; fi' INT
    eval "$__fugue_lines"
    if [ -n "$__fugue_n" ]; then __fugue_finish; fi
    trap - INT
    if [ -n "$__fugue_flags" ]; then command set $__fugue_flags; fi
fi
unset __fugue_lines __fugue_text __fugue_head
