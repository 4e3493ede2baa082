# The steps of a plan in fish. Sourced with the directory of the plans and the secret, and again if a step took away what
# is defined here.
#
# The loop over the steps is text, with all it needs in it. A pipeline's own shell evaluates it at its top level, so that
# a plain `set` in a step is global. A shell that was woken does so in the handler of its prompt, where such a variable
# lives as long as the plan. An interrupt ends the loop, and the next prompt goes on. A step is sourced and not evaluated,
# so that a `return` ends the step only.
#
# fish has no clock: records say `-`.

set -g __fugue_with $argv[1] $argv[2]

# Finds out what to do next: __fugue_now is the plan, the last step that was started and the number of steps;
# __fugue_open is set if that step is our own and has not ended. Fails if there is nothing left.
function __fugue_find
    set -e __fugue_now
    set -e __fugue_open
    set -l dir $__fugue_with[1]
    builtin read -l plan <$dir/go; or return 1
    test "$plan" = "$__fugue_finished"; and return 1
    builtin read -l count <$dir/$plan/count; or return 1
    set -l last 0
    set -l by
    while builtin read -l line
        switch $line
            case 'S *'
                set -l words (string split ' ' -- $line)
                set last $words[2]
                set by $words[4]
            case "E $last *"
                set by
            case D
                set -g __fugue_finished $plan
                return 1
        end
    end <$dir/$plan/log
    set -g __fugue_now $plan $last $count
    test "$by" = $fish_pid; and set -g __fugue_open
    return 0
end

# A plan begins, or goes on after an interrupt: $__fugue_loop is then to be evaluated.
function __fugue_begin
    __fugue_find; or return 1
    if not set -q __fugue_tty
        set -g __fugue_tty (command -s stty)
        set -q __fugue_tty[1]; and set -a __fugue_tty ($__fugue_tty[1] -g </dev/tty 2>/dev/null)
        __fugue_children
    end
    if set -q __fugue_open
        # $status tells nothing of it: handlers leave it as it was.
        set -g __fugue_code 130
        __fugue_ended
        set -q __fugue_now[1]; or return 1
    end
    set -l load builtin source (string escape -- $__fugue_home/steps.fish $__fugue_with)
    set -l run '__fugue_start; builtin source $__fugue_with[1]/$__fugue_now[1]/$__fugue_now[2]'
    set -g __fugue_loop "while __fugue_before; $run; set -g __fugue_code \$status; builtin functions -q __fugue_over; and set -q __fugue_with; or $load; __fugue_over; end"
end

# Reads the next step and writes down that it starts. Fails if there is none to run.
function __fugue_before
    set -q __fugue_now[1]; or return 1
    set -l dir $__fugue_with[1]/$__fugue_now[1]
    if test -e $dir/stop; or test $__fugue_now[2] -ge $__fugue_now[3]
        __fugue_finish
        return 1
    end
    set __fugue_now[2] (builtin math $__fugue_now[2] + 1)
    # What cannot be written down must not run: a fresh shell would run it again.
    if not builtin printf 'S %s - %s\n' $__fugue_now[2] $fish_pid >>$dir/log
        set -e __fugue_now
        return 1
    end
    builtin read -l head <$dir/$__fugue_now[2].head
    builtin printf '\r\e[K%s\n' "$head" >/dev/tty
    return 0
end

function __fugue_start
    builtin printf '\e]133;C;k=%s;s=%s.%s\e\\\\' $__fugue_with[2] $__fugue_now[1..2] >/dev/tty
    # Not the last code: `set` leaves $status as it is, and a step of nothing else would have failed.
    return 0
end

function __fugue_over
    # Of a step that took our state away, the log knows that it is open.
    if not set -q __fugue_now[1]
        __fugue_find; and set -q __fugue_open; or return
    end
    __fugue_ended
end

function __fugue_ended
    set -l dir $__fugue_with[1]/$__fugue_now[1]
    set -l had $__fugue_born
    # A program that made the terminal raw and did not put it back would leave it so. Without a child that ended there
    # was no such program, and the time for another can be saved.
    __fugue_children
    if set -q __fugue_tty[2]; and test -z "$__fugue_born" -o "$__fugue_born" != "$had"
        $__fugue_tty[1] $__fugue_tty[2] </dev/tty 2>/dev/null
        __fugue_children
    end
    builtin printf 'E %s %s -\n' $__fugue_now[2] $__fugue_code >>$dir/log
    builtin printf '\e]133;D;%s;k=%s;s=%s.%s\e\\\\\n── exit %s\n' $__fugue_code $__fugue_with[2] $__fugue_now[1..2] $__fugue_code >/dev/tty
    if test $__fugue_code -ne 0; and not test -e $dir/keep-going
        __fugue_finish
    end
end

function __fugue_finish
    builtin echo D >>$__fugue_with[1]/$__fugue_now[1]/log
    set -g __fugue_finished $__fugue_now[1]
    set -e __fugue_now
end

# Page faults of the children that have ended: each has some. Nothing where there is no /proc.
function __fugue_children
    set -g __fugue_born
    test -r /proc/$fish_pid/stat; or return 0
    builtin read -l line </proc/$fish_pid/stat
    set -l words (string split ' ' -- (string replace -r '.*\) ' '' -- $line))
    set -g __fugue_born $words[9]
end
