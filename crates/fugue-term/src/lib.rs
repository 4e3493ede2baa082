//! Turns a pane's bytes into clean text, a screen, shell marks and matches.
