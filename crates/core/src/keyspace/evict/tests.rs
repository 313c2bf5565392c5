use super::*;
use crate::keyspace::{Change, EventClass, Wants};
use crate::value::Op;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A keyspace that holds so many keys at most, as a cache in front of something slower.
struct Cache {
    keyspace: Keyspace,
    policy: Policy,
    samples: usize,
    capacity: usize,
    random: Xoshiro,
    now_ms: i64,
    hits: u64,
}

impl Cache {
    fn new(policy: Policy, samples: usize, capacity: usize, seed: u64) -> Cache {
        let mut keyspace = Keyspace::new(2);
        keyspace.shared.clock.lfu = policy.is_lfu();
        let random = Xoshiro::from_seed(seed);
        Cache { keyspace, policy, samples, capacity, random, now_ms: 1_000_000, hits: 0 }
    }

    fn use_key(&mut self, key: u64) {
        self.now_ms += 1000;
        let mut changes = Changes::default();
        let name = key.to_string();
        let mut keys = self.keyspace.keys(0, self.now_ms, &mut changes);
        if keys.string(name.as_bytes()).unwrap().is_some() {
            self.hits += 1;
            return;
        }
        keys.set_string(name.as_bytes(), b"v", crate::keyspace::keys::Expiry::Clear);
        while self.keyspace.databases[0].len() > self.capacity {
            assert!(self.evict());
        }
    }

    fn evict(&mut self) -> bool {
        let (policy, samples, now_ms) = (self.policy, self.samples, self.now_ms);
        self.keyspace.evict(policy, samples, now_ms, &mut self.random, &mut Changes::default())
    }

    fn holds(&self, key: u64) -> bool {
        self.keyspace.databases[0].get(key.to_string().as_bytes()).is_some()
    }
}

/// Keys by popularity: half of the uses are of a few.
fn popular(random: &mut Xoshiro, count: u64) -> u64 {
    let mut below = count;
    while below > 1 && random.below(3) != 0 {
        below = below.div_ceil(2);
    }
    random.below(below)
}

