//! Waiting for patterns: every piece of output is shown to those who wait, as it comes.

use std::time::Duration;

use fugue_api::{RunId, runs};
use fugue_core::{ExpectMatch, MatchedPattern, PaneEvent, view};
use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, MatchSource, PatternKind,
    PatternMatch, Terminal,
};
use tokio::time::Instant;

use super::Pane;
use crate::archive;

/// Somebody who waits for a pattern in this pane.
pub(super) struct Watcher {
    run: RunId,
    /// `None` while the past is searched elsewhere.
    watch: Option<ExpectSearch>,
    look_every: Duration,
    look_at: Option<Instant>,
    settle_at: Option<Instant>,
}

/// A search of the past that has come back.
pub(super) struct Searched {
    run: RunId,
    watch: ExpectSearch,
    hit: Option<PatternMatch>,
}

// Output that stops for so long is taken to be complete for now: a number is not cut, a prompt stays one.
const SETTLED: Duration = Duration::from_millis(20);

/// What a run's arguments ask for. They were checked at the door.
pub fn watch_for(watch: &fugue_core::ExpectRequest) -> Option<ExpectPatterns> {
    let args = &watch.args;
    let since = watch.from.as_ref().or(args.since.as_ref());
    Some(ExpectPatterns {
        pattern: view::pattern("pattern", &args.pattern).ok()?,
        fail: args
            .fail_pattern
            .as_ref()
            .and_then(|fail| view::pattern("fail_pattern", fail).ok()),
        lines: args.lines as usize,
        since: since.and_then(|since| view::cursor(since).ok()),
        echo: if args.match_echo {
            EchoPolicy::Match
        } else {
            EchoPolicy::Skip
        },
    })
}

/// A hit as core is told of it.
pub fn sighted(run: &RunId, hit: PatternMatch) -> PaneEvent {
    PaneEvent::Sighted {
        run: run.clone(),
        saw: match hit.which {
            PatternKind::Pattern => MatchedPattern::Pattern,
            PatternKind::Fail => MatchedPattern::Fail,
        },
        sighting: ExpectMatch {
            text: hit.text,
            line: hit.line,
            behind: view::shown(hit.behind),
            via: match hit.via {
                MatchSource::Stream => runs::MatchVia::Stream,
                MatchSource::Screen => runs::MatchVia::Screen,
            },
        },
    }
}

impl Pane {
    pub(super) async fn watch(&mut self, wanted: fugue_core::ExpectRequest) {
        let Some(what) = watch_for(&wanted) else {
            return;
        };
        self.follower.terminal.listen(true);
        let mut watch = ExpectSearch::new(what);
        let begun = watch.begin(&self.follower.terminal);
        let look_every = Duration::from_millis(u64::from(wanted.args.poll_interval_ms));
        let mut watcher = Watcher {
            run: wanted.run.clone(),
            watch: None,
            look_every,
            look_at: None,
            settle_at: None,
        };
        match begun {
            InitialSearch::Hit(hit) => {
                self.told_where(&wanted.run, &watch).await;
                self.seat.say(sighted(&wanted.run, hit)).await;
                return self.listen_if_watched();
            }
            InitialSearch::Watching => {
                self.told_where(&wanted.run, &watch).await;
                watcher.watch = Some(watch);
                watcher.arm(Instant::now());
            }
            // Reading a long log back takes a while, and other panes live on this thread.
            InitialSearch::NeedsOlder => {
                let record = Box::new(self.seat.record.clone());
                let (back, run) = (self.searched_in.clone(), wanted.run.clone());
                let again = wanted.clone();
                let begun = archive::begin(record, watch, self.seat.house.clone());
                tokio::spawn(async move {
                    let (hit, watch) = match begun.await {
                        Ok(begun) => begun,
                        Err(error) => {
                            tracing::warn!(?run, %error, "older output cannot be searched");
                            match watch_for(&again) {
                                Some(what) => (None, ExpectSearch::without_older(what)),
                                None => return,
                            }
                        }
                    };
                    // The pane is gone only when the daemon is about to be.
                    let _ = back.send(Searched { run, watch, hit });
                });
            }
        }
        self.watchers.push(watcher);
        if self.is_told() {
            self.late_look().await;
        }
    }

