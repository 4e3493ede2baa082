# The steps of a plan in zsh. Sourced when there is a plan, and again if a step took away what is defined here, with the
# directory of the plans, the secret, and the names of this file and of run.zsh; then also with the plan and the keys of
# its records, which the shell has read from the disk once.
#
# Hooks of zsh are functions, in which a step's `typeset` would be local. Events of zsh/sched are not: they run at top
# level, after the precmd hooks and before the prompt. So the loop over the steps is the text of such an event.
#
# Between two steps the options that would show or end something of ours are off; the step's own text switches them on
# again. Only a DEBUG trap is seen once more before and after each step: zsh has no place where it could be taken away
# without being run.

builtin zmodload zsh/sched zsh/parameter
builtin zmodload -F zsh/system b:sysread
# 1 directory, 2 start of C, 3 and 4 around D's code, 5 end of a mark, 6 what loads this file, 7 what runs a step. All
# are arrays, which cannot be exported, not even by `setopt all_export`.
typeset -ga _fugue_with _fugue_now _fugue_text _fugue_code _fugue_on _fugue_back _fugue_tty _fugue_keys
_fugue_with=(
    "$1" $'\e]133;C;k='"$2;s=" $'\e]133;D;' ";k=$2;s=" $'\e\\'
    ". ${(q)3} ${(q)1} ${(q)2} ${(q)3} ${(q)4}" ". ${(q)4}"
)
# Each record ends with a key that is used once (see steps.rs): 1 plan, 2 the first step that was left when this shell got
# the keys, 3 all of them in their order, 16 letters each.
if (( $# > 4 )); then _fugue_keys=("$5" "$6" "$7"); fi
typeset -gi _fugue_open
# Microseconds since the epoch, in the way of a prompt.
typeset -g _fugue_clock='%D{%s%6.}'

# A plan begins, or goes on after what took it apart. $1: the status at the prompt. Fails if there is nothing to do.
_fugue_begin() {
    if ! _fugue_find; then builtin return 1; fi
    if (( _fugue_open )); then _fugue_ended $1; fi
    _fugue_event
}

# Schedules the steps: for a time long past, which is at once.
_fugue_event() {
    # Out here, for zsh puts xtrace back when a function ends.
    builtin local _fugue_note='_fugue_code=($? ${options[xtrace]} $TRY_BLOCK_INTERRUPT); builtin unsetopt xtrace;'
    # With the keys, so that a step cannot take them away.
    builtin local _fugue_load="$_fugue_with[6] ${(q)_fugue_keys[1]} ${(q)_fugue_keys[2]} ${(q)_fugue_keys[3]}"
    builtin local _fugue_over='{ '$_fugue_note' if (( ! ${+functions[_fugue_over]} || ! ${+_fugue_with} || ! ${+_fugue_keys} )); then '$_fugue_load'; fi; _fugue_over } >/dev/null 2>&1'
    builtin local _fugue_loop="while _fugue_before; do { $_fugue_with[7] } always { $_fugue_over }; done; _fugue_last"
    # An interrupt between two steps ends the loop; it goes on in another event.
    builtin sched 1 "{ $_fugue_note $_fugue_load; _fugue_ready } 2>/dev/null; { $_fugue_loop } always { _fugue_again }; if (( \${#_fugue_on} )); then builtin setopt \$_fugue_on; fi"
}

_fugue_again() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_return
    if (( $#_fugue_now )); then _fugue_begin 130; fi
    TRY_BLOCK_ERROR=0 TRY_BLOCK_INTERRUPT=0
}

# As in a script: a person's `alias rm='rm -i'` would wait for an answer. And jobs that end say so to nobody.
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

# Finds out what to do next: _fugue_now is the plan, the last step that was started, the number of steps and the code of
# the last one. Fails if there is nothing left.
_fugue_find() {
    builtin local _fugue_l _fugue_by= _fugue_k _fugue_n _fugue_dir=$_fugue_with[1] _fugue_last=${_fugue_now[2]-0}
    builtin local -a _fugue_w
    _fugue_now=()
    _fugue_n=${"$(<$_fugue_dir/go)"//[^0-9]/}
    if [[ -z $_fugue_n || $_fugue_n == "$_fugue_finished" ]]; then builtin return 1; fi
    if [[ $_fugue_keys[1] != "$_fugue_n" ]]; then
        # No step may find the keys on the disk. Without keys there is nothing to do for this shell.
        _fugue_w=(${(s: :)"$(<$_fugue_dir/$_fugue_n/keys)"})
        if [[ $_fugue_w[1] != <-> ]] || ! : >|$_fugue_dir/$_fugue_n/keys; then builtin return 1; fi
        _fugue_keys=($_fugue_n $_fugue_w)
        _fugue_last=0
    fi
    # What a step wrote there has no key. Records that it removed do not make a step begin again.
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
    # An open step of our own was abandoned. Another shell's died with it: it has run.
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

# Reads the next step and writes down that it starts. Fails if there is none to run.
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
    # What cannot be written down must not run: a fresh shell would run it again.
    _fugue_key S $_fugue_now[2]
    if ! builtin print -r -- $'\n'"S $_fugue_now[2] ${(%)_fugue_clock} $$ $_fugue_keys[4]" >>$_fugue_dir/log; then
        _fugue_now=()
        builtin return 1
    fi
    _fugue_tell $'\r\e[K'"$(<$_fugue_dir/$_fugue_now[2].head)"$'\n'
} 2>/dev/null

# With options to be set again, the text begins with that and not with the last code.
_fugue_start() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return
    builtin trap - DEBUG
    _fugue_tell "$_fugue_with[2]$_fugue_now[1].$_fugue_now[2]$_fugue_with[5]"
    builtin return $(( $#_fugue_on ? 0 : _fugue_now[4] ))
}

# After a step: its code is in _fugue_code, and nothing that it set may be in our way.
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
    # Of a step that took our state away, the log knows that it is open.
    if (( ! $#_fugue_now )) && { ! _fugue_find || (( ! _fugue_open )) }; then builtin return 0; fi
    # An interrupt may come before the step's first command, and then the code is anything.
    if (( _fugue_code[3] == 1 )); then _fugue_code[1]=130; fi
    _fugue_ended $_fugue_code[1]
}

_fugue_ended() {
    builtin local _fugue_dir=$_fugue_with[1]/$_fugue_now[1] _fugue_had="$_fugue_tty[2]"
    # A program that made the terminal raw and did not put it back would leave it so. Without a child that ended there
    # was no such program, and the time for another can be saved. Jobs that ended are forgotten.
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

# Page faults of the children that have ended: each has some. Nothing where there is no /proc.
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

# After the last step: the options are the user's again, and once more their own hooks write the prompt, which is from
# before the steps.
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
