# fugue's shell integration for zsh, installed as .zshenv in a directory that ZDOTDIR points to for the start only.
#
# It puts the user's ZDOTDIR back, reads the user's .zshenv and leaves two hooks behind; zsh itself then finds every
# other file (.zprofile, .zshrc, .zlogin, the history) where it always does. The hooks say, in marks that only the
# daemon can check, where a prompt and its input begin (A, B), when a command starts (C) and how it ended (D;code),
# and where the shell is (P, and OSC 7). When the daemon has laid out steps (see steps.rs), they run before the prompt
# appears (steps.zsh).
#
# What it never does: write a file other than a plan's log, keep a trap or an option changed, enter the history, or leave the secret in
# anything that a command inherits. PS1 carries marks only while the line editor runs and is the user's own whenever a
# command runs.

if (( ${+FUGUE_USER_ZDOTDIR} )); then
    ZDOTDIR=$FUGUE_USER_ZDOTDIR
    unset FUGUE_USER_ZDOTDIR
else
    unset ZDOTDIR
fi

# A pipeline's own shell reads nothing of the user's.
if [[ -n ${FUGUE_SHELL_BARE-} ]]; then
    setopt no_rcs
    PS1='%~ %# '
fi

# The secret is read, and its file emptied, before any line of the user's runs.
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
# Where steps are laid out, the secret, and what knows how to run them.
typeset -ga _fugue_at _fugue_now
_fugue_at=("${FUGUE_STEPS_DIR-}" $_fugue_k ${${(%):-%x}:A:h}/{steps,run}.zsh)
typeset -g _fugue_finished=
# _fugue_ran: C was given and D is owed.
typeset -gi _fugue_ran=0 _fugue_exported=0 _fugue_bound=0
typeset -g _fugue_cwd= _fugue_ps1= _fugue_own= _fugue_eol=

# Before each prompt. Other hooks see the same `$?`: zsh restores it around each. No forks. (The `emulate` also makes
# options and traps local: the user's DEBUG trap is out of the way while we work, and back afterwards.)
_fugue_precmd() {
    builtin local -i _fugue_s=$?
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    # Some plugins call all precmd hooks from a widget to redraw the prompt. No command has ended then.
    if builtin zle; then builtin return 0; fi
    builtin local _fugue_out=

    if (( _fugue_ran )); then
        # See _fugue_preexec: if the mark for unfinished lines is still ours, zsh has just given the D with it.
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
        # At the event's end this function is called again, to dress the prompt.
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

# At the first prompt the hooks that the user's .zshrc added come after ours and may write PS1 anew. The periodic hooks
# come after all precmd hooks, so this one dresses the first prompt, and is gone.
_fugue_late() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    periodic_functions=("${(@)periodic_functions:#_fugue_late}")
    if (( ! $#periodic_functions )); then builtin unset periodic_functions; fi
    if (( PERIOD == _fugue_period )); then builtin unset PERIOD; fi
    if (( ! $#_fugue_now )); then _fugue_dress; fi
}

# The wake-up key puts the half-typed line aside and accepts an empty one. The line editor brings it back by itself at
# the prompt after the steps. Bound at the first prompt, when the user's own bindings stand.
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

# Between reading a command and running it.
_fugue_preexec() {
    builtin emulate -L zsh -o no_aliases -o no_xtrace -o no_err_exit -o no_err_return -o unset -o no_all_export -o no_warn_create_global
    builtin trap - DEBUG
    _fugue_undress
    if [[ ${precmd_functions[(r)_fugue_precmd]-} != _fugue_precmd ]]; then
        # Somebody set the array anew. This command's end will be seen again.
        typeset -ga precmd_functions
        precmd_functions+=(_fugue_precmd)
    fi
    # zsh shows a mark when output does not end in a newline, and does so before any hook. That mark is not the
    # command's output, so D goes in front of it: into the text of the mark, which is expanded like a prompt.
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

# The line editor writes to the terminal whatever fd 1 and 2 are by now.
_fugue_say() {
    if [[ -n $1 && -w ${TTY-} ]]; then builtin print -rn -- "$1" >$TTY; fi
}

_fugue_dress() {
    if [[ $PS1 == "$_fugue_ps1" && -n $_fugue_ps1 ]]; then builtin return 0; fi
    # Without prompt_percent the marks could not be told to have no width.
    if [[ ! -o prompt_percent || ${(t)PS1} == *readonly* ]]; then builtin return 0; fi
    _fugue_own=${${PS1//"%{$_fugue_m[1]%}"/}//"%{$_fugue_m[2]%}"/}
    builtin local _fugue_t=$_fugue_own
    # A lone percent sign at the end shows nothing; it must not swallow the first character of our mark.
    builtin local _fugue_tail=${(M)_fugue_t%%%#}
    if (( ${#_fugue_tail} % 2 )); then _fugue_t=${_fugue_t[1,-2]}; fi
    # Completions run programs while the prompt is shown, and an exported PS1 would hand them the marks.
    if [[ ${(t)PS1} == *export* ]]; then _fugue_exported=1; builtin typeset -g +x PS1; fi
    PS1="%{$_fugue_m[1]%}$_fugue_t%{$_fugue_m[2]%}"
    _fugue_ps1=$PS1
}

_fugue_undress() {
    if [[ -n $_fugue_ps1 && ${(t)PS1} != *readonly* ]]; then
        if [[ $PS1 == "$_fugue_ps1" ]]; then
            PS1=$_fugue_own
        elif [[ $PS1 == *"%{$_fugue_m[1]%}"* || $PS1 == *"%{$_fugue_m[2]%}"* ]]; then
            # A widget built a new prompt around the one it found.
            PS1=${${PS1//"%{$_fugue_m[1]%}"/}//"%{$_fugue_m[2]%}"/}
        fi
    fi
    if (( _fugue_exported )); then builtin typeset -gx PS1; fi
    _fugue_exported=0 _fugue_ps1=
}

# Any byte but the unreserved ones and the slash becomes %XX, so that no path can end the mark.
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

# Last, and as zsh would have done: whatever the user's file does from here (return, set ZDOTDIR, fail) is its own affair.
if [[ -o rcs && -r ${ZDOTDIR-$HOME}/.zshenv ]]; then
    source "${ZDOTDIR-$HOME}/.zshenv"
fi
