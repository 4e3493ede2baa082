# fugue's shell integration for bash 5.1 or later, read as `bash --rcfile`, or as the ENV file of a pipeline's own shell.
#
# The integration makes an interactive bash print shell marks with the pane's secret: where a prompt and its input begin
# (A, B), when a command starts (C), how the command ended (D;code), and the working directory (P, and OSC 7). When the
# daemon has written step files (see steps.rs), the integration runs the steps before the prompt appears.
#
# The integration never writes a file other than a plan's log, never changes a trap or a shell option outside of a plan,
# never adds to the history, and never puts the secret into anything that a child process inherits. A variable that
# cannot be changed (a read-only PS1) is left alone: a shell without marks is better than a broken shell.
#
# PROMPT_COMMAND can be an array since bash 5.1. In older versions the hook of fugue would not get `$?` unchanged, and a
# wrong exit code is worse than none; older shells get the user's rc file and nothing else.

# The secret is read, and its file emptied, before any of the user's code runs. The hooks use the strings built here.
__fugue_k= __fugue_steps=${FUGUE_STEPS_DIR-} __fugue_bare=${FUGUE_SHELL_BARE-}
unset -v FUGUE_STEPS_DIR FUGUE_SHELL_BARE
if [[ -s $__fugue_steps/secret ]]; then
    IFS= builtin read -r __fugue_k <"$__fugue_steps/secret"
    >|"$__fugue_steps/secret" || __fugue_k=
fi

# A pipeline's own shell is started in POSIX mode, which is the only way to make bash read this file and no other, not even
# the system's. One file must be read: a bash whose very first command comes from PROMPT_COMMAND never sets PIPESTATUS.
if [[ -n $__fugue_bare ]]; then
    set +o posix
    unset -v ENV PROMPT_COMMAND PS0
    shopt -u inherit_errexit 2>/dev/null
    if [[ ${HISTFILE-} == ~/.sh_history ]]; then HISTFILE=~/.bash_history; fi
fi

if [[ -n $__fugue_k ]] && (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501 )); then

# PS1 contains only references to variables, in a syntax that every POSIX shell accepts: where a user exports PS1, a nested
# bash or dash expands the references to nothing.
__fugue_a=$'\e]133;A;k='$__fugue_k$'\e\\'
__fugue_b=$'\e]133;B;k='$__fugue_k$'\e\\'
__fugue_open='\[${__fugue_a-}\]'
__fugue_close='\[${__fugue_b-}\]'

# The state of the marks. 0: at a prompt. 1: C was printed, and D must follow. 2: a command started although the hook has
# not run since the last C (the hook was removed from PROMPT_COMMAND), so no later status belongs to that C.
# PS0 is expanded in the shell itself, so its subscript can both select the mark and change the state: only element 1
# exists.
__fugue_ran=0
__fugue_c=([1]=$'\e]133;C;k='"$__fugue_k"$'\e\\')
__fugue_zero='${__fugue_c[__fugue_ran=${__fugue_ran:-0}?2:1]-}'

__fugue_d=($'\e]133;D;' ";k=$__fugue_k"$'\e\\')
__fugue_p=($'\e]133;P;k='"$__fugue_k;cwd=" $'\e\\')
__fugue_m=($'\e]133;C;k='"$__fugue_k;s=" $'\e]133;D;' ";k=$__fugue_k;s=" $'\e\\')

# The element of PROMPT_COMMAND that belongs to fugue. The steps of a plan run from this string and not from the function,
# whose scope would make a `declare` in a step local.
__fugue_hook='__fugue_prompt || eval "$__fugue_lines"'
__fugue_keys=() __fugue_lines= __fugue_finished= __fugue_aliases= __fugue_flags= __fugue_debug= __fugue_draft=

# The values that the hook has assigned to PS1 and PS0, to detect changes by others. No prompt is a single newline, so the
# first comparison finds a change.
__fugue_ps1=$'\n' __fugue_ps0=$'\n' __fugue_cwd= __fugue_mode=
# With SHELLOPTS=allexport in the environment all of these would have been exported.
builtin declare +x __fugue_a __fugue_b __fugue_c __fugue_d __fugue_m __fugue_p __fugue_ran __fugue_steps

