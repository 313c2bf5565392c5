//! Lua procedures: Redis's scripting environment on LuaJIT's interpreter.
//!
//! From the bottom: [`heap`] (its memory), [`shared`] (what its functions share), [`stack`] (the border between Lua and
//! Rust, with the rules that keep either from unwinding through the other), the libraries ([`api`] is the table `redis`,
//! [`peryton`] the one of that name, then [`cjson`], [`cmsgpack`], [`structs`], [`strings`] over [`pattern`], [`random`], [`pace`]
//! has long ones look whether to end), [`sandbox`] (what scripts see),
//! [`state`] (the interpreter), [`library`] (functions that stay) and [`routine`] (their calls, with [`rows`]).
//!
//! `mlua-sys` is used without `mlua` on top: a call of a command from a script costs little more than the command then,
//! and there is one set of rules at the border instead of two.

mod api;
mod cjson;
mod cmsgpack;
mod convert;
mod heap;
mod library;
mod number;
mod pace;
mod pattern;
mod peryton;
mod random;
mod routine;
mod rows;
mod sandbox;
mod shared;
mod source;
mod stack;
mod state;
mod strings;
mod structs;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trap_tests;

pub use library::{FunctionId, Limits};
pub use routine::{Field, Told};
pub use rows::Cell;
pub use stack::Stack;
pub use state::Lua;
