# The steps of a plan in fish. Sourced with the directory of the plans and the secret, and again if a step removed
# definitions of this file; then also with the plan and the keys of its records, which the shell has read from the disk once.
#
# The loop over the steps is self-contained text. A pipeline's own shell evaluates the loop at its top level, so that a
# plain `set` in a step is global. A shell that was woken evaluates it in the handler of its prompt, where such a variable
# lives as long as the plan. An interrupt ends the loop, and the next prompt continues. A step is sourced and not evaluated,
# so that a `return` ends the step only.
#
# fish has no clock: the time in records is `-`.

# 1 directory, 2 secret, 3 plan, 4 the first remaining step when this shell got the keys, 5 all keys in their
# order, 16 letters each. Each record ends with a key that is used once (see steps.rs).
if not set -q argv[3]; and set -q __fugue_with[5]
    set -a argv $__fugue_with[3..5]
end
set -g __fugue_with $argv
set -gu __fugue_with $__fugue_with

# Determines the next step: __fugue_now is the plan, the last step that was started, the number of steps and, while that
# step runs, a word;
# __fugue_open is set if this shell started that step and the step has not ended. Fails if no step is left.
function __fugue_find
    set -l last 0
    set -l by
    set -q __fugue_now[2]; and set last $__fugue_now[2]
    set -q __fugue_now[4]; and set by $fish_pid
    set -e __fugue_now
    set -e __fugue_open
    set -l dir $__fugue_with[1]
    builtin read -l plan <$dir/go; or return 1
    test "$plan" = "$__fugue_finished"; and return 1
    builtin read -l count <$dir/$plan/count; or return 1
    if test "$__fugue_with[3]" != $plan
        # The keys are erased from the disk before the first step. A shell without keys runs no steps.
        builtin read -l first keys <$dir/$plan/keys; or return 1
        test -n "$keys"; and builtin echo -n >$dir/$plan/keys; or return 1
        set -g __fugue_with $__fugue_with[1..2] $plan $first $keys
        set last 0
        set by
    end
    # Lines that a step wrote into the log have no key. Records that a step removed do not make a step run again.
    set -l before (builtin math $__fugue_with[4] - 1)
    test $last -lt $before; and set last $before
    if test -r $dir/$plan/log
        while builtin read -l line
            set -l words (string split ' ' -- $line)
            if test "$words" = "D $(__fugue_key D 0)"
                set -g __fugue_finished $plan
                return 1
            end
            test (count $words) -eq 5; and string match -qr '^[1-9]\d{0,4}$' -- $words[2]; or continue
            test "$words[5]" = "$(__fugue_key $words[1] $words[2])"; or continue
            if test "$words[1]" = S -a $words[2] -ge $last
                set last $words[2]
                set by $words[4]
            else if test "$words[1]" = E -a $words[2] -eq $last
                set by
            end
        end <$dir/$plan/log
    end
    set -g __fugue_now $plan $last $count
    test "$by" = $fish_pid; and set -g __fugue_open
    return 0
end

# The key of the record that step $argv[2] starts ($argv[1] is S) or has ended (E), or that the plan is done (D).
function __fugue_key
    set -l at -16
    switch $argv[1]
        case S
            set at (builtin math "($argv[2] - $__fugue_with[4]) * 32 + 1")
        case E
            set at (builtin math "($argv[2] - $__fugue_with[4]) * 32 + 17")
    end
    if test $at -gt 0 -o $at -eq -16
        string sub -s $at -l 16 -- $__fugue_with[5]
    else
        builtin echo -
    end
end

# Begins a plan, or continues it after an interrupt: the caller then evaluates $__fugue_loop.
function __fugue_begin
    __fugue_find; or return 1
    if not set -q __fugue_tty
        set -g __fugue_tty (command -s stty)
        set -q __fugue_tty[1]; and set -a __fugue_tty ($__fugue_tty[1] -g </dev/tty 2>/dev/null)
        __fugue_children
    end
    if set -q __fugue_open
        # $status cannot carry the code: fish restores it after handlers.
        set -g __fugue_code 130
        __fugue_ended
        set -q __fugue_now[1]; or return 1
    end
    set -l load builtin source (string escape -- $__fugue_home/steps.fish $__fugue_with)
    set -l run '__fugue_start; builtin source $__fugue_with[1]/$__fugue_now[1]/$__fugue_now[2]'
    set -g __fugue_loop "while __fugue_before; $run; set -g __fugue_code \$status; builtin functions -q __fugue_over; and set -q __fugue_with; or $load; __fugue_over; end"
end

# Reads the next step and records its start. Fails if there is no step to run.
function __fugue_before
    set -q __fugue_now[1]; or return 1
    set -l dir $__fugue_with[1]/$__fugue_now[1]
    if test -e $dir/stop; or test $__fugue_now[2] -ge $__fugue_now[3]
        __fugue_finish
        return 1
    end
    set __fugue_now[2] (builtin math $__fugue_now[2] + 1)
    # A step whose start cannot be recorded must not run: a fresh shell would run it again.
    if not builtin printf '\nS %s - %s %s\n' $__fugue_now[2] $fish_pid (__fugue_key S $__fugue_now[2]) >>$dir/log
        set -e __fugue_now
        return 1
    end
    set __fugue_now[4] open
    builtin read -l head <$dir/$__fugue_now[2].head
    builtin printf '\r\e[K%s\n' "$head" >/dev/tty
    return 0
end

function __fugue_start
    builtin printf '\e]133;C;k=%s;s=%s.%s\e\\\\' $__fugue_with[2] $__fugue_now[1..2] >/dev/tty
    # Not the last code: `set` does not change $status, so a step that only sets variables would seem to have failed.
    return 0
end

function __fugue_over
    # If the step removed the shell's variables, the log shows that the step is open.
    if not set -q __fugue_now[1]
        __fugue_find; and set -q __fugue_open; or return
    end
    __fugue_ended
end

function __fugue_ended
    set -l dir $__fugue_with[1]/$__fugue_now[1]
    set -l had $__fugue_born
    # A program may have left the terminal in raw mode. Where no child has ended there was no such program, and starting stty
    # is not needed.
    __fugue_children
    if set -q __fugue_tty[2]; and test -z "$__fugue_born" -o "$__fugue_born" != "$had"
        $__fugue_tty[1] $__fugue_tty[2] </dev/tty 2>/dev/null
        __fugue_children
    end
    builtin printf '\nE %s %s - %s\n' $__fugue_now[2] $__fugue_code (__fugue_key E $__fugue_now[2]) >>$dir/log
    set -e __fugue_now[4]
    builtin printf '\e]133;D;%s;k=%s;s=%s.%s\e\\\\\n── exit %s\n' $__fugue_code $__fugue_with[2] $__fugue_now[1..2] $__fugue_code >/dev/tty
    if test $__fugue_code -ne 0; and not test -e $dir/keep-going
        __fugue_finish
    end
end

function __fugue_finish
    builtin printf '\nD %s\n' (__fugue_key D 0) >>$__fugue_with[1]/$__fugue_now[1]/log
    set -g __fugue_finished $__fugue_now[1]
    set -e __fugue_now
end

# The page faults of ended children, of which each child has some. Empty without /proc.
function __fugue_children
    set -g __fugue_born
    test -r /proc/$fish_pid/stat; or return 0
    builtin read -l line </proc/$fish_pid/stat
    set -l words (string split ' ' -- (string replace -r '.*\) ' '' -- $line))
    set -g __fugue_born $words[9]
end
