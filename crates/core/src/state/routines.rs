//! What is known of triggers and schedules while the store is open: which keys are watched, what is due, how calls went.
//!
//! The catalog is the truth, and this follows its versions.

use crate::ds::glob;
use crate::keyspace::{Event, EventClass, events};
use crate::sql::{Runs, ScheduleRuns};
use crate::table::catalog::Catalog;
use crate::table::schedule::ScheduleDef;
use crate::table::trigger::TriggerDef;
use std::collections::HashMap;
use std::sync::Arc;

/// Triggers of a request that the slow log tells of.
const FIRED_KEPT: usize = 4;

/// The triggers and schedules of a store.
#[derive(Default)]
pub struct Routines {
    /// The catalog's versions that the rest was made from.
    versions: (u64, u64),
    /// Triggers of keys, in the order in which they were made.
    of_keys: Vec<Arc<TriggerDef>>,
    /// The classes of events that any of them waits for.
    classes: EventClass,
    /// How the calls of triggers went, by their names in lower case.
    runs: HashMap<String, Runs>,
    /// Triggers that a request has fired, for the slow log, and the number of that request.
    fired: (u64, Vec<Arc<TriggerDef>>),
    /// The triggers that are being fired, inside each other.
    pub firing: Vec<Arc<TriggerDef>>,
    /// A statement or script is not over, so that nobody can be called for what happens to other keys.
    pub held: bool,
    /// Events that came while nobody could be called.
    pub waiting: Vec<Event>,
    timers: Vec<Timer>,
    /// A schedule is new: whoever waits for the next one must look again.
    pub alarm: bool,
}

/// A schedule and when it is due.
struct Timer {
    schedule: Arc<ScheduleDef>,
    /// On the steady clock.
    due_ns: u64,
    last_ms: Option<i64>,
    runs: Runs,
}

impl Routines {
    /// The classes of events that triggers wait for.
    #[inline]
    pub fn classes(&self) -> EventClass {
        self.classes
    }

    /// Must triggers of keys wait?
    pub fn is_occupied(&self) -> bool {
        self.held || !self.firing.is_empty()
    }

    /// Is it made from the catalog as it is?
    #[inline]
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        self.versions == versions(catalog)
    }

    /// Follows the catalog. A schedule that is new, or another one than before, is due after its period.
    #[cold]
    pub fn follow(&mut self, catalog: &Catalog, now_ns: u64) {
        self.versions = versions(catalog);
        self.of_keys = catalog.triggers().of_keys();
        self.classes = self.of_keys.iter().fold(EventClass::empty(), |classes, trigger| classes | classes_of(trigger));
        self.runs.retain(|name, _| catalog.triggers().get(name).is_some());
        let is_same = |timer: &Timer| {
            catalog.schedules.get(&timer.schedule.name).is_some_and(|schedule| *schedule == timer.schedule)
        };
        self.timers.retain(is_same);
        for schedule in catalog.schedules.iter() {
            if !self.timers.iter().any(|timer| timer.schedule == *schedule) {
                let due_ns = now_ns + schedule.every_ms * 1_000_000;
                let schedule = schedule.clone();
                self.timers.push(Timer { schedule, due_ns, last_ms: None, runs: Runs::default() });
                self.alarm = true;
            }
        }
    }

    /// The triggers that an event fires, in their order.
    pub fn fired_by(&self, event: &Event) -> Vec<Arc<TriggerDef>> {
        let fits = |trigger: &&Arc<TriggerDef>| {
            trigger.keys().is_some_and(|keys| {
                let is_named = keys.events.iter().any(|name| name == event.name);
                let is_meant = if keys.events.is_empty() { EventClass::ALL.contains(event.class) } else { is_named };
                is_meant && glob::matches(keys.pattern.as_bytes(), &event.key)
            })
        };
        self.of_keys.iter().filter(fits).cloned().collect()
    }

    /// Notes how a call of a trigger went, which the request of this number fired.
    pub fn note(&mut self, trigger: &Arc<TriggerDef>, request: u64, failure: Option<String>) {
        let (last, fired) = &mut self.fired;
        if *last != request {
            fired.clear();
            *last = request;
        }
        if fired.len() < FIRED_KEPT && !fired.iter().any(|known| Arc::ptr_eq(known, trigger)) {
            fired.push(trigger.clone());
        }
        let runs = match self.runs.get_mut(&*trigger.name) {
            Some(runs) => runs,
            None => self.runs.entry(trigger.name.to_ascii_lowercase()).or_default(),
        };
        count(runs, failure);
    }

    /// What the request of this number fired, in words; None: nothing.
    pub fn fired_in(&self, request: u64) -> Option<String> {
        let (last, fired) = &self.fired;
        let names = fired.iter().map(|trigger| format!("trigger {} CALL {}", trigger.name, trigger.routine));
        (*last == request && !fired.is_empty()).then(|| format!("({})", names.collect::<Vec<_>>().join(", ")))
    }

    /// How the calls of a trigger went.
    pub fn trigger_runs(&self, trigger: &str) -> Runs {
        self.runs.get(&trigger.to_ascii_lowercase()).cloned().unwrap_or_default()
    }

    /// How the calls of a schedule went; `now` is the instant on the steady clock and in milliseconds since 1970.
    pub fn schedule_runs(&self, name: &str, (now_ns, now_ms): (u64, i64)) -> ScheduleRuns {
        let timer = self.timers.iter().find(|timer| timer.schedule.name.eq_ignore_ascii_case(name));
        timer.map_or_else(ScheduleRuns::default, |timer| ScheduleRuns {
            runs: timer.runs.clone(),
            next_ms: Some(now_ms + (timer.due_ns.saturating_sub(now_ns) / 1_000_000) as i64),
            last_ms: timer.last_ms,
        })
    }

    /// Takes the schedule that has been due for longest, if one is, and makes it due again: after its period, or, where it is
    /// late, after its period from now on.
    pub fn take_due(&mut self, now_ns: u64, now_ms: i64) -> Option<Arc<ScheduleDef>> {
        let timer = self.timers.iter_mut().filter(|timer| timer.due_ns <= now_ns).min_by_key(|timer| timer.due_ns)?;
        let every_ns = timer.schedule.every_ms * 1_000_000;
        let next_ns = timer.due_ns + every_ns;
        timer.due_ns = if next_ns > now_ns { next_ns } else { now_ns + every_ns };
        timer.last_ms = Some(now_ms);
        Some(timer.schedule.clone())
    }

    /// When the next schedule is due, on the steady clock.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.timers.iter().map(|timer| timer.due_ns).min()
    }

    /// Notes how a call of a schedule went.
    pub fn note_schedule(&mut self, name: &str, failure: Option<String>) {
        if let Some(timer) = self.timers.iter_mut().find(|timer| timer.schedule.name == name) {
            count(&mut timer.runs, failure);
        }
    }
}

