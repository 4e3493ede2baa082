//! Those who type for a person, each on a connection of its own, so that a key takes no detour. What comes of the key is
//! told to its person directly as well.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFlags};

use super::life::Life;
use super::{Holder, Source, Sources, link_interest};
use crate::input::PersonId;
use crate::link::{Filled, HolderLink};
use crate::wire::{Frame, ToDaemon, ToHolder};

// More hands than this on one pane are too many; the oldest goes when one more comes.
const MAX_PERSONS: usize = 8;
// A key's echo comes in one piece or in a few. A program that prints on and on is followed by the daemon, at its pace.
const PIECES_PER_KEY: u32 = 16;

pub(super) struct Person {
    id: PersonId,
    link: HolderLink,
    /// How many messages of keys the terminal has taken.
    written: u64,
    /// Bumped when the log has grown.
    grew: OwnedFd,
    /// How often still, until the next key.
    left: u32,
}

impl Person {
    fn admit(id: PersonId, mut link: HolderLink) -> io::Result<Self> {
        let grew = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let admitted = ToDaemon::Admitted { acknowledges: true };
        link.push(&admitted, vec![grew.try_clone()?])?;
        link.flush()?;
        Ok(Self {
            id,
            link,
            written: 0,
            grew,
            left: 0,
        })
    }

    fn tell(&mut self) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            // A full counter is a person who does not look.
            let _ = rustix::io::write(&self.grew, &1u64.to_ne_bytes());
        }
    }
}

impl Holder {
    pub(super) fn admit_person(&mut self, link: HolderLink) {
        let Life::Running { .. } = self.life else {
            return;
        };
        self.last_person += 1;
        let Ok(person) = Person::admit(PersonId(self.last_person), link) else {
            return;
        };
        if self.persons.len() == MAX_PERSONS {
            self.persons.remove(0);
        }
        self.persons.push(person);
        // Keys may have come with the first word.
        self.hear_person(self.persons.len() - 1);
    }

    pub(super) fn person_sources<'a>(&'a self, sources: &mut Sources<'a>) {
        // A program that does not read what was typed makes the person wait, as any terminal does.
        let ready = self.typist.is_empty();
        for (n, person) in self.persons.iter().enumerate() {
            let flags = match ready {
                true => link_interest(&person.link),
                false => PollFlags::empty(),
            };
            sources.push((Source::Person(n), person.link.as_fd(), flags));
        }
    }

    /// The log has grown, and those who typed wait for it.
    pub(super) fn tell_persons(&mut self) {
        for person in &mut self.persons {
            person.tell();
        }
    }

    pub(super) fn hear_person(&mut self, n: usize) {
        let Some(person) = self.persons.get_mut(n) else {
            return;
        };
        let link = &mut person.link;
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
        if !keys.is_empty() {
            person.left = PIECES_PER_KEY;
        }
        let id = person.id;
        if !stays {
            // The others of this turn are heard on the next one.
            self.persons.remove(n);
        }
        for bytes in keys {
            self.keyed(bytes, Some(id));
        }
    }

    /// Acknowledges the keys that the terminal took in this turn. Behind everything else of the turn: nobody waits for it
    /// unless we die.
    pub(super) fn acknowledge_keys(&mut self) {
        let written = self.typist.take_keys_written();
        if written.is_empty() {
            return;
        }
        self.persons.retain_mut(|person| {
            let count = written.iter().filter(|id| **id == person.id).count() as u64;
            if count == 0 {
                return true;
            }
            person.written += count;
            let message = ToDaemon::KeysWritten {
                count: person.written,
            };
            // A person who does not read is let go, and learns by that.
            person.link.push(&message, Vec::new()).is_ok() && person.link.flush().is_ok()
        });
    }

    /// A person pressed keys, or a terminal that shows the pane answers the program.
    pub(super) fn keyed(&mut self, bytes: Vec<u8>, person: Option<PersonId>) {
        let Life::Running { .. } = self.life else {
            return;
        };
        self.typist.person(bytes.clone(), person);
        self.type_on();
        // Told before any output is moved: what was typed is known before its echo is.
        self.say(&ToDaemon::Keyed { bytes });
        self.flush();
    }
}