    pub(super) async fn searched(&mut self, searched: Searched) {
        let Searched {
            run,
            mut watch,
            hit,
        } = searched;
        let Some(at) = self.watchers.iter().position(|watcher| watcher.run == run) else {
            return;
        };
        self.told_where(&run, &watch).await;
        match hit.or_else(|| watch.resume(&self.follower.terminal)) {
            Some(hit) => {
                self.watchers.remove(at);
                self.seat.say(sighted(&run, hit)).await;
                self.listen_if_watched();
            }
            None => {
                self.watchers[at].watch = Some(watch);
                self.watchers[at].arm(Instant::now());
                if self.is_told() {
                    self.late_look().await;
                }
            }
        }
    }

    async fn told_where(&self, run: &RunId, watch: &ExpectSearch) {
        if let Some(from) = watch.searched_from() {
            let (run, from) = (run.clone(), view::shown(from));
            self.seat.say(PaneEvent::Watching { run, from }).await;
        }
    }

    pub(super) fn unwatch(&mut self, run: &RunId) {
        self.watchers.retain(|watcher| watcher.run != *run);
        self.listen_if_watched();
    }

    /// Shows new output to everybody who waits.
    pub(super) async fn show_watchers(&mut self) {
        if self.watchers.is_empty() {
            return;
        }
        let now = Instant::now();
        self.try_all(|watcher, terminal| {
            let watch = watcher.watch.as_mut()?;
            let hit = watch.output(terminal.tapped());
            watcher.settle_at = None;
            watcher.arm(now);
            hit
        })
        .await;
    }

    /// When somebody wants a look, whatever is printed.
    pub(super) fn watchers_deadline(&self) -> Option<Instant> {
        let times = self.watchers.iter();
        times
            .flat_map(|watcher| [watcher.look_at, watcher.settle_at])
            .flatten()
            .min()
    }

    pub(super) async fn watchers_time(&mut self, now: Instant) {
        self.try_all(|watcher, terminal| {
            let watch = watcher.watch.as_mut()?;
            let due = |at: &mut Option<Instant>| at.take_if(|at| *at <= now).is_some();
            let quiet = due(&mut watcher.settle_at).then(|| watch.quiet()).flatten();
            let seen = || {
                due(&mut watcher.look_at)
                    .then(|| watch.look(terminal))
                    .flatten()
            };
            quiet.or_else(seen)
        })
        .await;
    }

    /// Nothing more will come: what is there now is all there is. Those who saw nothing hear of the pane's end.
    pub(super) async fn last_look(&mut self) {
        self.try_all(|watcher, terminal| watcher.watch.as_mut()?.end(terminal))
            .await;
    }

    /// The same for those who came when the end had been told.
    async fn late_look(&mut self) {
        self.last_look().await;
        // Those whose search of the past is still out come back by themselves.
        for watcher in self
            .watchers
            .extract_if(.., |watcher| watcher.watch.is_some())
            .collect::<Vec<_>>()
        {
            let run = watcher.run;
            self.seat.say(PaneEvent::NothingSeen { run }).await;
        }
    }

    async fn try_all(
        &mut self,
        mut look: impl FnMut(&mut Watcher, &Terminal) -> Option<PatternMatch>,
    ) {
        let mut hits = Vec::new();
        let terminal = &self.follower.terminal;
        self.watchers
            .retain_mut(|watcher| match look(watcher, terminal) {
                Some(hit) => {
                    hits.push(sighted(&watcher.run, hit));
                    false
                }
                None => true,
            });
        for hit in hits {
            self.seat.say(hit).await;
        }
        self.listen_if_watched();
    }

    fn listen_if_watched(&mut self) {
        let watched = !self.watchers.is_empty();
        self.follower.terminal.listen(watched);
    }
}

impl Watcher {
    /// Sets the times at which its watch wants to be looked at again.
    fn arm(&mut self, now: Instant) {
        let Some(watch) = &self.watch else { return };
        if watch.is_unsettled() {
            self.settle_at = Some(now + SETTLED);
        }
        if watch.wants_look() && self.look_at.is_none() {
            self.look_at = Some(now + self.look_every);
        }
    }
}