# Runs before each prompt, as an element of PROMPT_COMMAND of its own: bash then restores `$?`, `$_` and PIPESTATUS
# around it. The function forks no process. Names are long because a `local` of a name that the user made read-only is an
# error; expansions are quoted because after `builtin` a `local x=$y` is split into words.
#
# Returns 1 if there are steps to run: $__fugue_lines is then evaluated, and the function is called again afterwards.
__fugue_prompt() {
    # Tracing must not show the marks, and `set -a`, `-e`, `-u` must not apply here; `local -` restores them.
    { builtin local __fugue_s="$?" -; builtin set +aeuvxET; } 2>/dev/null
    if [[ -z ${__fugue_s-} ]]; then
        # A restricted shell (`set -r`) forbids redirections: the hook is removed after one message.
        __fugue_leave
        return 0
    fi
    builtin local __fugue_out= __fugue_enc=

    __fugue_stay
    if ((__fugue_ran == 1)); then
        __fugue_out=${__fugue_d[0]}$__fugue_s${__fugue_d[1]}
    fi
    __fugue_ran=0
    if [[ -n $__fugue_steps && -e $__fugue_steps/go ]]; then
        if [[ -n $__fugue_out ]]; then builtin printf %s "$__fugue_out" >&2; __fugue_out=; fi
        if __fugue_plan; then
            if [[ $__fugue_mode != preexec || ${#FUNCNAME[@]} == 1 ]]; then builtin return 1; fi
            # bash-preexec calls its hooks in a function. The steps run from an element of PROMPT_COMMAND of their own,
            # which bash evaluates at the next prompt: the wake-up key therefore accepts two lines here.
            __fugue_drop
            PROMPT_COMMAND+=("$__fugue_hook")
        elif [[ $__fugue_mode == preexec && ${#FUNCNAME[@]} == 1 ]]; then
            __fugue_drop
        fi
    fi
    if [[ ${PWD-} == /* && $PWD != "$__fugue_cwd" ]]; then
        __fugue_encode
        __fugue_out+=${__fugue_p[0]}$__fugue_enc${__fugue_p[1]}
        if [[ ${HOSTNAME-} == *[!A-Za-z0-9.-]* ]]; then
            __fugue_out+=$'\e]7;file://'$__fugue_enc$'\e\\'
        else
            __fugue_out+=$'\e]7;file://'${HOSTNAME-}$__fugue_enc$'\e\\'
        fi
        __fugue_cwd=$PWD
    fi
    # Other hooks rewrite the prompt afterwards and may drop the marks in it, so A is printed before they run.
    if [[ $__fugue_mode == first ]]; then __fugue_out+=$__fugue_a; fi
    # Standard error is where bash itself writes its prompt.
    if [[ -n $__fugue_out ]]; then builtin printf %s "$__fugue_out" >&2; fi

    if builtin shopt -q promptvars; then
        if [[ ${PS1-} != "$__fugue_ps1" ]]; then __fugue_dress PS1 "$__fugue_open" "$__fugue_close"; __fugue_ps1=${PS1-}; fi
        if [[ ${PS0-} != "$__fugue_ps0" ]]; then __fugue_dress PS0 '' "$__fugue_zero"; __fugue_ps0=${PS0-}; fi
    else
        # Without prompt expansion a reference would be displayed literally.
        __fugue_undress PS1
        __fugue_undress PS0
        __fugue_ps1=$'\n' __fugue_ps0=$'\n'
    fi
    return 0
}

# Puts the marks around the prompt in the variable named $1, once, also where the prompt contains copies of itself. An
# assignment with `printf -v` to a read-only variable fails without ending the whole command line.
__fugue_dress() {
    builtin local __fugue_t="${!1-}" __fugue_u
    __fugue_t=${__fugue_t//"$__fugue_open"/}
    __fugue_t=${__fugue_t//"$__fugue_close"/}
    __fugue_t=${__fugue_t//"$__fugue_zero"/}
    # Backslashes at the end must not escape the mark. bash halves their number twice, rounding up at the end of the string.
    __fugue_u=${__fugue_t##*[!\\]}
    while ((${#__fugue_u} % 4)); do __fugue_u+='\' __fugue_t+='\'; done
    builtin printf -v "$1" %s "$2$__fugue_t$3" 2>/dev/null || builtin return 0
}

__fugue_undress() {
    builtin local __fugue_t="${!1-}"
    __fugue_t=${__fugue_t//"$__fugue_open"/}
    __fugue_t=${__fugue_t//"$__fugue_close"/}
    __fugue_t=${__fugue_t//"$__fugue_zero"/}
    if [[ $__fugue_t != "${!1-}" ]]; then
        builtin printf -v "$1" %s "$__fugue_t" 2>/dev/null || builtin return 0
    fi
}

# Keeps the hook the last element, so that marks are added after other hooks have rewritten the prompt. The user's own
# string keeps index 0, where `PROMPT_COMMAND=…` at the prompt replaces that string and not the hook.
__fugue_stay() {
    builtin local -a __fugue_i
    builtin local __fugue_n
    if [[ $__fugue_mode == preexec && ${precmd_functions[-1]-} != __fugue_prompt ]]; then
        for __fugue_n in "${precmd_functions[@]}"; do
            if [[ $__fugue_n != __fugue_prompt ]]; then __fugue_i+=("$__fugue_n"); fi
        done
        precmd_functions=("${__fugue_i[@]}" __fugue_prompt)
    fi
    if [[ $__fugue_mode != last ]]; then builtin return 0; fi
    __fugue_i=("${!PROMPT_COMMAND[@]}")
    if ((${#__fugue_i[@]})) && [[ ${PROMPT_COMMAND[__fugue_i[-1]]} == "$__fugue_hook" ]]; then builtin return 0; fi
    for __fugue_n in "${__fugue_i[@]}"; do
        if [[ ${PROMPT_COMMAND[__fugue_n]} == "$__fugue_hook" ]]; then
            if builtin printf -v "PROMPT_COMMAND[__fugue_i[-1] + 1]" %s "$__fugue_hook" 2>/dev/null; then
                builtin unset -v 'PROMPT_COMMAND[__fugue_n]'
            fi
            builtin return 0
        fi
    done
    # The hook was called from the middle of another string, where `$?` may be anything: no status is printed.
    __fugue_ran=2
}

__fugue_drop() {
    builtin local __fugue_n
    for __fugue_n in "${!PROMPT_COMMAND[@]}"; do
        if [[ ${PROMPT_COMMAND[__fugue_n]} == "$__fugue_hook" ]]; then builtin unset -v 'PROMPT_COMMAND[__fugue_n]'; fi
    done
}

__fugue_leave() {
    __fugue_drop
    __fugue_undress PS1
    __fugue_undress PS0
}

# Percent-encodes every byte except the unreserved ones and the slash, so that no path can end the mark.
__fugue_encode() {
    __fugue_enc=$PWD
    if [[ $__fugue_enc != *[!A-Za-z0-9/._~-]* ]]; then builtin return 0; fi
    builtin local LC_ALL=C 2>/dev/null
    builtin local __fugue_t="$PWD" __fugue_i __fugue_ch __fugue_x
    __fugue_enc=
    for ((__fugue_i = 0; __fugue_i < ${#__fugue_t}; __fugue_i++)); do
        __fugue_ch=${__fugue_t:__fugue_i:1}
        case $__fugue_ch in
        [A-Za-z0-9/._~-]) __fugue_enc+=$__fugue_ch ;;
        *)
            builtin printf -v __fugue_x %d "'$__fugue_ch"
            builtin printf -v __fugue_x '%%%02X' "$((__fugue_x & 255))"
            __fugue_enc+=$__fugue_x
            ;;
        esac
    done
}

# Steps
#
# The plan that the file `go` names becomes one line of text per step, which the element of PROMPT_COMMAND evaluates. There is
# no loop that a `break` in a step could end. After an error the next line is evaluated; after an interrupt the next prompt
# finds the step open in $__fugue_keys. A line is
#
#     if before; then ! eval text; else ! eval text; fi; if { after; … }; then :; fi
#
# `before` returns the last step's exit code, so that `$?` has this value where the text begins; as a condition it never
# triggers `set -e` or an ERR trap. The eval does not either: both act on the commands in it, but not on the `!`, which
# leaves the code in PIPESTATUS. Words begin with a backslash to avoid aliases.
#
# Between two steps tracing (x, v) and the DEBUG trap are off, and the text itself switches them on again
# (__fugue_with), so that they show no code of fugue. Headings and marks are written to the terminal itself, also where a
# step has redirected the shell's output.
#
# Each record in the log ends with a key that is used once (see steps.rs), and begins on a new line, also after a partial
# line of a step. The keys are in the lines themselves, where no step can remove them, and in $__fugue_keys: the plan, the
# first remaining step when this shell got the keys, the keys, the last started step, and whether that step is open.

# Succeeds if there are steps to run, and puts them into $__fugue_lines. Reads $__fugue_s of its caller __fugue_prompt.
__fugue_plan() {
    builtin local -a __fugue_log
    builtin local __fugue_n __fugue_at __fugue_t __fugue_end __fugue_last __fugue_i __fugue_j __fugue_last_key
    builtin mapfile -t __fugue_log <"$__fugue_steps/go" || builtin return 1
    __fugue_n=${__fugue_log[0]-}
    if [[ -z $__fugue_n || $__fugue_n == *[!0-9]* || $__fugue_n == "${__fugue_finished-}" ]]; then builtin return 1; fi
    __fugue_at=$__fugue_steps/$__fugue_n
    builtin mapfile -t __fugue_log <"$__fugue_at/count" || builtin return 1
    __fugue_end=${__fugue_log[0]-}
    if [[ -z $__fugue_end || $__fugue_end == *[!0-9]* ]]; then builtin return 1; fi

    if [[ ${__fugue_keys[0]-} != "$__fugue_n" ]]; then
        # The keys are erased from the disk before the first step. A shell without keys runs no steps.
        builtin mapfile -t __fugue_log <"$__fugue_at/keys" || builtin return 1
        __fugue_t=${__fugue_log[0]-}
        __fugue_i=${__fugue_t%% *}
        if [[ -z $__fugue_i || $__fugue_i == *[!0-9]* ]]; then builtin return 1; fi
        >|"$__fugue_at/keys" || builtin return 1
        __fugue_keys=("$__fugue_n" "$__fugue_i" "${__fugue_t#* }" "$((__fugue_i - 1))" '')
    fi
    __fugue_last=${__fugue_keys[3]} __fugue_last_key=${__fugue_keys[2]: -16}
    if [[ -z ${__fugue_tty-} ]]; then
        __fugue_tty=$(builtin command -p stty -g </dev/tty)
        __fugue_children
    fi
    __fugue_code=0
    # A step that is still open was abandoned, usually by an interrupt.
    if [[ -n ${__fugue_keys[4]} ]]; then
        __fugue_j=$(((__fugue_last - __fugue_keys[1]) * 32 + 16))
        __fugue_ended "$__fugue_n" "$__fugue_last" "$__fugue_s" "${__fugue_keys[2]:__fugue_j:16}" "$__fugue_last_key"
        if [[ $__fugue_finished == "$__fugue_n" ]]; then builtin return 1; fi
    fi
    if ((__fugue_last >= __fugue_end)); then
        __fugue_finish "$__fugue_n" "$__fugue_last_key"
        builtin return 1
    fi

    # Aliases are off, as in a script: an `alias rm='rm -i'` would wait for an answer.
    if [[ -z ${__fugue_aliases-} ]]; then
        __fugue_aliases=off
        if builtin shopt -q expand_aliases; then __fugue_aliases=on; fi
        builtin shopt -u expand_aliases
    fi
    __fugue_t='\builtin trap -p DEBUG >|"$__fugue_steps/trap"; \builtin trap - DEBUG; \__fugue_keep; } >/dev/null 2>&1; then \:; fi'$'\n\\:\n'
    __fugue_lines="if { \\__fugue_hush; $__fugue_t"
    for ((__fugue_i = __fugue_last + 1; __fugue_i <= __fugue_end; __fugue_i++)); do
        __fugue_j=$(((__fugue_i - __fugue_keys[1]) * 32))
        __fugue_lines+="if \\__fugue_before $__fugue_n $__fugue_i ${__fugue_keys[2]:__fugue_j:16} $__fugue_last_key >/dev/null 2>&1; then ! \\builtin eval -- \"\$__fugue_text\"; "
        __fugue_lines+="else ! \\builtin eval -- \"\$__fugue_text\"; fi; "
        __fugue_lines+="if { \\__fugue_after $__fugue_n $__fugue_i \"\${PIPESTATUS[0]}\" ${__fugue_keys[2]:__fugue_j+16:16} $__fugue_last_key; $__fugue_t"
    done
    __fugue_lines+="if { \\__fugue_finish $__fugue_n $__fugue_last_key; } >/dev/null 2>&1; then \\:; fi; if \\__fugue_with; then \\:; fi"$'\n'
    # The user's own hooks wrote the prompt before the steps ran, so they run once more.
    if [[ $__fugue_mode != first ]]; then
        for __fugue_i in "${!PROMPT_COMMAND[@]}"; do
            if [[ ${PROMPT_COMMAND[__fugue_i]} == "$__fugue_hook" ]]; then continue; fi
            __fugue_t="\\builtin eval \"\${PROMPT_COMMAND[$__fugue_i]-}\""
            __fugue_lines+="if \\__fugue_status; then $__fugue_t; else $__fugue_t; fi"$'\n'
        done
    fi
    __fugue_lines+=$__fugue_hook
    builtin return 0
} 2>/dev/null

# Runs before step $2 of plan $1, and returns the exit code of the last step. An empty text means that the step must not
# run. $3 is the key of this record, $4 the key of the record of the plan's end.
__fugue_before() {
    builtin local -
    builtin set +aeuET
    builtin local __fugue_checked __fugue_at="$__fugue_steps/$1"
    builtin local -a __fugue_head
    __fugue_text=
    if [[ $__fugue_finished == "$1" ]]; then builtin return 0; fi
    if [[ -e $__fugue_at/stop ]]; then
        __fugue_finish "$1" "$4"
        builtin return 0
    fi
    builtin mapfile -t __fugue_head <"$__fugue_at/$2.head"
    builtin mapfile -d '' -t __fugue_text <"$__fugue_at/$2"
    __fugue_text=${__fugue_text-:}
    # A step whose start cannot be recorded must not run: a fresh shell would run it again.
    __fugue_now
    if ! builtin printf '\nS %s %s %s %s\n' "$2" "$__fugue_time" "$$" "$3" >>"$__fugue_at/log"; then
        __fugue_text= __fugue_finished=$1
        builtin return 0
    fi
    __fugue_keys[3]=$2 __fugue_keys[4]=open
    # After an unclosed command substitution bash 5.2 writes before its input buffer, and aborts after some of them. A text
    # with a command substitution and a syntax error is therefore evaluated in a subshell, with the same error message.
    if [[ $__fugue_text == *'$('* ]] && ! __fugue_checked=$(builtin eval -- "__fugue_checked() { :;$__fugue_text"$'\n}'); then
        builtin printf -v __fugue_text '(builtin eval -- %q)' "$__fugue_text"
    fi
    if [[ $__fugue_flags == *[vx]* || -n $__fugue_debug ]]; then __fugue_text='\__fugue_with'$'\n'$__fugue_text; fi
    __fugue_say "${__fugue_head[0]-}"$'\n'"${__fugue_m[0]}$1.$2${__fugue_m[3]}"
    builtin return "$__fugue_code"
}

# Runs after step $2 of plan $1, which ended with the code $3. $4 is the key of this record, $5 the key of the plan's end.
__fugue_after() {
    __fugue_hush
    builtin local -
    builtin set +aeuET
    if [[ ${__fugue_finished-} != "$1" ]]; then __fugue_ended "$@"; fi
    builtin return 0
}

__fugue_ended() {
    builtin local __fugue_at="$__fugue_steps/$1" __fugue_had="${__fugue_born-}"
    # A program may have left the terminal in raw mode. Where no child has ended there was no such program, and starting stty
    # is not needed.
    __fugue_children
    if [[ -z $__fugue_born || $__fugue_born != "$__fugue_had" ]]; then
        builtin command -p stty "$__fugue_tty" </dev/tty
        # Ended jobs are removed from the job table without a message, so that the first job of the next step is %1.
        builtin jobs >/dev/null
        __fugue_children
    fi
    __fugue_code=$3
    __fugue_now
    builtin printf '\nE %s %s %s %s\n' "$2" "$3" "$__fugue_time" "$4" >>"$__fugue_at/log"
    __fugue_keys[4]=
    __fugue_say "${__fugue_m[1]}$3${__fugue_m[2]}$1.$2${__fugue_m[3]}"$'\n── exit '"$3"$'\n'
    if [[ $3 != 0 && ! -e $__fugue_at/keep-going ]]; then __fugue_finish "$1" "$5"; fi
    builtin return 0
}

# Records the end of plan $1. $2 is the key of this record.
__fugue_finish() {
    if [[ ${__fugue_finished-} != "$1" ]]; then
        builtin printf '\nD %s\n' "$2" >>"$__fugue_steps/$1/log"
        __fugue_close "$1"
    fi
}

__fugue_close() {
    __fugue_finished=$1
    if [[ ${__fugue_aliases-} == on ]]; then builtin shopt -s expand_aliases; fi
    __fugue_aliases=
}

# Saves the shell options while `set -a` is off, which would export the variable.
__fugue_hush() {
    builtin local __fugue_t="$-"
    builtin set +avx
    __fugue_flags=$__fugue_t
    if [[ $__fugue_t == *a* ]]; then builtin set -a; fi
}

__fugue_keep() {
    builtin local -
    builtin set +aeuET
    __fugue_debug=
    if [[ -s $__fugue_steps/trap ]]; then builtin mapfile -d '' -t __fugue_debug <"$__fugue_steps/trap"; fi
}

# Restores tracing and the DEBUG trap, and returns the exit code that the step finds in `$?`.
__fugue_with() {
    {
        if [[ -n ${__fugue_debug-} ]]; then builtin eval "$__fugue_debug"; fi
        if [[ $__fugue_flags == *v* ]]; then builtin set -v; fi
        if [[ $__fugue_flags == *x* ]]; then builtin set -x; fi
        if [[ $- == *e* ]]; then builtin return 0; fi
        builtin return "$__fugue_code"
    } >/dev/null 2>&1
}

__fugue_status() { builtin return "$__fugue_code"; }

__fugue_say() { builtin printf %s "$1" >/dev/tty; }

__fugue_now() {
    __fugue_time=${EPOCHREALTIME-}
    # Some locales have a comma as decimal point. Where EPOCHREALTIME was unset, the record has no time.
    __fugue_time=${__fugue_time//[!0-9]/}
    __fugue_time=${__fugue_time:--}
}

# The page faults of ended children, of which each child has some. Empty without /proc.
__fugue_children() {
    builtin local -a __fugue_t
    builtin local __fugue_u
    __fugue_born=
    if [[ ! -e /proc/$$/stat ]]; then builtin return 0; fi
    builtin mapfile -t __fugue_t </proc/$$/stat
    __fugue_u=${__fugue_t[0]##*) }
    # state, ppid, pgrp, session, tty, tpgid, flags, minflt.
    __fugue_u=${__fugue_u#* * * * * * * * }
    __fugue_born=${__fugue_u%% *}
}

# The wake-up key saves the half-typed line, accepts an empty one, and restores the line at the prompt after the steps:
# readline continues in the same macro. The key sequences contain no letters, so that they collide with no user's binding.
__fugue_bind() {
    builtin local __fugue_i __fugue_t='\C-x\C-_\C-d'
    # bash-preexec calls the hook from a function; see __fugue_prompt.
    if [[ $__fugue_mode == preexec ]]; then __fugue_t+=$__fugue_t; fi
    for __fugue_i in emacs-standard vi-insert vi-command; do
        builtin bind -m "$__fugue_i" -x '"\C-x\C-_\C-a": __fugue_aside'
        builtin bind -m "$__fugue_i" -x '"\C-x\C-_\C-b": __fugue_again'
        builtin bind -m "$__fugue_i" '"\C-x\C-_\C-d": accept-line'
        builtin bind -m "$__fugue_i" "\"\\C-x\\C-_\\C-p\": \"\\C-x\\C-_\\C-a$__fugue_t\\C-x\\C-_\\C-b\""
    done
} 2>/dev/null

__fugue_aside() {
    builtin local -
    builtin set +a
    __fugue_draft=${READLINE_LINE-} __fugue_point=${READLINE_POINT-0}
    READLINE_LINE= READLINE_POINT=0
}

__fugue_again() {
    builtin local -
    builtin set +a
    if [[ -n ${__fugue_draft-} ]]; then READLINE_LINE=$__fugue_draft READLINE_POINT=$__fugue_point; fi
    __fugue_draft=
}

# A step that unsets every variable or function it finds must not remove these.
builtin readonly -f __fugue_prompt __fugue_plan __fugue_before __fugue_after __fugue_ended __fugue_finish __fugue_close \
    __fugue_hush __fugue_keep __fugue_with __fugue_status __fugue_say __fugue_now __fugue_children
builtin declare -r __fugue_steps __fugue_m __fugue_hook

# $1: the exit status of the user's rc file; $2: the user's DEBUG trap.
__fugue_install() {
    { builtin local __fugue_e="$-" -; builtin set +aeuxET; } 2>/dev/null
    builtin local -a __fugue_i
    if [[ -n ${bash_preexec_imported-}${__bp_imported-} ]]; then
        # bash-preexec takes everything that runs after its own last hook for a command of the user. It has a list for hooks.
        precmd_functions+=(__fugue_prompt)
        __fugue_mode=preexec
    elif [[ -n $2 ]]; then
        # The same holds for DEBUG traps that time commands: the user's own prompt command must run last.
        if builtin printf -v 'PROMPT_COMMAND[0]' %s "${PROMPT_COMMAND[0]-}" 2>/dev/null; then
            PROMPT_COMMAND=("$__fugue_hook" "${PROMPT_COMMAND[@]}")
        fi
        __fugue_mode=first
        __fugue_open=
    else
        __fugue_i=("${!PROMPT_COMMAND[@]}")
        if ((${#__fugue_i[@]} == 0)); then __fugue_i=(0); fi
        # PROMPT_COMMAND is read-only: no D can be printed, so C is not printed either (PS0 stays); the prompt is marked once.
        if ! builtin printf -v "PROMPT_COMMAND[__fugue_i[-1] + 1]" %s "$__fugue_hook" 2>/dev/null; then
            if builtin shopt -q promptvars; then __fugue_dress PS1 "$__fugue_open" "$__fugue_close"; fi
        fi
        __fugue_mode=last
    fi
    __fugue_bind
    # The first prompt gets the status of the rc file, except where `set -e` would end the shell.
    if [[ ${__fugue_e-} == *e* ]]; then builtin return 0; fi
    builtin return "$1"
}

else
__fugue_install() { return "$1"; }
# An older bash as a pipeline's own shell is handled like any POSIX shell.
if [[ -n $__fugue_k && -n $__fugue_bare ]]; then
    __fugue_lines=
    __fugue_prompt() { :; }
    __fugue_secret=$__fugue_k FUGUE_STEPS_DIR=$__fugue_steps ENV=${BASH_SOURCE[0]%/*}/posix.sh
    unset -v __fugue_k __fugue_bare __fugue_steps
    . "$ENV"
    return
fi
fi
unset -v __fugue_k

if [[ -n ${__fugue_bare-} ]]; then
    # A pipeline's own shell reads no file of the user.
    unset -v __fugue_bare
    PS1='\w \$ '
# Reads the rc file that bash would have read. Not in a function: `declare` in that file must stay global.
elif [[ -e ~/.bashrc ]]; then
    . ~/.bashrc
fi

# The user's aliases, options and traps are active now and do not affect this line. The DEBUG trap is read here because a
# function does not inherit it.
__fugue_install "$?" "$(builtin trap -p DEBUG)"
