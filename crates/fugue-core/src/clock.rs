//! Clocks: the boot clock decides, the wall clock is only shown.
//!
//! The boot clock (`CLOCK_BOOTTIME`) counts from the start of the machine, including suspended time, and cannot be set.
//! It restarts with every boot, so a stored moment carries the id of its boot. Within one boot ages are exact, also
//! across daemons. A moment of another boot is certainly older than this boot, and its age is counted from the start of
//! this boot: records are never forgotten too early, and no decision depends on a wall clock that a person may set.

use std::time::Duration;

use fugue_api::Timestamp;
use serde::{Deserialize, Serialize};

/// The clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// For people.
    pub wall: Timestamp,
    /// For deadlines and ages.
    pub since_boot: Duration,
    pub boot_id: BootId,
}

/// One boot of the machine: the first 64 bits of the kernel's random boot id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub u64);

/// A moment as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredMoment")]
pub struct Moment {
    /// Only shown.
    pub wall: Timestamp,
    /// `None` in records of a version that knew only the wall clock.
    boot: Option<BootMoment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BootMoment {
    id: BootId,
    ms: u64,
    /// The boot clock was read when the record was found, which is later than the moment: right for deadlines, which are
    /// counted from then on, and wrong for durations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_later: bool,
}

/// The two forms in which a moment may be found in the store.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredMoment {
    Wall(Timestamp),
    Both {
        wall: Timestamp,
        boot: Option<BootMoment>,
    },
}

impl From<StoredMoment> for Moment {
    fn from(stored: StoredMoment) -> Self {
        match stored {
            StoredMoment::Wall(wall) => wall.into(),
            StoredMoment::Both { wall, boot } => Self { wall, boot },
        }
    }
}

/// A moment of which only the wall clock is known.
impl From<Timestamp> for Moment {
    fn from(wall: Timestamp) -> Self {
        Self { wall, boot: None }
    }
}

impl ClockReading {
    pub fn moment(self) -> Moment {
        self.after(Duration::ZERO)
    }

    /// The moment after a duration.
    pub fn after(self, wait: Duration) -> Moment {
        Moment {
            wall: Timestamp(self.wall.0.saturating_add(millis(wait))),
            boot: Some(BootMoment {
                id: self.boot_id,
                ms: millis(self.since_boot.saturating_add(wait)),
                is_later: false,
            }),
        }
    }

    /// The time of this boot clock at which a moment is certainly that old.
    pub fn when_aged(self, moment: Moment, age: Duration) -> Duration {
        match moment.boot {
            Some(boot) if boot.id == self.boot_id => {
                Duration::from_millis(boot.ms).saturating_add(age)
            }
            Some(_) => age,
            None => self.since_boot.saturating_add(age),
        }
    }

    /// Whether a moment is certainly that old.
    pub fn is_aged(self, moment: Moment, age: Duration) -> bool {
        self.when_aged(moment, age) <= self.since_boot
    }

    /// The least possible age of a moment.
    pub fn age(self, moment: Moment) -> Duration {
        let since = self.when_aged(moment, Duration::ZERO);
        self.since_boot.saturating_sub(since)
    }

    /// Whether the machine was rebooted after a moment.
    pub fn is_after_reboot(self, moment: Moment) -> bool {
        moment.boot.is_some_and(|boot| boot.id != self.boot_id)
    }

    /// Adds the boot clock to a moment that has only the wall clock: its age is counted from now.
    pub fn stamped(self, moment: Moment) -> Moment {
        let later = self.moment().boot.map(|boot| BootMoment {
            is_later: true,
            ..boot
        });
        Moment {
            wall: moment.wall,
            boot: moment.boot.or(later),
        }
    }
}

impl Moment {
    /// The time from this moment to a later moment, for display. Never negative; across boots, and of records that had
    /// only the wall clock, by the wall clock.
    pub fn shown_ms_until(self, later: Self) -> u64 {
        match (self.boot, later.boot) {
            (Some(from), Some(to)) if from.id == to.id && !from.is_later && !to.is_later => {
                to.ms.saturating_sub(from.ms)
            }
            _ => later.wall.0.saturating_sub(self.wall.0),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn now(wall: u64, since_boot: u64, boot: u64) -> ClockReading {
        ClockReading {
            wall: Timestamp(wall),
            since_boot: Duration::from_millis(since_boot),
            boot_id: BootId(boot),
        }
    }

    #[test]
    fn ages_within_a_boot_are_the_boot_clocks_however_the_wall_clock_jumps() {
        let then = now(10 * DAY, 5_000, 1).moment();
        for wall in [0, 9 * DAY, 10 * DAY, 11 * DAY] {
            let later = now(wall, 8_000, 1);
            assert_eq!(later.age(then), Duration::from_secs(3));
            assert_eq!(then.shown_ms_until(later.moment()), 3_000);
            assert!(!later.is_aged(then, Duration::from_millis(3_001)));
            assert!(later.is_aged(then, Duration::from_secs(3)));
            assert!(!later.is_after_reboot(then));
        }
        // A clock that stands before the moment, as in another time namespace.
        assert_eq!(now(0, 1_000, 1).age(then), Duration::ZERO);
    }

    #[test]
    fn a_moment_of_another_boot_is_at_least_as_old_as_this_boot() {
        let then = now(10 * DAY, 900_000_000, 1).moment();
        let later = now(20 * DAY, 60_000, 2);
        assert!(later.is_after_reboot(then));
        assert_eq!(later.age(then), Duration::from_secs(60));
        assert!(!later.is_aged(then, Duration::from_secs(61)));
        assert_eq!(then.shown_ms_until(later.moment()), 10 * DAY);
        // The wall clock was put back meanwhile.
        assert_eq!(then.shown_ms_until(now(DAY, 60_000, 2).moment()), 0);
    }

    #[test]
    fn a_moment_is_read_back_also_from_a_record_that_has_only_the_wall_clock() {
        let then = now(7, 5, 3).moment();
        let json = serde_json::to_string(&then).unwrap();
        assert_eq!(serde_json::from_str::<Moment>(&json).unwrap(), then);
        let old = serde_json::to_string(&Timestamp(1234)).unwrap();
        let old: Moment = serde_json::from_str(&old).unwrap();
        assert_eq!(old.wall, Timestamp(1234));
        let later = now(9 * DAY, 1_000, 1);
        assert!(!later.is_after_reboot(old));
        assert_eq!(later.age(old), Duration::ZERO);
        let stamped = later.stamped(old);
        let much_later = now(9 * DAY, 61_000, 1);
        assert_eq!(much_later.age(stamped), Duration::from_secs(60));
        // What is shown is how long it took, not how long ago the record was found.
        let end = later.stamped(Timestamp(5_234).into());
        assert_eq!(stamped.shown_ms_until(end), 4_000);
        assert_eq!(stamped.shown_ms_until(much_later.moment()), 9 * DAY - 1_234);
        let json = serde_json::to_string(&stamped).unwrap();
        assert_eq!(serde_json::from_str::<Moment>(&json).unwrap(), stamped);
    }
}
