//! Chooses the keys that go when memory is short.
//!
//! To know the best key of all would take an order of all keys, kept up at each use. Instead a few are drawn at random,
//! and the best of them are remembered from one choice to the next (Redis's idea), so that each choice is as good as one
//! among many more. What was remembered is judged again before it goes, as it may have been used since.

use super::access::{AccessClock, idle_s};
use super::entry::EntryRef;
use super::{Changes, Keyspace};
use crate::env::Xoshiro;

/// Which keys go first (Redis: maxmemory-policy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Of those with a deadline, those not used for longest.
    VolatileLru,
    /// Of those with a deadline, those used least.
    VolatileLfu,
    /// Any with a deadline.
    VolatileRandom,
    /// Those whose deadline is next.
    VolatileTtl,
    /// Those not used for longest.
    AllkeysLru,
    /// Those used least.
    AllkeysLfu,
    /// Any.
    AllkeysRandom,
    /// None: what needs memory is refused.
    #[default]
    NoEviction,
}

use Policy::*;

/// The policies under Redis's names, in its order.
pub const POLICIES: [(&str, Policy); 8] = [
    ("volatile-lru", VolatileLru),
    ("volatile-lfu", VolatileLfu),
    ("volatile-random", VolatileRandom),
    ("volatile-ttl", VolatileTtl),
    ("allkeys-lru", AllkeysLru),
    ("allkeys-lfu", AllkeysLfu),
    ("allkeys-random", AllkeysRandom),
    ("noeviction", NoEviction),
];

impl Policy {
    /// Its name.
    pub fn name(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Does it count how often keys are used?
    pub fn is_lfu(self) -> bool {
        matches!(self, VolatileLfu | AllkeysLfu)
    }

    /// Does it take none but keys with a deadline?
    pub fn is_volatile(self) -> bool {
        matches!(self, VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl)
    }

    /// How much an entry is to go: more than others with a lower number. None: it is not to go.
    fn score(self, entry: EntryRef<'_>, clock: AccessClock, now_ms: i64) -> Option<u64> {
        let deadline = entry.expire_at();
        if self.is_volatile() && deadline.is_none() {
            return None;
        }
        Some(match self {
            VolatileLru | AllkeysLru => idle_s(entry.access(), now_ms),
            VolatileLfu | AllkeysLfu => 255 - u64::from(clock.frequency(entry.access(), now_ms)),
            VolatileTtl => u64::MAX - deadline.unwrap_or(0).max(0) as u64,
            VolatileRandom | AllkeysRandom | NoEviction => 0,
        })
    }
}

/// The keys remembered between choices.
#[derive(Default)]
pub struct Evictor {
    /// The policy that they were judged by.
    policy: Policy,
    /// Best last.
    candidates: Vec<Candidate>,
    /// The database that a random key comes from next.
    next: usize,
}

struct Candidate {
    score: u64,
    db: usize,
    key: Box<[u8]>,
}

/// Most keys that are remembered.
const CANDIDATES_MAX: usize = 16;

impl Evictor {
    /// Remembers a key if it is among the best.
    fn consider(&mut self, score: u64, db: usize, entry: EntryRef<'_>) {
        let at = self.candidates.partition_point(|candidate| candidate.score < score);
        if at == 0 && self.candidates.len() == CANDIDATES_MAX {
            return;
        }
        let mut equals = self.candidates[at..].iter().take_while(|candidate| candidate.score == score);
        if equals.any(|candidate| candidate.db == db && *candidate.key == *entry.key()) {
            return;
        }
        let at = if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.remove(0);
            at - 1
        } else {
            at
        };
        self.candidates.insert(at, Candidate { score, db, key: entry.key().into() });
    }
}

impl Keyspace {
    /// Removes the key that `policy` thinks best, among some `samples` of each database and those remembered. False:
    /// there is none to remove.
    pub fn evict(
        &mut self,
        policy: Policy,
        samples: usize,
        now_ms: i64,
        random: &mut Xoshiro,
        changes: &mut Changes,
    ) -> bool {
        let victim = match policy {
            NoEviction => None,
            AllkeysRandom | VolatileRandom => self.any_victim(policy, random),
            _ => self.best_victim(policy, samples, now_ms, random),
        };
        victim.is_some_and(|(db, key)| self.keys(db, now_ms, changes).evict(&key))
    }

    /// A key at random, from each database in turn.
    fn any_victim(&mut self, policy: Policy, random: &mut Xoshiro) -> Option<(usize, Box<[u8]>)> {
        let count = self.databases.len();
        (0..count).find_map(|_| {
            let db = self.shared.evictor.next % count;
            self.shared.evictor.next = db + 1;
            self.draw(policy, db, random).map(|entry| (db, entry.key().into()))
        })
    }

    fn draw(&self, policy: Policy, db: usize, random: &mut Xoshiro) -> Option<EntryRef<'_>> {
        let database = &self.databases[db];
        if policy.is_volatile() { database.random_with_deadline(random) } else { database.random(random) }
    }

    fn best_victim(
        &mut self,
        policy: Policy,
        samples: usize,
        now_ms: i64,
        random: &mut Xoshiro,
    ) -> Option<(usize, Box<[u8]>)> {
        let mut evictor = std::mem::take(&mut self.shared.evictor);
        if evictor.policy != policy {
            evictor.candidates.clear();
            evictor.policy = policy;
        }
        let clock = self.shared.clock;
        let victim = loop {
            let mut drawn = 0;
            for (db, database) in self.databases.iter().enumerate() {
                let keys = if policy.is_volatile() { database.len_with_deadline() } else { database.len() };
                let mut consider = |entry| {
                    drawn += 1;
                    policy.score(entry, clock, now_ms).into_iter().for_each(|s| evictor.consider(s, db, entry));
                };
                match (keys <= samples, policy.is_volatile()) {
                    (true, true) => database.iter_with_deadline().for_each(consider),
                    (true, false) => database.iter().for_each(consider),
                    (false, _) => (0..samples).filter_map(|_| self.draw(policy, db, random)).for_each(&mut consider),
                }
            }
            if drawn == 0 {
                evictor.candidates.clear();
                break None;
            }
            // With some drawn at this instant, the last one found to be as good as it was thought ends the search.
            let mut judged = std::iter::from_fn(|| evictor.candidates.pop());
            let still_good = |candidate: &Candidate| {
                let entry = self.databases[candidate.db].get(&candidate.key[..]);
                entry.and_then(|e| policy.score(e, clock, now_ms)).is_some_and(|score| score >= candidate.score)
            };
            if let Some(best) = judged.find(still_good) {
                break Some((best.db, best.key));
            }
        };
        self.shared.evictor = evictor;
        victim
    }
}

#[cfg(test)]
mod tests;
