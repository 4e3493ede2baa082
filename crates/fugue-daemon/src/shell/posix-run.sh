# One step of a plan, sourced by the text that posix.sh makes, so that a `return` ends this file only. Either branch: the
# condition leaves the last step's code in `$?`. `command` lets a syntax error end the step and not the shell; the space
# keeps a text that begins with a dash from being an option.
if __fugue_start; then
    command eval " $__fugue_text"
else
    command eval " $__fugue_text"
fi
