//! Calls the routines of schedules when they are due, as FCALL without keys would, in a session of nobody's.

use super::dispatch;
use crate::reply::Reply;
use crate::state::State;
use crate::table::schedule::ScheduleDef;

/// Schedules that are called in one hold of the baton.
const CALLS_AT_ONCE: usize = 8;

/// Calls what is due, some at a time; gives the milliseconds until there is more to do, if there are schedules.
pub(crate) fn keep_house(state: &mut State) -> Option<i64> {
    state.routines.next_due_ns()?;
    for _ in 0..CALLS_AT_ONCE {
        let (now_ns, now_ms) = (state.monotonic_ns, state.clock.now_ms);
        match state.routines.take_due(now_ns, now_ms) {
            Some(schedule) => call(state, &schedule),
            None => break,
        }
    }
    let due_ns = state.routines.next_due_ns()?;
    Some(due_ns.saturating_sub(state.monotonic_ns).div_ceil(1_000_000) as i64)
}

fn call(state: &mut State, schedule: &ScheduleDef) {
    let mut session = dispatch::nobody(state);
    session.authenticated = true;
    let mut words: Vec<&[u8]> = vec![b"FCALL", schedule.routine.as_bytes(), b"0"];
    words.extend(schedule.arguments.iter().map(|argument| &argument[..]));
    let failure = match dispatch::request(state, &mut session, &words) {
        Reply::Error(error) => Some(error.to_string()),
        _ => None,
    };
    let before = state.routines.schedule_runs(&schedule.name, (0, 0)).runs.last_error;
    if let Some(failure) = failure.as_ref().filter(|failure| before.as_ref() != Some(failure)) {
        state.env.log(3, &format!("schedule {}: {failure}", schedule.name));
    }
    state.routines.note_schedule(&schedule.name, failure);
}
