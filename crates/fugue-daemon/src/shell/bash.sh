# fugue's shell integration for bash 5.1 or later, read as `bash --rcfile`.
#
# It makes an interactive bash say, in marks that only the daemon can check, where a prompt and its input begin
# (A, B), when a command starts (C) and how it ended (D;code), and where the shell is (P, and OSC 7).
#
# What it never does: write a file, touch a trap or a shell option, enter the history, or put the secret into
# anything a child process inherits. Whatever it is not allowed to change (a read-only PS1) it leaves alone:
# a shell without marks is a smaller harm than a broken one.
#
# PROMPT_COMMAND as an array came with 5.1. Before that, our hook could not have `$?` to itself, and a wrong exit
# code is worse than none; older shells get the user's rc file and nothing else.

# The secret leaves the environment before any line of the user's runs. The hooks use what is built from it here.
__fugue_k=${FUGUE_SHELL_SECRET-}
unset -v FUGUE_SHELL_SECRET

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

# What the hook left in PS1 and PS0, to see at a glance whether they were changed. No prompt is a lone newline: the
# first look finds them changed.
__fugue_ps1=$'\n' __fugue_ps0=$'\n' __fugue_cwd= __fugue_mode=
# With SHELLOPTS=allexport in the environment all of these would have been exported.
builtin declare +x __fugue_a __fugue_b __fugue_c __fugue_d __fugue_p __fugue_ran

# Runs before each prompt, as an element of PROMPT_COMMAND of its own: bash then restores `$?`, `$_` and PIPESTATUS
# around it. No forks. Names are long because a `local` of a name the user made read-only is an error; expansions are
# quoted because after `builtin` a `local x=$y` is split into words.
#
# Later the control channel of a pipeline is read here, before the prompt is dressed: a key binding wakes a shell
# that already shows its prompt by accepting an empty line, which leads to this function again. Nothing is needed
# for it now; only, whatever runs steps must do so at the end, with the user's own options back in force.
__fugue_prompt() {
    # Tracing must not show the marks, and `set -a`, `-e`, `-u` must not apply to us; `local -` puts them back.
    { builtin local __fugue_s="$?" -; builtin set +aeuxET; } 2>/dev/null
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
    if ((${#__fugue_i[@]})) && [[ ${PROMPT_COMMAND[__fugue_i[-1]]} == __fugue_prompt ]]; then builtin return 0; fi
    for __fugue_n in "${__fugue_i[@]}"; do
        if [[ ${PROMPT_COMMAND[__fugue_n]} == __fugue_prompt ]]; then
            if builtin printf -v "PROMPT_COMMAND[__fugue_i[-1] + 1]" %s __fugue_prompt 2>/dev/null; then
                builtin unset -v 'PROMPT_COMMAND[__fugue_n]'
            fi
            builtin return 0
        fi
    done
    # We were called from the middle of somebody's string, where `$?` may be anything: say nothing of it.
    __fugue_ran=2
}

__fugue_leave() {
    builtin local __fugue_n
    for __fugue_n in "${!PROMPT_COMMAND[@]}"; do
        if [[ ${PROMPT_COMMAND[__fugue_n]} == __fugue_prompt ]]; then builtin unset -v 'PROMPT_COMMAND[__fugue_n]'; fi
    done
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
            PROMPT_COMMAND=(__fugue_prompt "${PROMPT_COMMAND[@]}")
        fi
        __fugue_mode=first
        __fugue_open=
    else
        __fugue_i=("${!PROMPT_COMMAND[@]}")
        if ((${#__fugue_i[@]} == 0)); then __fugue_i=(0); fi
        # Read-only: no D can be given, so no C must be (PS0 stays as it is); the prompt is still marked once.
        if ! builtin printf -v "PROMPT_COMMAND[__fugue_i[-1] + 1]" %s __fugue_prompt 2>/dev/null; then
            if builtin shopt -q promptvars; then __fugue_dress PS1 "$__fugue_open" "$__fugue_close"; fi
        fi
        __fugue_mode=last
    fi
    # The first prompt sees the status it would have seen, except where `set -e` would end the shell over it.
    if [[ ${__fugue_e-} == *e* ]]; then builtin return 0; fi
    builtin return "$1"
}

else
__fugue_install() { return "$1"; }
fi
unset -v __fugue_k

# As bash would have done. Not in a function: `declare` in the user's file must stay global.
if [[ -e ~/.bashrc ]]; then
    . ~/.bashrc
fi

# By now aliases, options and traps of the user's are in force; this line is safe from them. It looks at the DEBUG
# trap out here because a function does not see it.
__fugue_install "$?" "$(builtin trap -p DEBUG)"
