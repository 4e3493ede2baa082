# fugue's shell integration for fish 3.4 or later, read by `fish -C 'source …'`, which is after the user's config.
#
# The integration makes an interactive fish print shell marks with the pane's secret: where a prompt and its input begin
# (A, B), when a command starts (C), how the command ended (D;code), and the working directory (P, and OSC 7). When the
# daemon has written step files (see steps.rs), the steps run before the prompt appears (steps.fish).
#
# The integration never writes a file other than a plan's log, never sets a universal variable, never adds to the history,
# and never leaves the secret in anything that a command inherits. fish_prompt is wrapped only while a command line is
# edited and is the user's own whenever a command runs, so that `funcsave fish_prompt` saves the user's function.
#
# The secret is read here and its file emptied. fish has no way to run something before the user's config, so only
# programs that the config starts can find the secret.

set -gu __fugue_k
if test -s "$FUGUE_STEPS_DIR/secret"
    builtin read -gu __fugue_k <$FUGUE_STEPS_DIR/secret
    builtin echo -n >$FUGUE_STEPS_DIR/secret; or set -gu __fugue_k
end

if status is-interactive; and test -n "$__fugue_k"
    set -g __fugue_cwd
    set -g __fugue_steps $FUGUE_STEPS_DIR
    set -gu __fugue_steps $__fugue_steps
    set -g __fugue_home (status dirname)
    set -g __fugue_finished

    # fish restores `$status` and `$pipestatus` after event handlers.
    function __fugue_on_prompt --on-event fish_prompt
        if __fugue_planned
            source $__fugue_home/steps.fish $__fugue_steps $__fugue_k
            if __fugue_begin
                # An interrupt of fish itself ends this handler. The next prompt calls it again.
                __fugue_dress
                eval $__fugue_loop
                __fugue_undress
            end
        end
        if test "$PWD" != "$__fugue_cwd"
            set -g __fugue_cwd $PWD
            set -l path (string escape --style=url -- $PWD | string collect)
            set -l host $hostname
            string match -qr '^[A-Za-z0-9.-]+$' -- "$host"; or set host ''
            printf '\e]133;P;k=%s;cwd=%s\e\\\\\e]7;file://%s%s\e\\\\' $__fugue_k "$path" "$host" "$path"
        end
        __fugue_dress
    end

    # Whether there is a plan that this shell has not finished.
    function __fugue_planned
        test -n "$__fugue_steps" -a -e "$__fugue_steps/go"; or return 1
        builtin read -l plan <$__fugue_steps/go
        test "$plan" != "$__fugue_finished"
    end

    # The wake-up key saves the half-typed line and accepts an empty one; at the prompt after the steps the last of these
    # functions, which is still in the input queue, restores the line.
    function __fugue_wake
        set -e __fugue_draft
        test -n "$(commandline | string collect)"; and set -g __fugue_draft
        __fugue_accept
    end
    function __fugue_accept
        if set -q __fugue_draft
            commandline -f beginning-of-buffer begin-selection end-of-buffer kill-selection end-selection execute yank
        else
            commandline -f execute
        end
    end
    for mode in default insert visual replace replace_one
        bind -M $mode \cx\c_\cp __fugue_wake
    end

    # The prompt's lines are captured and printed again because fish drops a final newline of fish_prompt's output, and B must
    # not follow a newline.
    function __fugue_dress
        if functions -q __fugue_own_prompt
            # Still wrapped, unless the user has defined a new fish_prompt meanwhile (from a key binding).
            string match -q '*__fugue_own_prompt*' -- (functions fish_prompt); and return
            functions -e __fugue_own_prompt
        end
        functions -q fish_prompt; or return
        functions -c fish_prompt __fugue_own_prompt
        function fish_prompt
            # First, because it may read $status.
            set -l __fugue_lines (__fugue_own_prompt)
            if set -q __fugue_now[1]
                # Steps remain. The half-typed line was restored, and is saved once more.
                __fugue_accept
                return
            end
            printf '\e]133;A;k=%s\e\\\\' $__fugue_k
            set -q __fugue_lines[2]; and printf '%s\n' $__fugue_lines[1..-2]
            printf '%s\e]133;B;k=%s\e\\\\' "$__fugue_lines[-1]" $__fugue_k
        end
    end

    function __fugue_undress
        functions -q __fugue_own_prompt; or return
        if string match -q '*__fugue_own_prompt*' -- (functions fish_prompt)
            functions -e fish_prompt
            functions -c __fugue_own_prompt fish_prompt
        end
        functions -e __fugue_own_prompt
    end

    function __fugue_on_preexec --on-event fish_preexec
        __fugue_undress
        # fish also emits the event for a line of blanks or comments, which runs nothing.
        string match -qvr '^\s*(#.*)?$' -- (string split \n -- "$argv"); or return
        set -g __fugue_ran
        printf '\e]133;C;k=%s\e\\\\' $__fugue_k
    end

    function __fugue_on_postexec --on-event fish_postexec
        set -l code $status
        if set -q __fugue_ran
            set -e __fugue_ran
            printf '\e]133;D;%s;k=%s\e\\\\' $code $__fugue_k
        end
    end
end
set -e FUGUE_STEPS_DIR

# A pipeline's own shell, which has read no file of the user. At the top level a plain `set` in a step is global.
if set -q FUGUE_SHELL_BARE
    set -e FUGUE_SHELL_BARE
    set -g fish_greeting
    function fish_prompt
        printf '%s> ' (prompt_pwd)
    end
    if set -q __fugue_steps; and __fugue_planned
        source $__fugue_home/steps.fish $__fugue_steps $__fugue_k
        __fugue_begin; and eval $__fugue_loop
    end
end
