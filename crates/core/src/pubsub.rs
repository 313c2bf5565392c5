//! Who listens to which channel; delivery is left to the caller, who owns the sessions.

use crate::ds::glob;
use crate::session::SessionId;
use std::collections::{BTreeMap, BTreeSet};

/// Subscribers of channels, patterns and shard channels.
#[derive(Default)]
pub struct PubSub {
    channels: BTreeMap<Box<[u8]>, BTreeSet<SessionId>>,
    patterns: BTreeMap<Box<[u8]>, BTreeSet<SessionId>>,
    shard_channels: BTreeMap<Box<[u8]>, BTreeSet<SessionId>>,
}

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// One message on its way to one session.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Who gets it.
    pub session: SessionId,
    /// The pattern that matched; None when the channel itself is subscribed.
    pub pattern: Option<Box<[u8]>>,
}

impl PubSub {
    fn map(&mut self, kind: Kind) -> &mut BTreeMap<Box<[u8]>, BTreeSet<SessionId>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shard_channels,
        }
    }

    /// Adds a subscription.
    pub fn subscribe(&mut self, kind: Kind, name: &[u8], session: SessionId) {
        self.map(kind).entry(name.into()).or_default().insert(session);
    }

    /// Removes a subscription.
    pub fn unsubscribe(&mut self, kind: Kind, name: &[u8], session: SessionId) {
        let map = self.map(kind);
        if let Some(sessions) = map.get_mut(name) {
            sessions.remove(&session);
            if sessions.is_empty() {
                map.remove(name);
            }
        }
    }

    /// True when nobody listens to anything, so publishing can be skipped.
    pub fn is_idle(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty()
    }

    /// Everyone who gets a message published to `channel`: subscribers of the channel first, then of patterns.
    pub fn deliveries(&self, channel: &[u8]) -> Vec<Delivery> {
        let direct = self.channels.get(channel).into_iter().flatten();
        let mut deliveries: Vec<Delivery> = direct.map(|&session| Delivery { session, pattern: None }).collect();
        for (pattern, sessions) in &self.patterns {
            if glob::matches(pattern, channel) {
                let matching = sessions.iter().map(|&session| Delivery { session, pattern: Some(pattern.clone()) });
                deliveries.extend(matching);
            }
        }
        deliveries
    }

    /// Everyone who gets a message published to a shard channel.
    pub fn shard_deliveries(&self, channel: &[u8]) -> Vec<Delivery> {
        let sessions = self.shard_channels.get(channel).into_iter().flatten();
        sessions.map(|&session| Delivery { session, pattern: None }).collect()
    }

    /// Channels (or shard channels) with a subscriber, that match `pattern`.
    pub fn active(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<&[u8]> {
        let map = if kind == Kind::Shard { &self.shard_channels } else { &self.channels };
        map.keys().map(|name| &name[..]).filter(|name| pattern.is_none_or(|p| glob::matches(p, name))).collect()
    }

    /// Number of subscribers of one channel or shard channel.
    pub fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        let map = if kind == Kind::Shard { &self.shard_channels } else { &self.channels };
        map.get(name).map_or(0, BTreeSet::len)
    }

    /// Number of distinct patterns.
    pub fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// Number of distinct channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }
}
