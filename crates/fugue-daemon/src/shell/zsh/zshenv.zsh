# fugue's shell integration for zsh, installed as .zshenv in a directory that ZDOTDIR points to for the start only.
#
# The integration restores the user's ZDOTDIR, reads the user's .zshenv and installs two hooks; zsh itself then finds every
# other file (.zprofile, .zshrc, .zlogin, the history) at its usual path. The hooks print shell marks with the pane's
# secret: where a prompt and its input begin (A, B), when a command starts (C), how the command ended (D;code), and the
# working directory (P, and OSC 7). When the daemon has written step files (see steps.rs), the steps run before the prompt
# appears (steps.zsh).
#
# The integration never writes a file other than a plan's log, never leaves a trap or an option changed, never adds to the
# history, and never leaves the secret in anything that a command inherits. PS1 contains marks only while the line editor runs and is the user's own whenever a
# command runs.

if (( ${+FUGUE_USER_ZDOTDIR} )); then
    ZDOTDIR=$FUGUE_USER_ZDOTDIR
    unset FUGUE_USER_ZDOTDIR
else
    unset ZDOTDIR
fi

# A pipeline's own shell reads no file of the user.
if [[ -n ${FUGUE_SHELL_BARE-} ]]; then
    setopt no_rcs
    PS1='%~ %# '
fi

# The secret is read, and its file emptied, before any of the user's code runs.
typeset -g _fugue_k=
if [[ -s ${FUGUE_STEPS_DIR-}/secret ]]; then
    IFS= builtin read -r _fugue_k <$FUGUE_STEPS_DIR/secret
    builtin : >|$FUGUE_STEPS_DIR/secret || _fugue_k=
fi

if [[ -o interactive && -n $_fugue_k ]]; then

# An array cannot be exported, not even by `setopt all_export`. 1 A, 2 B, 3 C, 4 and 5 around D's code, 6 and 7
# around the directory.
typeset -ga _fugue_m
_fugue_m=(
    $'\e]133;A;k='$_fugue_k$'\e\\'
    $'\e]133;B;k='$_fugue_k$'\e\\'
    $'\e]133;C;k='$_fugue_k$'\e\\'
    $'\e]133;D;' ";k=$_fugue_k"$'\e\\'
    $'\e]133;P;k='$_fugue_k';cwd=' $'\e\\'
)
# The directory of the steps, the secret, and the files that run the steps.
typeset -ga _fugue_at _fugue_now
_fugue_at=("${FUGUE_STEPS_DIR-}" $_fugue_k ${${(%):-%x}:A:h}/{steps,run}.zsh)
typeset -g _fugue_finished=
# _fugue_ran: C was printed, and D must follow.
typeset -gi _fugue_ran=0 _fugue_exported=0 _fugue_bound=0
typeset -g _fugue_cwd= _fugue_ps1= _fugue_own= _fugue_eol=

