//! Schedules as the catalog keeps them: which routine is called how often, and with what.

use super::trigger::take_text;
use crate::value::codec::{self, Decoded, Malformed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A routine that is called again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleDef {
    /// Its name as written; compared without case.
    pub name: String,
    /// Milliseconds from one call to the next.
    pub every_ms: u64,
    /// The function that it calls.
    pub routine: String,
    /// What it gives the function.
    pub arguments: Vec<Box<[u8]>>,
}

/// The first byte of a schedule's encoding; another one means another format.
const FORMAT: u8 = 1;

impl ScheduleDef {
    /// Appends the deterministic encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        codec::put_bytes(out, self.name.as_bytes());
        codec::put_number(out, self.every_ms);
        codec::put_bytes(out, self.routine.as_bytes());
        codec::put_number(out, self.arguments.len() as u64);
        self.arguments.iter().for_each(|argument| codec::put_bytes(out, argument));
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<ScheduleDef> {
        if codec::take_byte(input)? != FORMAT {
            return Err(Malformed("a schedule of another format"));
        }
        let (name, every_ms, routine) = (take_text(input)?, codec::take_number(input)?, take_text(input)?);
        let mut arguments = Vec::new();
        for _ in 0..codec::take_count(input)? {
            arguments.push(codec::take_bytes(input)?.into());
        }
        Ok(ScheduleDef { name, every_ms, routine, arguments })
    }
}

/// All schedules.
#[derive(Clone, Debug, Default)]
pub struct Schedules {
    version: u64,
    by_name: BTreeMap<String, Arc<ScheduleDef>>,
}

impl PartialEq for Schedules {
    fn eq(&self, other: &Self) -> bool {
        self.by_name == other.by_name
    }
}

impl Schedules {
    /// Grows at each change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The schedule of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ScheduleDef>> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ScheduleDef>> {
        self.by_name.values()
    }

    /// Adds a schedule in the place of the one with its name, and gives that one.
    pub fn put(&mut self, schedule: Arc<ScheduleDef>) -> Option<Arc<ScheduleDef>> {
        self.version += 1;
        self.by_name.insert(schedule.name.to_ascii_lowercase(), schedule)
    }

    /// Removes a schedule.
    pub fn remove(&mut self, name: &str) -> Option<Arc<ScheduleDef>> {
        let removed = self.by_name.remove(&name.to_ascii_lowercase())?;
        self.version += 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_reads_back_and_a_part_of_it_does_not() {
        let arguments = vec![b"a".as_slice().into(), b"\xFF".as_slice().into()];
        let schedule = ScheduleDef { name: "Tidy".into(), every_ms: 60_000, routine: "tidy".into(), arguments };
        let mut bytes = Vec::new();
        schedule.encode(&mut bytes);
        assert_eq!(Ok(schedule.clone()), ScheduleDef::decode(&mut &bytes[..]));
        for cut in 0..bytes.len() {
            assert!(ScheduleDef::decode(&mut &bytes[..cut]).is_err(), "{cut}");
        }
        let mut schedules = Schedules::default();
        assert_eq!(None, schedules.put(Arc::new(schedule.clone())));
        assert_eq!(Some(&Arc::new(schedule)), schedules.get("TIDY"));
        assert!(schedules.remove("tidy").is_some() && schedules.is_empty());
    }
}
