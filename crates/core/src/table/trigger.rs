//! Triggers as the catalog keeps them: what fires them, and the routine that they call.
//!
//! A routine is named, not bound: what a name means is decided when the trigger fires, so a library can be replaced.

use super::catalog::TableId;
use crate::value::codec::{self, Decoded, Malformed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerDef {
    /// Its name as written; compared without case.
    pub name: String,
    /// Grows with each trigger made: those that one thing fires are called in this order.
    pub number: u64,
    /// The function that it calls.
    pub routine: String,
    /// What fires it.
    pub fires: Fires,
}

/// What fires a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fires {
    /// A row of a table is written.
    Rows(OnRows),
    /// Something happens to a key.
    Keys(OnKeys),
}

/// The rows that fire a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRows {
    /// Their table.
    pub table: TableId,
    /// Before or after they are written.
    pub timing: Timing,
    /// What is done to them.
    pub event: RowEvent,
    /// UPDATE OF: positions of columns of which one must be set; empty: any.
    pub columns: Vec<u16>,
    /// WHEN, as SQL text.
    pub condition: Option<String>,
}

/// The keys that fire a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnKeys {
    /// The pattern of their names, as that of KEYS.
    pub pattern: String,
    /// The events, by the names that notifications give them; empty: all but misses and `new`.
    pub events: Vec<String>,
}

/// When a trigger of rows is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Before the row is judged and written; it may change the row.
    Before,
    /// When the row is written.
    After,
}

/// What is done to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEvent {
    /// It is new.
    Insert,
    /// It is replaced by another under the same id.
    Update,
    /// It goes.
    Delete,
}

impl Timing {
    /// The word of SQL.
    pub fn word(self) -> &'static str {
        if self == Timing::Before { "BEFORE" } else { "AFTER" }
    }
}

impl RowEvent {
    /// The word of SQL.
    pub fn word(self) -> &'static str {
        match self {
            RowEvent::Insert => "INSERT",
            RowEvent::Update => "UPDATE",
            RowEvent::Delete => "DELETE",
        }
    }
}

/// The first byte of a trigger's encoding; another one means another format.
const FORMAT: u8 = 1;

impl TriggerDef {
    /// The rows that fire it, if rows do.
    pub fn rows(&self) -> Option<&OnRows> {
        match &self.fires {
            Fires::Rows(rows) => Some(rows),
            Fires::Keys(_) => None,
        }
    }

    /// The keys that fire it, if keys do.
    pub fn keys(&self) -> Option<&OnKeys> {
        match &self.fires {
            Fires::Keys(keys) => Some(keys),
            Fires::Rows(_) => None,
        }
    }

    /// Appends the deterministic encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        codec::put_bytes(out, self.name.as_bytes());
        codec::put_number(out, self.number);
        codec::put_bytes(out, self.routine.as_bytes());
        match &self.fires {
            Fires::Rows(rows) => {
                out.extend([0, rows.timing as u8, rows.event as u8]);
                codec::put_number(out, rows.table.0.into());
                codec::put_number(out, rows.columns.len() as u64);
                rows.columns.iter().for_each(|position| codec::put_number(out, (*position).into()));
                out.push(rows.condition.is_some().into());
                rows.condition.iter().for_each(|text| codec::put_bytes(out, text.as_bytes()));
            }
            Fires::Keys(keys) => {
                out.push(1);
                codec::put_bytes(out, keys.pattern.as_bytes());
                codec::put_number(out, keys.events.len() as u64);
                keys.events.iter().for_each(|event| codec::put_bytes(out, event.as_bytes()));
            }
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<TriggerDef> {
        if codec::take_byte(input)? != FORMAT {
            return Err(Malformed("a trigger of another format"));
        }
        let (name, number, routine) = (take_text(input)?, codec::take_number(input)?, take_text(input)?);
        let fires = match codec::take_byte(input)? {
            0 => Fires::Rows(OnRows::decode(input)?),
            1 => Fires::Keys(OnKeys { pattern: take_text(input)?, events: take_texts(input)? }),
            _ => return Err(Malformed("a trigger of neither rows nor keys")),
        };
        Ok(TriggerDef { name, number, routine, fires })
    }
}

impl OnRows {
    fn decode(input: &mut &[u8]) -> Decoded<OnRows> {
        let timing = match codec::take_byte(input)? {
            0 => Timing::Before,
            1 => Timing::After,
            _ => return Err(Malformed("neither before nor after")),
        };
        let event = match codec::take_byte(input)? {
            0 => RowEvent::Insert,
            1 => RowEvent::Update,
            2 => RowEvent::Delete,
            _ => return Err(Malformed("neither an insertion, an update nor a deletion")),
        };
        let table = u32::try_from(codec::take_number(input)?).map_err(|_| Malformed("no such table"))?;
        let mut columns = Vec::new();
        for _ in 0..codec::take_count(input)? {
            columns.push(u16::try_from(codec::take_number(input)?).map_err(|_| Malformed("no such column"))?);
        }
        let condition = match codec::take_byte(input)? {
            0 => None,
            1 => Some(take_text(input)?),
            _ => return Err(Malformed("neither a condition nor none")),
        };
        Ok(OnRows { table: TableId(table), timing, event, columns, condition })
    }
}

/// Takes a text.
pub fn take_text(input: &mut &[u8]) -> Decoded<String> {
    let text = std::str::from_utf8(codec::take_bytes(input)?).map_err(|_| Malformed("a text that is not UTF-8"))?;
    Ok(text.to_string())
}

fn take_texts(input: &mut &[u8]) -> Decoded<Vec<String>> {
    let mut texts = Vec::new();
    for _ in 0..codec::take_count(input)? {
        texts.push(take_text(input)?);
    }
    Ok(texts)
}

/// All triggers.
#[derive(Clone, Debug, Default)]
pub struct Triggers {
    version: u64,
    by_name: BTreeMap<String, Arc<TriggerDef>>,
    /// How many there are of rows; the others are of keys.
    of_rows: usize,
}

impl PartialEq for Triggers {
    fn eq(&self, other: &Self) -> bool {
        self.by_name == other.by_name
    }
}

impl Triggers {
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

