//! Does: sockets, holders, store, timers.
