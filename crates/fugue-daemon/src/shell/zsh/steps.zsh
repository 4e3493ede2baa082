# The steps of a plan in zsh. Sourced when there is a plan, and again if a step removed definitions of this file, with the
# directory of the plans, the secret, and the names of this file and of run.zsh; then also with the plan and the keys of
# its records, which the shell has read from the disk once.
#
# Hooks of zsh are functions, in which a step's `typeset` would be local. Events of zsh/sched are not: they run at top
# level, after the precmd hooks and before the prompt. So the loop over the steps is the text of such an event.
#
# Between two steps the options that would display or end code of fugue are off; the step's own text switches them on
# again. Only a DEBUG trap runs once more before and after each step: zsh has no way to remove the trap without running it.

builtin zmodload zsh/sched zsh/parameter
builtin zmodload -F zsh/system b:sysread
# 1 directory, 2 start of C, 3 and 4 around D's code, 5 end of a mark, 6 the command that loads this file, 7 the command that runs a step. All
# are arrays, which cannot be exported, not even by `setopt all_export`.
typeset -ga _fugue_with _fugue_now _fugue_text _fugue_code _fugue_on _fugue_back _fugue_tty _fugue_keys
_fugue_with=(
    "$1" $'\e]133;C;k='"$2;s=" $'\e]133;D;' ";k=$2;s=" $'\e\\'
    ". ${(q)3} ${(q)1} ${(q)2} ${(q)3} ${(q)4}" ". ${(q)4}"
)
# Each record ends with a key that is used once (see steps.rs): 1 plan, 2 the first remaining step when this shell got
# the keys, 3 all keys in their order, 16 letters each.
if (( $# > 4 )); then _fugue_keys=("$5" "$6" "$7"); fi
typeset -gi _fugue_open
# Microseconds since the epoch, by prompt expansion.
typeset -g _fugue_clock='%D{%s%6.}'

# Begins a plan, or continues it after an interruption. $1: the status at the prompt. Fails if there is no step to run.
_fugue_begin() {
    if ! _fugue_find; then builtin return 1; fi
    if (( _fugue_open )); then _fugue_ended $1; fi
    _fugue_event
}

# Schedules the steps for a time in the past, so that they run at once.
_fugue_event() {
    # At the top level, because zsh restores xtrace when a function ends.
    builtin local _fugue_note='_fugue_code=($? ${options[xtrace]} $TRY_BLOCK_INTERRUPT); builtin unsetopt xtrace;'
    # The text contains the keys, so that a step cannot remove them.
    builtin local _fugue_load="$_fugue_with[6] ${(q)_fugue_keys[1]} ${(q)_fugue_keys[2]} ${(q)_fugue_keys[3]}"
    builtin local _fugue_over='{ '$_fugue_note' if (( ! ${+functions[_fugue_over]} || ! ${+_fugue_with} || ! ${+_fugue_keys} )); then '$_fugue_load'; fi; _fugue_over } >/dev/null 2>&1'
    builtin local _fugue_loop="while _fugue_before; do { $_fugue_with[7] } always { $_fugue_over }; done; _fugue_last"
    # An interrupt between two steps ends the loop; another event continues it.
    builtin sched 1 "{ $_fugue_note $_fugue_load; _fugue_ready } 2>/dev/null; { $_fugue_loop } always { _fugue_again }; if (( \${#_fugue_on} )); then builtin setopt \$_fugue_on; fi"
}

_fugue_again() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_return
    if (( $#_fugue_now )); then _fugue_begin 130; fi
    TRY_BLOCK_ERROR=0 TRY_BLOCK_INTERRUPT=0
}

# Aliases are off, as in a script: an `alias rm='rm -i'` would wait for an answer. Ended jobs are not reported either.
_fugue_ready() {
    _fugue_hush
    if (( ${#_fugue_back} )); then builtin return 0; fi
    _fugue_tty=("$(builtin command -p stty -g </dev/tty)")
    _fugue_children
    _fugue_back=(_)
    if [[ -o aliases ]]; then _fugue_back+=(aliases); fi
    if [[ -o notify ]]; then _fugue_back+=(notify); fi
    builtin unsetopt aliases notify
} 2>/dev/null

# Determines the next step: _fugue_now is the plan, the last step that was started, the number of steps and the code of
# the last one. Fails if no step is left.
_fugue_find() {
    builtin local _fugue_l _fugue_by= _fugue_k _fugue_n _fugue_dir=$_fugue_with[1] _fugue_last=${_fugue_now[2]-0}
    builtin local -a _fugue_w
    _fugue_now=()
    _fugue_n=${"$(<$_fugue_dir/go)"//[^0-9]/}
    if [[ -z $_fugue_n || $_fugue_n == "$_fugue_finished" ]]; then builtin return 1; fi
    if [[ $_fugue_keys[1] != "$_fugue_n" ]]; then
        # The keys are erased from the disk before the first step. A shell without keys runs no steps.
        _fugue_w=(${(s: :)"$(<$_fugue_dir/$_fugue_n/keys)"})
        if [[ $_fugue_w[1] != <-> ]] || ! : >|$_fugue_dir/$_fugue_n/keys; then builtin return 1; fi
        _fugue_keys=($_fugue_n $_fugue_w)
        _fugue_last=0
    fi
    # Lines that a step wrote into the log have no key. Records that a step removed do not make a step run again.
    _fugue_k=$(( _fugue_keys[2] - 1 ))
    if (( _fugue_last > _fugue_k )); then _fugue_k=$_fugue_last; fi
    if [[ -r $_fugue_dir/$_fugue_n/log ]]; then _fugue_l=$(<$_fugue_dir/$_fugue_n/log); fi
    for _fugue_l in ${(f)_fugue_l}; do
        _fugue_w=(${(s: :)_fugue_l})
        if [[ $_fugue_w[1] == D && $_fugue_w[2] == "${_fugue_keys[3][-16,-1]}" ]]; then
            _fugue_finished=$_fugue_n
            builtin return 1
        fi
        if (( $#_fugue_w != 5 )) || [[ $_fugue_w[2] != <1-99999> ]]; then builtin continue; fi
        _fugue_key $_fugue_w[1] $_fugue_w[2]
        if [[ $_fugue_w[5] != "$_fugue_keys[4]" ]]; then builtin continue; fi
        case $_fugue_w[1] in
            (S) if (( _fugue_w[2] >= _fugue_k )); then _fugue_by=$_fugue_w[4] _fugue_k=$_fugue_w[2]; fi ;;
            (E) if (( _fugue_w[2] == _fugue_k )); then _fugue_by=; fi ;;
        esac
    done
    _fugue_now=($_fugue_n $_fugue_k ${"$(<$_fugue_dir/$_fugue_n/count)"//[^0-9]/} 0)
    # An open step of this shell was abandoned. An open step of another shell ended with that shell, and counts as run.
    _fugue_open=0
    if [[ $_fugue_by == $$ ]]; then _fugue_open=1; fi
}

# The key of the record that step $2 starts ($1 is S) or has ended (E), into _fugue_keys[4]. No fork.
_fugue_key() {
    builtin local -i _fugue_o=$(( ($2 - _fugue_keys[2]) * 32 + 1 ))
    if [[ $1 == E ]]; then (( _fugue_o += 16 )); fi
    _fugue_keys[4]=-
    if (( _fugue_o > 0 )); then _fugue_keys[4]=${_fugue_keys[3][_fugue_o,_fugue_o+15]}; fi
}

# Reads the next step and records its start. Fails if there is no step to run.
_fugue_before() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    if (( ! $#_fugue_now )); then builtin return 1; fi
    builtin local _fugue_dir=$_fugue_with[1]/$_fugue_now[1] _fugue_all= _fugue_part
    if [[ -e $_fugue_dir/stop ]] || (( _fugue_now[2] >= _fugue_now[3] )); then
        _fugue_finish
        builtin return 1
    fi
    (( _fugue_now[2]++ ))
    # $(<…) would drop newlines at the end.
    while builtin sysread -s 65536 _fugue_part; do _fugue_all+=$_fugue_part; done <$_fugue_dir/$_fugue_now[2]
    if (( $#_fugue_on )); then _fugue_all="builtin setopt $_fugue_on"$'\n'$_fugue_all; fi
    _fugue_text=("$_fugue_all")
    # A step whose start cannot be recorded must not run: a fresh shell would run it again.
    _fugue_key S $_fugue_now[2]
    if ! builtin print -r -- $'\n'"S $_fugue_now[2] ${(%)_fugue_clock} $$ $_fugue_keys[4]" >>$_fugue_dir/log; then
        _fugue_now=()
        builtin return 1
    fi
    _fugue_tell $'\r\e[K'"$(<$_fugue_dir/$_fugue_now[2].head)"$'\n'
} 2>/dev/null

# Where options are restored, the text begins with that command, so `$?` is not the last step's code.
_fugue_start() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return
    builtin trap - DEBUG
    _fugue_tell "$_fugue_with[2]$_fugue_now[1].$_fugue_now[2]$_fugue_with[5]"
    builtin return $(( $#_fugue_on ? 0 : _fugue_now[4] ))
}

# Runs after a step, whose code is in _fugue_code. Options that the step has set must not affect this function.
_fugue_over() {
    _fugue_hush
    _fugue_after
    TRY_BLOCK_ERROR=0 TRY_BLOCK_INTERRUPT=0
}

_fugue_hush() {
    builtin local _fugue_o
    _fugue_on=()
    for _fugue_o in verbose err_exit err_return local_options local_traps ksh_arrays; do
        if [[ -o $_fugue_o ]]; then _fugue_on+=($_fugue_o); fi
    done
    builtin unsetopt verbose err_exit err_return local_options local_traps ksh_arrays
    if [[ $_fugue_code[2] == on ]]; then _fugue_on+=(xtrace); fi
}

_fugue_after() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    # If the step removed the shell's variables, the log shows that the step is open.
    if (( ! $#_fugue_now )) && { ! _fugue_find || (( ! _fugue_open )) }; then builtin return 0; fi
    # After an interrupt before the step's first command the code is arbitrary.
    if (( _fugue_code[3] == 1 )); then _fugue_code[1]=130; fi
    _fugue_ended $_fugue_code[1]
}

_fugue_ended() {
    builtin local _fugue_dir=$_fugue_with[1]/$_fugue_now[1] _fugue_had="$_fugue_tty[2]"
    # A program may have left the terminal in raw mode. Where no child has ended there was no such program, and starting stty
    # is not needed. Ended jobs are removed from the job table.
    _fugue_children
    if [[ -z $_fugue_tty[2] || $_fugue_tty[2] != "$_fugue_had" ]]; then
        if [[ -n $_fugue_tty[1] ]]; then builtin command -p stty $_fugue_tty[1] </dev/tty; fi
        builtin jobs >/dev/null
        _fugue_children
    fi
    _fugue_now[4]=$1
    _fugue_key E $_fugue_now[2]
    builtin print -r -- $'\n'"E $_fugue_now[2] $1 ${(%)_fugue_clock} $_fugue_keys[4]" >>$_fugue_dir/log
    _fugue_tell "$_fugue_with[3]$1$_fugue_with[4]$_fugue_now[1].$_fugue_now[2]$_fugue_with[5]"$'\n'"── exit $1"$'\n'
    if [[ $1 != 0 && ! -e $_fugue_dir/keep-going ]]; then _fugue_finish; fi
} 2>/dev/null

# The page faults of ended children, of which each child has some. Empty without /proc.
_fugue_children() {
    builtin local _fugue_s=
    if [[ -r /proc/$$/stat ]]; then builtin sysread _fugue_s </proc/$$/stat; fi
    _fugue_tty[2]=${${(s: :)${_fugue_s##*\) }}[9]-}
}

_fugue_finish() {
    builtin print -r -- $'\n'"D ${_fugue_keys[3][-16,-1]}" >>$_fugue_with[1]/$_fugue_now[1]/log
    _fugue_finished=$_fugue_now[1]
    _fugue_now=()
}

_fugue_tell() { builtin print -rn -- "$1" >/dev/tty }

# Runs after the last step: restores the user's options, and runs the user's own hooks once more, because they wrote the
# prompt before the steps ran.
_fugue_last() {
    builtin local _fugue_f
    if (( ${+functions[_fugue_precmd]} )); then
        for _fugue_f in precmd ${precmd_functions:#_fugue_precmd} _fugue_precmd; do
            if (( ${+functions[$_fugue_f]} )); then $_fugue_f; fi
        done
    fi
    builtin setopt no_local_options ${_fugue_back:#_}
    _fugue_back=()
} 2>/dev/null
