//! The command table: every command by name, put together from the families' own lists.

use super::spec::Spec;
use super::{
    bitmap, call, client, cluster, commands, config, connection, debug, expire, function, hash, info, key, list,
    pubsub, records, save, script, server, set, sort, sql, string, transact, transaction, zset, zset_algebra,
    zset_range,
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
    function::COMMANDS,
    call::COMMANDS,
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
    /// The words of the commands' names.
    words: Vec<u64>,
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
            let mut slot = hash(word(command.spec.name.as_bytes())) & (slots.len() - 1);
            while slots[slot] != EMPTY {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = index as u16;
        }
        let words = commands.iter().map(|command| word(command.spec.name.as_bytes())).collect();
        Table { commands, slots, words, size }
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
        let word = word(name);
        let mut slot = hash(word) & (self.slots.len() - 1);
        loop {
            let index = self.slots[slot] as usize;
            let command = self.commands.get(index)?;
            // The word is all of a short name.
            let is_it = || name.len() <= 8 || command.spec.name.as_bytes().eq_ignore_ascii_case(name);
            if self.words[index] == word && command.spec.name.len() == name.len() && is_it() {
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

/// The bytes of a name of up to eight, the first and the last four of a longer one, with small letters: no name is read
/// byte by byte, as each request looks for one.
#[inline]
fn word(name: &[u8]) -> u64 {
    let bytes = match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => name.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    with_small_letters(bytes)
}

/// Eight bytes with those of `A` to `Z` made small.
#[inline]
fn with_small_letters(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7F * EACH);
    // The top bit of a byte says that it is at least `A`, and that it is above `Z`.
    let (from_a, above_z) = (low + (0x80 - b'A' as u64) * EACH, low + (0x7F - b'Z' as u64) * EACH);
    let is_capital = (from_a ^ above_z) & !word & (0x80 * EACH);
    word | is_capital >> 2
}

/// Names are few and short, and chosen by us.
#[inline]
fn hash(word: u64) -> usize {
    (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capitals_become_small() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                let word = u64::from(byte) << (8 * place) | (u64::from(b'Q') << (8 * ((place + 1) % 8)));
                assert_eq!(word.to_le_bytes().to_ascii_lowercase(), with_small_letters(word).to_le_bytes());
            }
        }
    }

    #[test]
    fn a_name_that_is_no_command_s_is_not_found() {
        for command in TABLE.commands() {
            let name = command.spec.name.as_bytes();
            for at in 0..name.len() {
                for byte in [0, 0x0E, b'@', b'[', b'`', b'{', 0xFF, name[at] ^ 0x40, name[at] | 0x80] {
                    let mut other = name.to_vec();
                    other[at] = byte;
                    assert!(TABLE.find(&other).is_none_or(|found| found.spec.name.as_bytes() != name));
                    assert_eq!(
                        TABLE.find(&other).is_some(),
                        TABLE.commands().iter().any(|c| c.spec.name.as_bytes().eq_ignore_ascii_case(&other))
                    );
                }
            }
            assert!(TABLE.find(&[name, b"x"].concat()).is_none_or(|found| found.spec.name.len() > name.len()));
            assert!(TABLE.find(&name[1..]).is_none_or(|found| found.spec.name.len() < name.len()));
        }
        assert!(TABLE.find(b"").is_none() && TABLE.find(&[b'x'; 40]).is_none());
    }

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
