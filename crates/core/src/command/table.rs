//! The command table: every command by name, put together from the families' own lists.

use super::spec::Spec;
use super::{
    bitmap, client, cluster, commands, config, connection, debug, expire, hash, info, key, list, pubsub, records, save,
    script, server, set, sort, sql, string, transact, transaction, zset, zset_algebra, zset_range,
};
use std::sync::LazyLock;

/// The families' lists.
const FAMILIES: &[&[Spec]] = &[
    connection::COMMANDS,
    client::COMMANDS,
    commands::COMMANDS,
    cluster::COMMANDS,
    config::COMMANDS,
    info::COMMANDS,
    server::COMMANDS,
    save::COMMANDS,
    debug::COMMANDS,
    string::COMMANDS,
    bitmap::COMMANDS,
    key::COMMANDS,
    expire::COMMANDS,
    list::COMMANDS,
    hash::COMMANDS,
    set::COMMANDS,
    zset::COMMANDS,
    zset_range::COMMANDS,
    zset_algebra::COMMANDS,
    sort::COMMANDS,
    sql::COMMANDS,
    records::COMMANDS,
    transaction::COMMANDS,
    transact::COMMANDS,
    pubsub::COMMANDS,
    script::COMMANDS,
];

/// A command and its number, which indexes the counters.
pub struct Command {
    /// Index into [`crate::state::State::command_stats`].
    pub id: usize,
    /// The row of the table.
    pub spec: &'static Spec,
    /// Subcommands, each with a number of its own.
    pub subcommands: Vec<Command>,
}

/// All commands, with a hash table over their names.
pub struct Table {
    commands: Vec<Command>,
    slots: Vec<u16>,
    size: usize,
}

const EMPTY: u16 = u16::MAX;
const NAME_BYTES_MAX: usize = 32;

/// The table.
pub static TABLE: LazyLock<Table> = LazyLock::new(Table::build);

impl Table {
    fn build() -> Table {
        let mut size = 0;
        let mut commands = Vec::new();
        for spec in FAMILIES.iter().copied().flatten() {
            let mut number = || {
                size += 1;
                size - 1
            };
            let id = number();
            let subcommands =
                spec.subcommands.iter().map(|spec| Command { id: number(), spec, subcommands: Vec::new() }).collect();
            commands.push(Command { id, spec, subcommands });
        }
        let mut slots = vec![EMPTY; (commands.len() * 4).next_power_of_two()];
        for (index, command) in commands.iter().enumerate() {
            let mut slot = hash(command.spec.name.as_bytes()) as usize & (slots.len() - 1);
            while slots[slot] != EMPTY {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = index as u16;
        }
        Table { commands, slots, size }
    }

    /// Number of commands and subcommands.
    pub fn size(&self) -> usize {
        self.size
    }

    /// All commands, without their subcommands.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// The command called `name`, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut slot = hash(name) as usize & (self.slots.len() - 1);
        loop {
            let command = self.commands.get(self.slots[slot] as usize)?;
            if command.spec.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// The command or `container|sub` named by the front of `args`, for COMMAND INFO and its kin.
    pub fn find_full(&self, name: &[u8]) -> Option<&Command> {
        let Some(bar) = name.iter().position(|&b| b == b'|') else { return self.find(name) };
        self.find(&name[..bar])?.subcommand(&name[bar + 1..])
    }
}

impl Command {
    /// The subcommand called `name`, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Command> {
        let prefix = self.spec.name.len() + 1;
        self.subcommands.iter().find(|sub| sub.spec.name.as_bytes()[prefix..].eq_ignore_ascii_case(name))
    }
}

/// FNV-1a over letters of either case: names are few and short, and chosen by us.
#[inline]
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811C_9DC5, |hash: u32, &byte| (hash ^ (byte | 0x20) as u32).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for command in TABLE.commands() {
            let found = TABLE.find(command.spec.name.to_ascii_uppercase().as_bytes()).unwrap();
            assert_eq!(found.spec.name, command.spec.name);
            for sub in &command.subcommands {
                let found = TABLE.find_full(sub.spec.name.as_bytes()).unwrap();
                assert_eq!(found.id, sub.id);
            }
        }
        assert!(TABLE.find(b"nosuch").is_none());
        assert!(TABLE.find(&[b'x'; 100]).is_none());
    }

    #[test]
    fn every_row_is_documented() {
        let all = TABLE.commands().iter().flat_map(|c| std::iter::once(c).chain(&c.subcommands));
        for command in all {
            let spec = command.spec;
            assert!(!spec.summary.is_empty() && !spec.since.is_empty(), "{} lacks its documentation", spec.name);
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
        }
    }
}
