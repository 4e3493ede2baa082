# fugue's shell integration for bash 5.1 or later, read as `bash --rcfile`, or as the ENV file of a pipeline's own shell.
#
# It makes an interactive bash say, in marks that only the daemon can check, where a prompt and its input begin
# (A, B), when a command starts (C) and how it ended (D;code), and where the shell is (P, and OSC 7). And when the
# daemon has laid out steps (see steps.rs), it runs them before the prompt appears.
#
# What it never does: write a file other than a plan's log, touch a trap or a shell option outside of a plan, enter the
# history, or put the secret into anything a child process inherits. Whatever it is not allowed to change (a read-only
# PS1) it leaves alone: a shell without marks is a smaller harm than a broken one.
#
# PROMPT_COMMAND as an array came with 5.1. Before that, our hook could not have `$?` to itself, and a wrong exit
# code is worse than none; older shells get the user's rc file and nothing else.

# The secret is read, and its file emptied, before any line of the user's runs. The hooks use what is built from it here.
__fugue_k= __fugue_steps=${FUGUE_STEPS_DIR-} __fugue_bare=${FUGUE_SHELL_BARE-}
unset -v FUGUE_STEPS_DIR FUGUE_SHELL_BARE
if [[ -s $__fugue_steps/secret ]]; then
    IFS= builtin read -r __fugue_k <"$__fugue_steps/secret"
    >|"$__fugue_steps/secret" || __fugue_k=
fi

# A pipeline's own shell was started in POSIX mode, which is the only way to have a file read and no other, the system's
# included; and it must read one: a bash whose first command of all comes from PROMPT_COMMAND has no PIPESTATUS for the
# rest of its life.
if [[ -n $__fugue_bare ]]; then
    set +o posix
    unset -v ENV PROMPT_COMMAND PS0
    shopt -u inherit_errexit 2>/dev/null
    if [[ ${HISTFILE-} == ~/.sh_history ]]; then HISTFILE=~/.bash_history; fi
fi

if [[ -n $__fugue_k ]] && (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501 )); then

# PS1 holds references only, and in a spelling that every POSIX shell takes: people export PS1, and then a nested
# bash or dash finds them and expands them to nothing.
__fugue_a=$'\e]133;A;k='$__fugue_k$'\e\\'
__fugue_b=$'\e]133;B;k='$__fugue_k$'\e\\'
__fugue_open='\[${__fugue_a-}\]'
__fugue_close='\[${__fugue_b-}\]'

# 0: at a prompt. 1: C was given and D is owed. 2: a command started although the hook had not run since the last C
# (somebody took it out), so that no later status may be taken for that of the C.
# PS0 is expanded in the shell itself, so its subscript can both choose the mark and move the state on: only
# element 1 exists.
__fugue_ran=0
__fugue_c=([1]=$'\e]133;C;k='"$__fugue_k"$'\e\\')
__fugue_zero='${__fugue_c[__fugue_ran=${__fugue_ran:-0}?2:1]-}'

__fugue_d=($'\e]133;D;' ";k=$__fugue_k"$'\e\\')
__fugue_p=($'\e]133;P;k='"$__fugue_k;cwd=" $'\e\\')
__fugue_m=($'\e]133;C;k='"$__fugue_k;s=" $'\e]133;D;' ";k=$__fugue_k;s=" $'\e\\')

# Our element of PROMPT_COMMAND. The steps of a plan run from here and not from the function, whose scope would make
# their `declare` local.
__fugue_hook='__fugue_prompt || eval "$__fugue_lines"'
__fugue_keys=() __fugue_lines= __fugue_finished= __fugue_aliases= __fugue_flags= __fugue_debug= __fugue_draft=

# What the hook left in PS1 and PS0, to see at a glance whether they were changed. No prompt is a lone newline: the
# first look finds them changed.
__fugue_ps1=$'\n' __fugue_ps0=$'\n' __fugue_cwd= __fugue_mode=
# With SHELLOPTS=allexport in the environment all of these would have been exported.
builtin declare +x __fugue_a __fugue_b __fugue_c __fugue_d __fugue_m __fugue_p __fugue_ran __fugue_steps

