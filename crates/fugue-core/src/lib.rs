//! Decides: panes as state machines that are handed input and time and return effects.
