//! Messages to subscribed sessions: PUBLISH, and keyspace events as messages.

use crate::keyspace::{Event, EventClass};
use crate::pubsub::Delivery;
use crate::reply::Reply;
use crate::session::Session;
use crate::state::State;

/// Sends a message to everyone who listens to `channel`; gives the number of deliveries.
pub fn publish(state: &mut State, current: &mut Session, channel: &[u8], message: &[u8]) -> usize {
    if state.pubsub.is_idle() {
        return 0;
    }
    let deliveries = state.pubsub.deliveries(channel);
    for Delivery { session, pattern } in &deliveries {
        let push = match pattern {
            None => Reply::Push(vec![Reply::bulk("message"), Reply::bulk(channel), Reply::bulk(message)]),
            Some(pattern) => Reply::Push(vec![
                Reply::bulk("pmessage"),
                Reply::bulk(pattern),
                Reply::bulk(channel),
                Reply::bulk(message),
            ]),
        };
        post(state, current, *session, push);
    }
    deliveries.len()
}

/// Sends a message to everyone who listens to a shard channel.
pub fn publish_shard(state: &mut State, current: &mut Session, channel: &[u8], message: &[u8]) -> usize {
    let deliveries = state.pubsub.shard_deliveries(channel);
    for Delivery { session, .. } in &deliveries {
        let push = vec![Reply::bulk("smessage"), Reply::bulk(channel), Reply::bulk(message)];
        post(state, current, *session, Reply::Push(push));
    }
    deliveries.len()
}

fn post(state: &mut State, current: &mut Session, id: u64, push: Reply) {
    let limit = state.config.output_buffer_pubsub.hard_bytes as usize;
    let Some(session) = state.session_mut(current, id) else { return };
    session.post(push);
    // A subscriber that reads slower than others publish must not fill the memory: its door only looks later.
    if limit > 0 && session.outbox_bytes > limit {
        session.outbox = Vec::new();
        session.killed = true;
    }
}

/// Publishes keyspace events on the channels that the settings ask for.
pub fn events(state: &mut State, current: &mut Session, events: &[Event]) {
    let forms = state.config.notify;
    for Event { class, name, db, key } in events {
        // Some are there for triggers alone.
        if !forms.intersects(*class) {
            continue;
        }
        if forms.contains(EventClass::KEYSPACE) {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            publish(state, current, &channel, name.as_bytes());
        }
        if forms.contains(EventClass::KEYEVENT) {
            publish(state, current, format!("__keyevent@{db}__:{name}").as_bytes(), key);
        }
    }
}