# Runs before each prompt, as an element of PROMPT_COMMAND of its own: bash then restores `$?`, `$_` and PIPESTATUS
# around it. No forks. Names are long because a `local` of a name the user made read-only is an error; expansions are
# quoted because after `builtin` a `local x=$y` is split into words.
#
# Fails if there are steps to run: $__fugue_lines are then to be evaluated, after which it is called again.
__fugue_prompt() {
    # Tracing must not show the marks, and `set -a`, `-e`, `-u` must not apply to us; `local -` puts them back.
    { builtin local __fugue_s="$?" -; builtin set +aeuvxET; } 2>/dev/null
    if [[ -z ${__fugue_s-} ]]; then
        # A restricted shell (`set -r`) forbids redirections: leave for good, after one complaint.
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
            # which bash takes up at the next prompt: here the wake-up key accepts two lines.
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
    # Others write the prompt after us and may drop what we put into it, so A goes ahead of them.
    if [[ $__fugue_mode == first ]]; then __fugue_out+=$__fugue_a; fi
    # Where bash itself writes its prompt.
    if [[ -n $__fugue_out ]]; then builtin printf %s "$__fugue_out" >&2; fi

    if builtin shopt -q promptvars; then
        if [[ ${PS1-} != "$__fugue_ps1" ]]; then __fugue_dress PS1 "$__fugue_open" "$__fugue_close"; __fugue_ps1=${PS1-}; fi
        if [[ ${PS0-} != "$__fugue_ps0" ]]; then __fugue_dress PS0 '' "$__fugue_zero"; __fugue_ps0=${PS0-}; fi
    else
        # References would be shown as they are written.
        __fugue_undress PS1
        __fugue_undress PS0
        __fugue_ps1=$'\n' __fugue_ps0=$'\n'
    fi
    return 0
}