fn versions(catalog: &Catalog) -> (u64, u64) {
    (catalog.triggers().version(), catalog.schedules.version())
}

/// The classes of the events that fire a trigger of keys.
fn classes_of(trigger: &TriggerDef) -> EventClass {
    let Some(keys) = trigger.keys() else { return EventClass::empty() };
    if keys.events.is_empty() {
        return EventClass::ALL;
    }
    keys.events.iter().filter_map(|name| events::class_of(name)).fold(EventClass::empty(), |all, class| all | class)
}

fn count(runs: &mut Runs, failure: Option<String>) {
    runs.calls += 1;
    if let Some(failure) = failure {
        runs.failures += 1;
        runs.last_error = Some(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(name: &str, every_ms: u64) -> Arc<ScheduleDef> {
        Arc::new(ScheduleDef { name: name.into(), every_ms, routine: "f".into(), arguments: Vec::new() })
    }

    #[test]
    fn a_schedule_that_is_late_is_due_once() {
        const MS: u64 = 1_000_000;
        let (mut catalog, mut routines) = (Catalog::default(), Routines::default());
        catalog.schedules.put(schedule("fast", 10));
        catalog.schedules.put(schedule("slow", 25));
        routines.follow(&catalog, 100 * MS);
        assert!(routines.is_current(&catalog));
        assert_eq!(Some(110 * MS), routines.next_due_ns());
        let mut due = |now: u64| {
            let mut names = Vec::new();
            while let Some(schedule) = routines.take_due(now * MS, 0) {
                names.push(schedule.name.clone());
            }
            names.join(" ")
        };
        assert_eq!("", due(109));
        assert_eq!("fast", due(110));
        // A little late: the next one is due when it would have been.
        assert_eq!("fast", due(121));
        assert_eq!("slow", due(125));
        assert_eq!("fast", due(130));
        // Very late: once, and not once for each time that was missed.
        assert_eq!("fast slow", due(1000));
        assert_eq!("fast", due(1010));
        assert_eq!("slow", due(1025).split(' ').filter(|name| *name == "slow").collect::<Vec<_>>().join(" "));
        let runs = routines.schedule_runs("SLOW", (1030 * MS, 5000));
        assert_eq!((Some(5020), Some(0)), (runs.next_ms, runs.last_ms));
        catalog.schedules.remove("slow");
        routines.follow(&catalog, 1040 * MS);
        assert_eq!(None, routines.schedule_runs("slow", (0, 0)).next_ms);
        assert!(routines.schedule_runs("fast", (0, 0)).last_ms.is_some(), "what stays goes on");
    }
}
