//! Owns one PTY and its child and lets nothing be lost while the daemon is away.
