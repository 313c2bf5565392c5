//! Commands of a cluster's clients, which find out here that there is no cluster.

use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec};
use crate::error::{Error, Result};
use crate::reply::Reply;

const fn row(name: &'static str, run: Run, arity: i32, flags: Flags, summary: &'static str) -> Spec {
    Spec::row(Group::Cluster, name, run, arity, flags, Keys::None, "3.0.0", "O(1)", "", summary)
}

const SWITCH: Flags = Flags::FAST.union(Flags::LOADING).union(Flags::STALE);

const REFUSED: &str = "Refused: this server is not part of a cluster.";

pub(super) const COMMANDS: &[Spec] = &[
    row("cluster", refuse, -2, Flags::empty(), REFUSED),
    row("readonly", refuse, 1, SWITCH, REFUSED).in_categories(&["@connection"]),
    row("readwrite", refuse, 1, SWITCH, REFUSED).in_categories(&["@connection"]),
    row("asking", refuse, 1, Flags::FAST, REFUSED).in_categories(&["@connection"]),
];

fn refuse(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Err(Error::err("This instance has cluster support disabled"))
}