/// Hits of a cache that forgets by an exact order.
fn exact_lru_hits(uses: &[u64], capacity: usize) -> u64 {
    let (mut last, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (time, key) in uses.iter().enumerate() {
        if let Some(before) = last.insert(*key, time) {
            order.remove(&before);
            hits += 1;
        }
        order.insert(time, *key);
        if order.len() > capacity {
            let (_, oldest) = order.pop_first().unwrap();
            last.remove(&oldest);
        }
    }
    hits
}

#[test]
fn lru_comes_near_the_exact_order() {
    for seed in 1..=4 {
        let mut random = Xoshiro::from_seed(seed);
        let uses: Vec<u64> = (0..60_000).map(|_| popular(&mut random, 4000)).collect();
        let capacity = 400;
        let hits = |policy, samples| {
            let mut cache = Cache::new(policy, samples, capacity, seed);
            uses.iter().for_each(|key| cache.use_key(*key));
            cache.hits
        };
        let (exact, random) = (exact_lru_hits(&uses, capacity), hits(AllkeysRandom, 5));
        let (five, ten) = (hits(AllkeysLru, 5), hits(AllkeysLru, 10));
        assert!(exact > random, "seed {seed}: the uses tell nothing: {exact} and {random}");
        // What chance loses against the order is the scale; five samples may lose a quarter of it, ten a sixth.
        let lost = exact - random;
        assert!(five + lost / 4 > exact, "seed {seed}: exact {exact}, 5 samples {five}, at random {random}");
        assert!(ten + lost / 6 > exact, "seed {seed}: exact {exact}, 10 samples {ten}, at random {random}");
    }
}

#[test]
fn lfu_keeps_what_is_used_often_through_a_scan() {
    for seed in 1..=4 {
        let survivors = |policy| {
            let mut cache = Cache::new(policy, 5, 1000, seed);
            // With a second for each use this takes two hours, in which counts would fall.
            cache.keyspace.shared.clock.decay_minutes = 0;
            (0..20).for_each(|_| (0..100).for_each(|hot| cache.use_key(hot)));
            (1000..6000).for_each(|once| cache.use_key(once));
            (0..100).filter(|hot| cache.holds(*hot)).count()
        };
        assert_eq!((100, 0), (survivors(AllkeysLfu), survivors(AllkeysLru)), "seed {seed}");
    }
}

/// Keys of two databases, every other one with a deadline; gives those evicted, in order.
fn evicted(policy: Policy, samples: usize) -> Vec<(usize, String)> {
    let mut cache = Cache::new(policy, samples, 0, 7);
    let mut random = Xoshiro::from_seed(3);
    for i in 0..40u64 {
        let (db, mut changes) = ((i % 2) as usize, Changes::default());
        let name = format!("k{i}");
        let deadline = (i % 4 < 2).then(|| cache.now_ms + 1_000_000 + random.below(1_000_000) as i64);
        let mut keys = cache.keyspace.keys(db, cache.now_ms + i as i64 * 1000, &mut changes);
        keys.set_string(name.as_bytes(), b"v", crate::keyspace::keys::Expiry::Clear);
        keys.set_expire(name.as_bytes(), deadline);
    }
    cache.now_ms += 100_000;
    let mut gone = Vec::new();
    loop {
        let mut changes = Changes { events_wanted: EventClass::EVICTED, ..Changes::default() };
        let (policy, samples, now_ms) = (cache.policy, cache.samples, cache.now_ms);
        if !cache.keyspace.evict(policy, samples, now_ms, &mut cache.random, &mut changes) {
            let left: usize = cache.keyspace.databases.iter().map(|database| database.len()).sum();
            assert_eq!(40, gone.len() + left);
            assert_eq!(gone.len() as u64, cache.keyspace.shared.stats.evicted);
            return gone;
        }
        let event = changes.events.pop().expect("an event for each key");
        assert_eq!(("evicted", 1), (event.name, changes.dirty));
        gone.push((event.db, String::from_utf8(event.key.to_vec()).unwrap()));
    }
}

#[test]
fn each_policy_takes_what_it_says() {
    assert!(evicted(NoEviction, 5).is_empty());
    for samples in [1, 5, 100] {
        for policy in [VolatileLru, VolatileLfu, VolatileRandom, VolatileTtl] {
            let gone = evicted(policy, samples);
            assert_eq!(20, gone.len(), "{policy:?}");
            assert!(gone.iter().all(|(_, key)| key[1..].parse::<u64>().unwrap() % 4 < 2), "{policy:?}");
        }
        for policy in [AllkeysLru, AllkeysLfu, AllkeysRandom] {
            let gone: HashSet<_> = evicted(policy, samples).into_iter().collect();
            assert_eq!(40, gone.len(), "{policy:?}");
        }
    }
    // With all keys looked at each time, the order is exact.
    let numbers = |gone: Vec<(usize, String)>| gone.iter().map(|(_, k)| k[1..].parse().unwrap()).collect::<Vec<u64>>();
    assert_eq!((0..40).collect::<Vec<_>>(), numbers(evicted(AllkeysLru, 100)));
    let mut random = Xoshiro::from_seed(3);
    let mut deadlines: Vec<(u64, u64)> = (0..40).filter(|i| i % 4 < 2).map(|i| (random.below(1_000_000), i)).collect();
    deadlines.sort_unstable();
    assert_eq!(deadlines.into_iter().map(|(_, i)| i).collect::<Vec<_>>(), numbers(evicted(VolatileTtl, 100)));
}

#[test]
fn what_was_used_since_it_was_drawn_stays() {
    let mut cache = Cache::new(AllkeysLru, 100, 100, 1);
    (0..10).for_each(|key| cache.use_key(key));
    assert!(cache.evict() && !cache.holds(0));
    // All the others were remembered in the order of their use, and then this one was used.
    cache.use_key(1);
    assert!(cache.evict() && cache.holds(1) && !cache.holds(2));
    // Keys that are gone, or whose database is, are passed over.
    cache.keyspace.flush(0, &mut Changes::default());
    assert!(!cache.evict());
    cache.use_key(11);
    assert!(cache.evict() && !cache.holds(11));
}

#[test]
fn an_eviction_is_logged_and_seen_by_watchers() {
    let mut cache = Cache::new(AllkeysLru, 5, 100, 1);
    cache.use_key(1);
    let version = cache.keyspace.shared.watches.watch(0, b"1");
    let mut changes = Changes { wants: Wants::REDO, ..Changes::default() };
    assert!(cache.keyspace.evict(AllkeysLru, 5, cache.now_ms, &mut cache.random, &mut changes));
    assert_ne!(Some(version), cache.keyspace.shared.watches.version(0, b"1"));
    let [Change::Key { db: 0, key, redo: Some(Op::Remove), undo: None }] = &changes.list[..] else {
        panic!("{} changes", changes.list.len())
    };
    assert_eq!(b"1", &key[..]);
}
