# One step of a plan, sourced by the event in steps.zsh and not called, so that `typeset` is global; a `return` ends this
# file, and a `break` finds no loop. The condition prints the C and leaves the last step's code in `$?`; a condition never
# triggers `set -e`.
if _fugue_start; then
    builtin eval -- "$_fugue_text"
else
    builtin eval -- "$_fugue_text"
fi
