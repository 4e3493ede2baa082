//! The clocks of core's inputs, and the alarm that wakes the engine.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fugue_api::Timestamp;
use fugue_core::{BootId, ClockReading};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

use fugue_client::async_fd::register_fd;

/// Reads the clocks.
pub struct Clock {
    boot_id: BootId,
    started: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            boot_id: boot_id(),
            started: since_boot(),
        }
    }

    pub fn now(&self) -> ClockReading {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        ClockReading {
            wall: Timestamp(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            since_boot: since_boot(),
            boot_id: self.boot_id,
        }
    }

    /// The time since the start of this daemon, including suspended time.
    pub fn uptime(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }
}

fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither part of this clock is ever negative.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// The kernel's random id of this boot. If the id cannot be read, all boots count as one: ages are then too small, and no
/// pane is forgotten too early.
fn boot_id() -> BootId {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let first = digits.get(..16);
    let id = first.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    if id.is_none() {
        tracing::warn!(text, "boot id cannot be read");
    }
    BootId(id.unwrap_or_default())
}

/// A timer on the boot clock: a deadline that passes while the machine is suspended is served when it wakes up.
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_to: Option<Duration>,
}

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        Ok(Self {
            timer: register_fd(timer, Interest::READABLE)?,
            set_to: None,
        })
    }

    /// Waits until the boot clock reaches `at`. Cancel-safe, also with another time in the next call.
    pub async fn reached(&mut self, at: Duration) -> io::Result<()> {
        if self.set_to != Some(at) {
            // A time of zero would disarm the timer.
            let at = at.max(Duration::from_nanos(1));
            let spec = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: at.subsec_nanos().into(),
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        }
        self.set_to = Some(at);
        loop {
            let mut ready = self.timer.readable().await?;
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0_u8; 8])?));
            match read {
                Ok(read) => {
                    read?;
                    self.set_to = None;
                    return Ok(());
                }
                // The timer has not expired: it was set to another time meanwhile.
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_is_served_at_its_time_and_not_before() {
        let mut alarm = Alarm::new().unwrap();
        for wait in [0, 1, 20] {
            let at = since_boot() + Duration::from_millis(wait);
            alarm.reached(at).await.unwrap();
            assert!(since_boot() >= at);
        }
        // One that has passed, and the beginning of time.
        alarm.reached(since_boot() / 2).await.unwrap();
        alarm.reached(Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn an_alarm_that_is_put_off_is_served_at_its_new_time() {
        let mut alarm = Alarm::new().unwrap();
        let early = since_boot() + Duration::from_millis(5);
        let late = since_boot() + Duration::from_millis(40);
        tokio::select! {
            biased;
            done = alarm.reached(early) => done.unwrap(),
            () = std::future::ready(()) => {}
        }
        alarm.reached(late).await.unwrap();
        assert!(since_boot() >= late);
    }

    #[test]
    fn the_boot_id_is_the_same_when_read_again() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id(), BootId::default());
    }
}
