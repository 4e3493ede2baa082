//! Resizes of a pane that the backend has not confirmed. Which size a pane gets is decided by its session's layout
//! (`attach/`) or a call; a size takes effect when the backend has confirmed it, at an offset of the output.

use std::collections::BTreeMap;

use fugue_api::tools::PaneSize;

/// The resizes that wait for the backend, in the order of their requests. `R` answers the call that requested one; the
/// resizes of a layout have no call.
#[derive(Debug)]
pub struct ResizeQueue<R> {
    pending: BTreeMap<u64, (PaneSize, Option<R>)>,
    has_ended: bool,
}

impl<R> Default for ResizeQueue<R> {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
            has_ended: false,
        }
    }
}

impl<R> ResizeQueue<R> {
    /// Adds a resize that is to be sent to the backend under this id, which grows with every request. An ended pane returns
    /// the call instead.
    pub fn request(&mut self, id: u64, size: PaneSize, call: Option<R>) -> Result<(), Option<R>> {
        if self.has_ended {
            return Err(call);
        }
        self.pending.insert(id, (size, call));
        Ok(())
    }

    /// The backend has confirmed a resize, or refused it. `None`: the id belongs to another request.
    pub fn take(&mut self, id: u64) -> Option<(PaneSize, Option<R>)> {
        self.pending.remove(&id)
    }

    /// The resizes that a reconnected backend gets again, oldest first, so that the newest size is the last one.
    pub fn unconfirmed(&self) -> Vec<(u64, PaneSize)> {
        let pending = self.pending.iter();
        pending.map(|(id, (size, _))| (*id, *size)).collect()
    }

    /// The pane has ended. Returns the calls whose resize was not confirmed.
    pub fn on_pane_end(&mut self) -> Vec<R> {
        self.has_ended = true;
        let pending = std::mem::take(&mut self.pending);
        pending.into_values().filter_map(|(_, call)| call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(rows: u16) -> PaneSize {
        PaneSize { rows, cols: 80 }
    }

    #[test]
    fn a_reconnected_backend_gets_the_unconfirmed_resizes_in_their_order() {
        let mut resizes = ResizeQueue::default();
        for id in 1..=9 {
            let call = (id % 2 == 0).then_some(id);
            assert_eq!(resizes.request(id, size(20 + id as u16), call), Ok(()));
        }
        assert_eq!(resizes.take(1), Some((size(21), None)));
        assert_eq!(resizes.take(4), Some((size(24), Some(4))));
        assert_eq!(resizes.take(4), None);
        let ids = resizes.unconfirmed().into_iter().map(|(id, _)| id);
        assert_eq!(ids.collect::<Vec<_>>(), [2, 3, 5, 6, 7, 8, 9]);
        assert_eq!(resizes.unconfirmed().last(), Some(&(9, size(29))));
    }

    #[test]
    fn calls_of_an_ended_pane_are_returned() {
        let mut resizes = ResizeQueue::default();
        assert_eq!(resizes.request(1, size(30), Some('a')), Ok(()));
        assert_eq!(resizes.request(2, size(31), None), Ok(()));
        assert_eq!(resizes.on_pane_end(), ['a']);
        assert_eq!(resizes.request(3, size(32), Some('b')), Err(Some('b')));
        assert_eq!(resizes.unconfirmed(), []);
    }
}
