use std::{io, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers an fd with the runtime.
#[expect(
    unsafe_code,
    reason = "the runtime cannot check that the fd stays valid; our owner types guarantee it"
)]
pub fn register_fd<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: every kind of owner that is passed here (a link, a stream, an owned or borrowed fd) keeps its fd open and
    // unchanged for its whole lifetime.
    unsafe { AsyncFd::register_with_interest(owner, interest) }
        .map_err(|refused| refused.into_parts().1)
}
