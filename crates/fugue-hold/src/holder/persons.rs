//! Those who type for a person, each on a connection of its own, so that a key takes no detour.

use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::life::Life;
use super::{Holder, Source, Sources, link_interest};
use crate::link::{Filled, HolderLink};
use crate::wire::{Frame, ToDaemon, ToHolder};

// More hands than this on one pane are too many; the oldest goes when one more comes.
const MAX_PERSONS: usize = 8;

impl Holder {
    pub(super) fn admit_person(&mut self, mut link: HolderLink) {
        let Life::Running { .. } = self.life else {
            return;
        };
        if link.push(&ToDaemon::Done { id: 0 }, Vec::new()).is_err() || link.flush().is_err() {
            return;
        }
        if self.persons.len() == MAX_PERSONS {
            self.persons.remove(0);
        }
        self.persons.push(link);
        // Keys may have come with the first word.
        self.hear_person(self.persons.len() - 1);
    }

    pub(super) fn person_sources<'a>(&'a self, sources: &mut Sources<'a>) {
        // A program that does not read what was typed makes the person wait, as any terminal does.
        let ready = self.typist.is_empty();
        for (n, person) in self.persons.iter().enumerate() {
            let flags = match ready {
                true => link_interest(person),
                false => PollFlags::empty(),
            };
            sources.push((Source::Person(n), person.as_fd(), flags));
        }
    }

    pub(super) fn hear_person(&mut self, n: usize) {
        let Some(link) = self.persons.get_mut(n) else {
            return;
        };
        let filled = link.fill();
        let mut keys = Vec::new();
        let stays = loop {
            match link.next() {
                Ok(None) => {
                    break matches!(filled, Ok(Filled::Some | Filled::Full | Filled::Empty));
                }
                Ok(Some((Frame::Known(ToHolder::Keys { bytes }), _))) => keys.push(bytes),
                Ok(Some(_)) | Err(_) => break false,
            }
        };
        if !stays {
            // The others of this turn are heard on the next one.
            self.persons.remove(n);
        }
        for bytes in keys {
            self.keyed(bytes);
        }
    }

    /// A person pressed keys, or a terminal that shows the pane answers the program.
    pub(super) fn keyed(&mut self, bytes: Vec<u8>) {
        let Life::Running { .. } = self.life else {
            return;
        };
        self.typist.person(bytes.clone());
        self.type_on();
        // Told before any output is moved: what was typed is known before its echo is.
        self.say(&ToDaemon::Keyed { bytes });
        self.flush();
    }
}