# Runs before each prompt. Other hooks get the same `$?`: zsh restores it around each hook. The function forks no process.
# (The `emulate` also makes options and traps local: the user's DEBUG trap is off during this function.)
_fugue_precmd() {
    builtin local -i _fugue_s=$?
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    # Some plugins call all precmd hooks from a widget to redraw the prompt. No command has ended then.
    if builtin zle; then builtin return 0; fi
    builtin local _fugue_out=

    if (( _fugue_ran )); then
        # See _fugue_preexec: if the mark for unfinished lines is still fugue's, zsh has just printed the D with it.
        if [[ -z $_fugue_eol || ${PROMPT_EOL_MARK-} != "$_fugue_eol" || ! ( -o prompt_cr && -o prompt_sp ) ]]; then
            _fugue_out+=$_fugue_m[4]$_fugue_s$_fugue_m[5]
        fi
        _fugue_ran=0
    fi
    _fugue_eol_back

    if [[ ${PWD-} == /* && $PWD != "$_fugue_cwd" ]]; then
        _fugue_where
        _fugue_cwd=$PWD
    fi
    _fugue_say "$_fugue_out"
    _fugue_bind
    if [[ -n $_fugue_at[1] && -e $_fugue_at[1]/go && "$(<$_fugue_at[1]/go)" != "$_fugue_finished" ]]; then
        # The event calls this function again at its end, to add the marks to the prompt.
        builtin source $_fugue_at[3] $_fugue_at
        if _fugue_begin $_fugue_s; then builtin return 0; fi
    fi

    if [[ ${preexec_functions[-1]-} != _fugue_preexec ]]; then
        preexec_functions=("${(@)preexec_functions:#_fugue_preexec}" _fugue_preexec)
    fi
    if [[ ${precmd_functions[-1]-} != _fugue_precmd ]]; then
        precmd_functions=("${(@)precmd_functions:#_fugue_precmd}" _fugue_precmd)
    fi
    _fugue_dress
}

# At the first prompt the hooks of the user's .zshrc run after fugue's and may rewrite PS1. The periodic hooks run after all
# precmd hooks, so this one adds the marks to the first prompt, and removes itself.
_fugue_late() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    periodic_functions=("${(@)periodic_functions:#_fugue_late}")
    if (( ! $#periodic_functions )); then builtin unset periodic_functions; fi
    if (( PERIOD == _fugue_period )); then builtin unset PERIOD; fi
    if (( ! $#_fugue_now )); then _fugue_dress; fi
}

# The wake-up key saves the half-typed line and accepts an empty one. The line editor restores the line by itself at the
# prompt after the steps. The key is bound at the first prompt, after the user's own bindings.
_fugue_bind() {
    if (( _fugue_bound )); then builtin return 0; fi
    _fugue_bound=1
    builtin local _fugue_m
    builtin zle -N _fugue_wake
    for _fugue_m in main emacs viins vicmd; do builtin bindkey -M $_fugue_m '^X^_^P' _fugue_wake; done
} 2>/dev/null

_fugue_wake() {
    if [[ -n $PREBUFFER$BUFFER ]]; then builtin zle .push-input; fi
    builtin zle .accept-line
}

# Runs after a command was read and before it runs.
_fugue_preexec() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    _fugue_undress
    if [[ ${precmd_functions[(r)_fugue_precmd]-} != _fugue_precmd ]]; then
        # Other code has assigned the array again without the hook. With the hook, the end of this command is marked.
        typeset -ga precmd_functions
        precmd_functions+=(_fugue_precmd)
    fi
    # zsh prints a mark for output that does not end in a newline, before any hook. That mark is not output of the command,
    # so D must precede it: D is put into the text of the mark, which is expanded like a prompt.
    if [[ -o prompt_cr && -o prompt_sp && ${(t)PROMPT_EOL_MARK} != *(export|readonly)* ]]; then
        _fugue_eol_had=(${+PROMPT_EOL_MARK} "${PROMPT_EOL_MARK-}")
        _fugue_eol="%{$_fugue_m[4]%?$_fugue_m[5]%}${PROMPT_EOL_MARK-%B%S%#%s%b}"
        builtin typeset -g PROMPT_EOL_MARK=$_fugue_eol
    fi
    _fugue_ran=1
    _fugue_say "$_fugue_m[3]"
}
typeset -ga _fugue_eol_had

_fugue_eol_back() {
    if [[ -n $_fugue_eol && ${PROMPT_EOL_MARK-} == "$_fugue_eol" ]]; then
        if (( _fugue_eol_had[1] )); then PROMPT_EOL_MARK=$_fugue_eol_had[2]; else builtin unset PROMPT_EOL_MARK; fi
    fi
    _fugue_eol=
}

# The line editor writes to the terminal, also where fd 1 and 2 were redirected.
_fugue_say() {
    if [[ -n $1 && -w ${TTY-} ]]; then builtin print -rn -- "$1" >$TTY; fi
}

_fugue_dress() {
    if [[ $PS1 == "$_fugue_ps1" && -n $_fugue_ps1 ]]; then builtin return 0; fi
    # Without prompt_percent the marks cannot be declared to have no width.
    if [[ ! -o prompt_percent || ${(t)PS1} == *readonly* ]]; then builtin return 0; fi
    _fugue_own=${${PS1//"%{$_fugue_m[1]%}"/}//"%{$_fugue_m[2]%}"/}
    builtin local _fugue_t=$_fugue_own
    # A single percent sign at the end displays nothing, and must not be combined with the first character of the mark.
    builtin local _fugue_tail=${(M)_fugue_t%%%#}
    if (( ${#_fugue_tail} % 2 )); then _fugue_t=${_fugue_t[1,-2]}; fi
    # Completions run programs while the prompt is shown, and an exported PS1 would give them the marks.
    if [[ ${(t)PS1} == *export* ]]; then _fugue_exported=1; builtin typeset -g +x PS1; fi
    PS1="%{$_fugue_m[1]%}$_fugue_t%{$_fugue_m[2]%}"
    _fugue_ps1=$PS1
}

_fugue_undress() {
    if [[ -n $_fugue_ps1 && ${(t)PS1} != *readonly* ]]; then
        if [[ $PS1 == "$_fugue_ps1" ]]; then
            PS1=$_fugue_own
        elif [[ $PS1 == *"%{$_fugue_m[1]%}"* || $PS1 == *"%{$_fugue_m[2]%}"* ]]; then
            # A widget has built a new prompt around the marked one.
            PS1=${${PS1//"%{$_fugue_m[1]%}"/}//"%{$_fugue_m[2]%}"/}
        fi
    fi
    if (( _fugue_exported )); then builtin typeset -gx PS1; fi
    _fugue_exported=0 _fugue_ps1=
}

# Percent-encodes every byte except the unreserved ones and the slash, so that no path can end the mark.
_fugue_where() {
    builtin setopt local_options extended_glob no_multibyte
    builtin local MATCH MBEGIN MEND _fugue_enc _fugue_host=${HOST-}
    _fugue_enc=${PWD//(#m)[^A-Za-z0-9\/._~-]/%${(l:2::0:)$(( [##16] #MATCH & 255 ))}}
    if [[ $_fugue_host == *[^A-Za-z0-9.-]* ]]; then _fugue_host=; fi
    _fugue_out+=$_fugue_m[6]$_fugue_enc$_fugue_m[7]$'\e]7;file://'$_fugue_host$_fugue_enc$'\e\\'
}

typeset -ga precmd_functions preexec_functions periodic_functions
precmd_functions+=(_fugue_precmd)
preexec_functions+=(_fugue_preexec)
periodic_functions+=(_fugue_late)
# Negative: due at once. A PERIOD that the user sets instead is due at the first prompt too.
typeset -gi _fugue_period=-1000003 PERIOD=-1000003

fi
unset _fugue_k FUGUE_STEPS_DIR FUGUE_SHELL_BARE

# Reads the user's file last, as zsh would have done: a `return`, a new ZDOTDIR or a failure there has its usual effect.
if [[ -o rcs && -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
    source "${ZDOTDIR-$HOME}/.zshenv"
fi