    /// Is there any that rows fire?
    #[inline]
    pub fn has_rows(&self) -> bool {
        self.of_rows > 0
    }

    /// Is there any that keys fire?
    #[inline]
    pub fn has_keys(&self) -> bool {
        self.by_name.len() > self.of_rows
    }

    /// The trigger of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<TriggerDef>> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TriggerDef>> {
        self.by_name.values()
    }

    /// Those that rows of a table fire, in the order in which they were made.
    pub fn of_table(&self, table: TableId) -> Vec<Arc<TriggerDef>> {
        self.ordered(|trigger| trigger.rows().is_some_and(|rows| rows.table == table))
    }

    /// Those that keys fire, in the order in which they were made.
    pub fn of_keys(&self) -> Vec<Arc<TriggerDef>> {
        self.ordered(|trigger| trigger.keys().is_some())
    }

    fn ordered(&self, wanted: impl Fn(&TriggerDef) -> bool) -> Vec<Arc<TriggerDef>> {
        let mut found: Vec<_> = self.iter().filter(|trigger| wanted(trigger)).cloned().collect();
        found.sort_by_key(|trigger| trigger.number);
        found
    }

    /// The number of the next trigger to be made.
    pub fn next_number(&self) -> u64 {
        self.iter().map(|trigger| trigger.number).max().unwrap_or(0) + 1
    }

    /// Adds a trigger in the place of the one with its name, and gives that one.
    pub fn put(&mut self, trigger: Arc<TriggerDef>) -> Option<Arc<TriggerDef>> {
        let before = self.remove(&trigger.name);
        self.of_rows += usize::from(trigger.rows().is_some());
        self.by_name.insert(trigger.name.to_ascii_lowercase(), trigger);
        self.version += 1;
        before
    }

    /// Removes a trigger.
    pub fn remove(&mut self, name: &str) -> Option<Arc<TriggerDef>> {
        let removed = self.by_name.remove(&name.to_ascii_lowercase())?;
        self.of_rows -= usize::from(removed.rows().is_some());
        self.version += 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_rows(name: &str, number: u64, table: u32) -> Arc<TriggerDef> {
        let condition = number.is_multiple_of(2).then(|| "NEW.a > 1".to_string());
        let columns = if number.is_multiple_of(2) { vec![0, 300] } else { Vec::new() };
        let (timing, event) = (Timing::After, RowEvent::Update);
        let rows = OnRows { table: TableId(table), timing, event, columns, condition };
        Arc::new(TriggerDef { name: name.into(), number, routine: "f".into(), fires: Fires::Rows(rows) })
    }

    fn on_keys(name: &str, number: u64) -> Arc<TriggerDef> {
        let keys = OnKeys { pattern: "user:*".into(), events: vec!["set".into(), "expired".into()] };
        Arc::new(TriggerDef { name: name.into(), number, routine: "g".into(), fires: Fires::Keys(keys) })
    }

    #[test]
    fn a_trigger_reads_back_and_a_part_of_it_does_not() {
        for trigger in [on_rows("Audit", 1, 7), on_rows("b", 2, 1 << 20), on_keys("k", 3)] {
            let mut bytes = Vec::new();
            trigger.encode(&mut bytes);
            assert_eq!(Ok((*trigger).clone()), TriggerDef::decode(&mut &bytes[..]));
            for cut in 0..bytes.len() {
                assert!(TriggerDef::decode(&mut &bytes[..cut]).is_err(), "{cut}");
            }
            for at in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[at] = 0xFF;
                let _ = TriggerDef::decode(&mut &wrong[..]);
            }
        }
    }

    #[test]
    fn triggers_are_told_apart_and_keep_the_order_of_their_making() {
        let mut triggers = Triggers::default();
        assert!(!triggers.has_rows() && !triggers.has_keys());
        triggers.put(on_rows("z", 1, 1));
        triggers.put(on_rows("a", 2, 1));
        triggers.put(on_rows("m", 3, 2));
        assert!(triggers.has_rows() && !triggers.has_keys());
        triggers.put(on_keys("k", 4));
        assert!(triggers.has_keys());
        let names = |list: Vec<Arc<TriggerDef>>| list.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
        assert_eq!(vec!["z", "a"], names(triggers.of_table(TableId(1))));
        assert_eq!(vec!["k"], names(triggers.of_keys()));
        assert_eq!(5, triggers.next_number());
        let version = triggers.version();
        assert_eq!(Some(on_rows("z", 1, 1)), triggers.put(on_keys("Z", 5)));
        assert!(triggers.version() > version);
        assert!(["a", "M"].iter().all(|name| triggers.remove(name).is_some()));
        assert!(!triggers.has_rows() && triggers.has_keys());
        assert_eq!(None, triggers.remove("m"));
    }
}
