//! stub
use super::context::Context;
use super::spec::{Flags, Group, Keys, Run, Spec};
use crate::error::Result;
use crate::reply::Reply;
const fn row(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::String, name, run, arity, flags, Keys::ONE, "1.0.0", "O(1)", usage, summary)
}
pub(super) const COMMANDS: &[Spec] = &[
    row("get", get, 2, Flags::READONLY.union(Flags::FAST), "key", "Gets."),
    row("set", set, -3, Flags::WRITE, "key value", "Sets."),
];
fn get(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulk_or_nil(ctx.keys().get(args[1])))
}
fn set(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    ctx.keys().set(args[1], args[2]);
    Ok(Reply::Ok)
}
