//! Where the keys of a request stand among its arguments, and what the command does with each: the key specifications
//! that COMMAND INFO shows and COMMAND GETKEYS follows.

use crate::ds::number;
use bitflags::bitflags;

bitflags! {
    /// What a command does with a key. One of the first four says whether it reads or writes the key at all; the others
    /// say what of the user's data moves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Use: u16 {
        /// Reads the key.
        const RO = 1;
        /// Reads and writes it.
        const RW = 1 << 1;
        /// Overwrites it, whatever it held.
        const OW = 1 << 2;
        /// Removes it.
        const RM = 1 << 3;
        /// Gives, copies or compares what the key holds.
        const ACCESS = 1 << 4;
        /// Changes what it holds.
        const UPDATE = 1 << 5;
        /// Adds to it, and changes nothing that is there.
        const INSERT = 1 << 6;
        /// Removes from it.
        const DELETE = 1 << 7;
        /// Is no key, but belongs to a slot as keys do: a shard channel.
        const NOT_KEY = 1 << 8;
        /// Depends on the other arguments.
        const VARIABLE = 1 << 9;

        /// Looks at the key but not at its content: EXISTS, STRLEN.
        const LOOK = Self::RO.bits();
        /// GET.
        const READ = Self::RO.bits() | Self::ACCESS.bits();
        /// RPUSH.
        const GROW = Self::RW.bits() | Self::INSERT.bits();
        /// HSET.
        const CHANGE = Self::RW.bits() | Self::UPDATE.bits();
        /// INCR, which tells what it changed.
        const READ_CHANGE = Self::RW.bits() | Self::ACCESS.bits() | Self::UPDATE.bits();
        /// HDEL.
        const SHRINK = Self::RW.bits() | Self::DELETE.bits();
        /// LPOP.
        const TAKE = Self::RW.bits() | Self::ACCESS.bits() | Self::DELETE.bits();
        /// SETEX.
        const REPLACE = Self::OW.bits() | Self::UPDATE.bits();
        /// SETNX.
        const CREATE = Self::OW.bits() | Self::INSERT.bits();
        /// DEL.
        const REMOVE = Self::RM.bits() | Self::DELETE.bits();
    }
}

/// The names of uses, in the order in which COMMAND INFO shows them.
const USE_NAMES: [(Use, &str); 10] = [
    (Use::RO, "RO"),
    (Use::RW, "RW"),
    (Use::OW, "OW"),
    (Use::RM, "RM"),
    (Use::ACCESS, "access"),
    (Use::UPDATE, "update"),
    (Use::INSERT, "insert"),
    (Use::DELETE, "delete"),
    (Use::NOT_KEY, "not_key"),
    (Use::VARIABLE, "variable_flags"),
];

impl Use {
    /// The names of what is set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        USE_NAMES.iter().filter(move |(one, _)| self.contains(*one)).map(|(_, name)| *name)
    }
}

/// How keys follow from the position where they begin.
#[derive(Clone, Copy)]
pub enum Find {
    /// Every `step` up to `last`: 0 is the beginning itself, 1 the next argument, -1 the last of all.
    Range {
        /// Where the last one is.
        last: i32,
        /// Distance between keys.
        step: i32,
    },
    /// At the beginning is their number, then they follow.
    Counted {
        /// How many there must be.
        at_least: usize,
    },
    /// At no position that one could name; the function finds the one that is named outright, if any.
    Anywhere(fn(&[&[u8]]) -> Option<usize>),
}

/// Tells from a request's arguments how its keys are used.
type UseOf = fn(&[&[u8]]) -> Use;

/// Keys of a request that are used alike.
#[derive(Clone, Copy)]
pub struct KeySpec {
    /// What is done with them.
    pub uses: Use,
    /// Where they begin.
    pub first: usize,
    /// How they go on.
    pub find: Find,
    /// What is really done, when it depends on the arguments.
    actual: Option<UseOf>,
}

/// The most kinds of keys that one command has.
const SPECS_MAX: usize = 3;

/// The keys of a command: none, or one to three specifications.
#[derive(Clone, Copy)]
pub struct Keys {
    specs: [Option<KeySpec>; SPECS_MAX],
}

/// A key's position among the arguments, and what is done with it.
pub type Position = (usize, Use);

#[allow(non_upper_case_globals)] // reads as the variant of an enum, among whose constructors it stands
impl Keys {
    /// It has none.
    pub const None: Keys = Keys { specs: [None; SPECS_MAX] };

    /// The first argument.
    pub const fn one(uses: Use) -> Keys {
        Keys::None.and(uses, 1, Find::Range { last: 0, step: 1 })
    }

    /// The argument of a subcommand.
    pub const fn of_subcommand(uses: Use) -> Keys {
        Keys::None.and(uses, 2, Find::Range { last: 0, step: 1 })
    }

    /// The first two arguments.
    pub const fn two(first: Use, second: Use) -> Keys {
        Keys::one(first).and(second, 2, Find::Range { last: 0, step: 1 })
    }

    /// All arguments.
    pub const fn all(uses: Use) -> Keys {
        Keys::None.and_rest(uses, 1)
    }

    /// All arguments but the last.
    pub const fn all_but_last(uses: Use) -> Keys {
        Keys::None.and(uses, 1, Find::Range { last: -2, step: 1 })
    }

    /// Every other argument, from the first.
    pub const fn pairs(uses: Use) -> Keys {
        Keys::None.and(uses, 1, Find::Range { last: -1, step: 2 })
    }

    /// The argument at `at` is the number of keys that follow it.
    pub const fn counted(uses: Use, at: usize) -> Keys {
        Keys::None.and_counted(uses, at)
    }

