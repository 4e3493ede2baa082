use std::{io, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Puts an fd under the runtime's eyes.
#[expect(
    unsafe_code,
    reason = "the runtime cannot know that the fd stays what it is; our types say so"
)]
pub fn watched<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: every kind of owner that comes here (a link, a stream, an owned or borrowed fd) holds its fd open and
    // unchanged for life.
    unsafe { AsyncFd::register_with_interest(owner, interest) }
        .map_err(|refused| refused.into_parts().1)
}