# Puts marks around the prompt named $1, once, however often it was copied into itself. Assigning with `printf -v`
# fails quietly where a read-only variable would otherwise end the whole command line.
__fugue_dress() {
    builtin local __fugue_t="${!1-}" __fugue_u
    __fugue_t=${__fugue_t//"$__fugue_open"/}
    __fugue_t=${__fugue_t//"$__fugue_close"/}
    __fugue_t=${__fugue_t//"$__fugue_zero"/}
    # Backslashes at the end must not swallow our mark. bash halves them twice, rounding up at the end of the string.
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

# Stays the last element, so that prompts which are rewritten each time are dressed afterwards. The user's own string
# keeps index 0, where `PROMPT_COMMAND=…` at the prompt replaces it and not us.
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
    # We were called from the middle of somebody's string, where `$?` may be anything: say nothing of it.
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

# Any byte but the unreserved ones and the slash becomes %XX, so that no path can end the mark.
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
# The plan that `go` names is turned into one line of text per step, which our element of PROMPT_COMMAND evaluates.
# There is no loop that a `break` could end; an error goes on with the next line, and an interrupt with the next prompt,
# which finds the step open in $__fugue_keys. A line is
#
#     if before; then ! eval text; else ! eval text; fi; if { after; … }; then :; fi
#
# `before` gives the last step's code, so that it is `$?` where the text begins; as a condition it never trips `set -e`
# or an ERR trap. Nor does the eval: they act on the commands in it, but not on the `!`, which leaves the code in
# PIPESTATUS. Words have a backslash against aliases.
#
# Between two steps tracing (x, v) and the DEBUG trap are off, and the text itself switches them on again
# (__fugue_with), so that they show nothing of ours. All that we show goes to the terminal itself, wherever a step has
# sent the shell's output.
#
# Each record in the log ends with a key that is used once (see steps.rs), and begins a line, whatever a step left there.
# The keys stand in the lines themselves, where
# no step can take them away, and in $__fugue_keys: the plan, the first step that was left when this shell got the keys,
# the keys, the last step that was started, and whether that one is open.

# Whether there is something to run: then $__fugue_lines says what. Called by __fugue_prompt, whose $__fugue_s it reads.
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
        # No step may find the keys on the disk. Without keys there is nothing to do for this shell.
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
    # An open step was abandoned, by an interrupt as a rule.
    if [[ -n ${__fugue_keys[4]} ]]; then
        __fugue_j=$(((__fugue_last - __fugue_keys[1]) * 32 + 16))
        __fugue_ended "$__fugue_n" "$__fugue_last" "$__fugue_s" "${__fugue_keys[2]:__fugue_j:16}" "$__fugue_last_key"
        if [[ $__fugue_finished == "$__fugue_n" ]]; then builtin return 1; fi
    fi
    if ((__fugue_last >= __fugue_end)); then
        __fugue_finish "$__fugue_n" "$__fugue_last_key"
        builtin return 1
    fi

    # As in a script: a person's `alias rm='rm -i'` would wait for an answer.
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
    # What the user's own hooks put into the prompt is from before the steps: once more.
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

# Before step $2 of plan $1; gives the code of the last one. No text means that it must not run. $3 is the key of this
# record, $4 that of the plan's end.
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
    # What cannot be written down must not run: a fresh shell would run it again.
    __fugue_now
    if ! builtin printf '\nS %s %s %s %s\n' "$2" "$__fugue_time" "$$" "$3" >>"$__fugue_at/log"; then
        __fugue_text= __fugue_finished=$1
        builtin return 0
    fi
    __fugue_keys[3]=$2 __fugue_keys[4]=open
    # After an unclosed command substitution bash 5.2 writes in front of its input buffer, and aborts after a few of them. A
    # text that has one and is no syntax is therefore evaluated in a subshell, where it fails in the same words.
    if [[ $__fugue_text == *'$('* ]] && ! __fugue_checked=$(builtin eval -- "__fugue_checked() { :;$__fugue_text"$'\n}'); then
        builtin printf -v __fugue_text '(builtin eval -- %q)' "$__fugue_text"
    fi
    if [[ $__fugue_flags == *[vx]* || -n $__fugue_debug ]]; then __fugue_text='\__fugue_with'$'\n'$__fugue_text; fi
    __fugue_say "${__fugue_head[0]-}"$'\n'"${__fugue_m[0]}$1.$2${__fugue_m[3]}"
    builtin return "$__fugue_code"
}

# After step $2 of plan $1, which gave the code $3. $4 is the key of this record, $5 that of the plan's end.
__fugue_after() {
    __fugue_hush
    builtin local -
    builtin set +aeuET
    if [[ ${__fugue_finished-} != "$1" ]]; then __fugue_ended "$@"; fi
    builtin return 0
}

__fugue_ended() {
    builtin local __fugue_at="$__fugue_steps/$1" __fugue_had="${__fugue_born-}"
    # A program that made the terminal raw and did not put it back would leave it so. Without a child that ended, there
    # was no such program, and the time for another can be saved.
    __fugue_children
    if [[ -z $__fugue_born || $__fugue_born != "$__fugue_had" ]]; then
        builtin command -p stty "$__fugue_tty" </dev/tty
        # The jobs that have ended leave the table, so that the next step's first one is %1; nobody is told of them.
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

# Nothing is left to do in plan $1. $2 is the key of this record.
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

# Which options stand is written down with `set -a` off, which would export it.
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

# What the user wants to see again, and the code that the step wants to find.
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
    # The point is a comma in some places. Who took the clock away gets a record without.
    __fugue_time=${__fugue_time//[!0-9]/}
    __fugue_time=${__fugue_time:--}
}

# Page faults of the children that have ended: each has some. Nothing where there is no /proc.
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

# The wake-up key puts the half-typed line aside, accepts an empty one, and at the prompt after the steps puts the line
# back: readline reads on in the same macro. The keys have no letters, so that no user's binding is in the way.
__fugue_bind() {
    builtin local __fugue_i __fugue_t='\C-x\C-_\C-d'
    # bash-preexec calls us from a function; see __fugue_prompt.
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

# A step that takes away all it can name must not take these.
builtin readonly -f __fugue_prompt __fugue_plan __fugue_before __fugue_after __fugue_ended __fugue_finish __fugue_close \
    __fugue_hush __fugue_keep __fugue_with __fugue_status __fugue_say __fugue_now __fugue_children
builtin declare -r __fugue_steps __fugue_m __fugue_hook

# $1: the status the user's rc file left; $2: their DEBUG trap.
__fugue_install() {
    { builtin local __fugue_e="$-" -; builtin set +aeuxET; } 2>/dev/null
    builtin local -a __fugue_i
    if [[ -n ${bash_preexec_imported-}${__bp_imported-} ]]; then
        # bash-preexec takes whatever runs after its own last hook for a command of the user's. It has a place for us.
        precmd_functions+=(__fugue_prompt)
        __fugue_mode=preexec
    elif [[ -n $2 ]]; then
        # So do home-made DEBUG traps that time a command: they must see their own prompt command last.
        if builtin printf -v 'PROMPT_COMMAND[0]' %s "${PROMPT_COMMAND[0]-}" 2>/dev/null; then
            PROMPT_COMMAND=("$__fugue_hook" "${PROMPT_COMMAND[@]}")
        fi
        __fugue_mode=first
        __fugue_open=
    else
        __fugue_i=("${!PROMPT_COMMAND[@]}")
        if ((${#__fugue_i[@]} == 0)); then __fugue_i=(0); fi
        # Read-only: no D can be given, so no C must be (PS0 stays as it is); the prompt is still marked once.
        if ! builtin printf -v "PROMPT_COMMAND[__fugue_i[-1] + 1]" %s "$__fugue_hook" 2>/dev/null; then
            if builtin shopt -q promptvars; then __fugue_dress PS1 "$__fugue_open" "$__fugue_close"; fi
        fi
        __fugue_mode=last
    fi
    __fugue_bind
    # The first prompt sees the status it would have seen, except where `set -e` would end the shell over it.
    if [[ ${__fugue_e-} == *e* ]]; then builtin return 0; fi
    builtin return "$1"
}

else
__fugue_install() { return "$1"; }
# A pipeline's own bash of an older kind is as good as any POSIX shell.
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
    # A pipeline's own shell reads nothing of the user's.
    unset -v __fugue_bare
    PS1='\w \$ '
# As bash would have done. Not in a function: `declare` in the user's file must stay global.
elif [[ -e ~/.bashrc ]]; then
    . ~/.bashrc
fi

# By now aliases, options and traps of the user's are in force; this line is safe from them. It looks at the DEBUG
# trap out here because a function does not see it.
__fugue_install "$?" "$(builtin trap -p DEBUG)"