    /// And those that begin at `first`.
    pub const fn and(mut self, uses: Use, first: usize, find: Find) -> Keys {
        let mut at = 0;
        while self.specs[at].is_some() {
            at += 1;
        }
        self.specs[at] = Some(KeySpec { uses, first, find, actual: None });
        self
    }

    /// And all arguments from `first` on.
    pub const fn and_rest(self, uses: Use, first: usize) -> Keys {
        self.and(uses, first, Find::Range { last: -1, step: 1 })
    }

    /// And those counted by the argument at `at`.
    pub const fn and_counted(self, uses: Use, at: usize) -> Keys {
        self.and(uses, at, Find::Counted { at_least: 1 })
    }

    /// What is done with the first keys depends on the arguments.
    pub const fn depending(mut self, actual: fn(&[&[u8]]) -> Use) -> Keys {
        if let Some(spec) = &mut self.specs[0] {
            spec.uses = spec.uses.union(Use::VARIABLE);
            spec.actual = Some(actual);
        }
        self
    }

    /// The specifications.
    pub fn specs(&self) -> impl Iterator<Item = &KeySpec> {
        self.specs.iter().flatten()
    }

    /// True when some are keys and not, say, channels.
    pub fn has_keys(&self) -> bool {
        self.specs().any(|spec| !spec.uses.contains(Use::NOT_KEY))
    }

    /// Where the first key of any request stands.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        match self.specs[0] {
            Some(KeySpec { first, find: Find::Range { .. }, .. }) => Some(first),
            Some(KeySpec { first, find: Find::Counted { .. }, .. }) => Some(first + 1),
            _ => None,
        }
    }

    /// The keys of a request, or None when its arguments make no sense.
    pub fn positions(&self, args: &[&[u8]]) -> Option<Vec<Position>> {
        let mut positions = Vec::new();
        for spec in self.specs().filter(|spec| !spec.uses.contains(Use::NOT_KEY)) {
            let uses = spec.actual.map_or(spec.uses, |actual| actual(args));
            spec.find(args)?.for_each(|at| positions.push((at, uses)));
        }
        Some(positions)
    }

    /// First, last and step, by which commands told their keys before there were specifications, and whether that is
    /// not all of them.
    pub fn legacy_range(&self) -> ((i32, i32, i32), bool) {
        let (mut whole, mut is_partial) = (None, false);
        for spec in self.specs() {
            let first = spec.first as i32;
            let Find::Range { last, step } = spec.find else {
                is_partial = true;
                continue;
            };
            let last = if last < 0 { last } else { first + last };
            match whole {
                None => whole = Some((first, last, step)),
                // It goes on where the other ends.
                Some((start, end, 1)) if step == 1 && end == first - 1 => whole = Some((start, last, 1)),
                Some(_) => is_partial = true,
            }
        }
        (whole.unwrap_or_default(), is_partial)
    }
}

impl KeySpec {
    /// The positions of its keys.
    fn find(&self, args: &[&[u8]]) -> Option<std::iter::StepBy<std::ops::Range<usize>>> {
        let (range, step) = match self.find {
            Find::Range { last, step } => {
                let last = if last < 0 { args.len() as i32 + last } else { self.first as i32 + last };
                // Of a request that is too short to have them, none.
                (self.first..(last + 1).clamp(0, args.len() as i32) as usize, step)
            }
            Find::Counted { at_least } => {
                let count = usize::try_from(number::parse_i64(args.get(self.first)?)?).ok()?;
                if count < at_least || count > args.len() - self.first - 1 {
                    return None;
                }
                (self.first + 1..self.first + 1 + count, 1)
            }
            Find::Anywhere(find) => find(args).map_or((0..0, 1), |at| (at..at + 1, 1)),
        };
        Some(range.step_by(step as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(keys: Keys, request: &str) -> Option<Vec<usize>> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        Some(keys.positions(&args)?.into_iter().map(|(at, _)| at).collect())
    }

    #[test]
    fn keys_are_found_by_range_and_by_number() {
        assert_eq!(Some(vec![1]), positions(Keys::one(Use::READ), "GET a b"));
        assert_eq!(Some(vec![]), positions(Keys::all(Use::READ), "MGET"));
        assert_eq!(Some(vec![1, 2]), positions(Keys::all_but_last(Use::TAKE), "BLPOP a b 0"));
        assert_eq!(Some(vec![1, 3]), positions(Keys::pairs(Use::REPLACE), "MSET a 1 b 2"));
        let store = Keys::one(Use::REPLACE).and_counted(Use::READ, 2);
        assert_eq!(Some(vec![1, 3, 4]), positions(store, "ZUNIONSTORE d 2 a b WEIGHTS 1 2"));
        for wrong in
            ["ZUNIONSTORE d 3 a b", "ZUNIONSTORE d 0 a", "ZUNIONSTORE d x a", "ZUNIONSTORE d -1 a", "ZUNIONSTORE d"]
        {
            assert_eq!(None, positions(store, wrong), "{wrong}");
        }
        let script = Keys::None.and(Use::READ_CHANGE, 2, Find::Counted { at_least: 0 });
        assert_eq!(Some(vec![]), positions(script, "EVAL script 0 a"));
    }

    #[test]
    fn the_legacy_range_joins_neighbours_and_tells_when_it_is_not_all() {
        assert_eq!(((1, 2, 1), false), Keys::two(Use::TAKE, Use::GROW).legacy_range());
        assert_eq!(((1, -1, 1), false), Keys::one(Use::REPLACE).and_rest(Use::READ, 2).legacy_range());
        assert_eq!(((0, 0, 0), true), Keys::counted(Use::READ, 1).legacy_range());
        assert_eq!(((1, 1, 1), true), Keys::one(Use::REPLACE).and_counted(Use::READ, 2).legacy_range());
    }
}
