//! CREATE SCHEDULE.

use super::Ddl;
use super::parser::Parser;
use crate::error::{Code, Error, Result};
use crate::limits;

/// `CREATE SCHEDULE [IF NOT EXISTS] name EVERY n unit CALL routine [WITH (argument, ...)]`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSchedule {
    /// The schedule's name.
    pub name: String,
    /// An existing schedule of the name is no error.
    pub if_not_exists: bool,
    /// Milliseconds from one call to the next.
    pub every_ms: u64,
    /// The function that it calls.
    pub routine: String,
    /// What it gives the function.
    pub arguments: Vec<String>,
}

/// Units of time and their milliseconds.
const UNITS: [(&str, u64); 10] = [
    ("MILLISECONDS", 1),
    ("MILLISECOND", 1),
    ("SECONDS", 1000),
    ("SECOND", 1000),
    ("MINUTES", 60_000),
    ("MINUTE", 60_000),
    ("HOURS", 3_600_000),
    ("HOUR", 3_600_000),
    ("DAYS", 86_400_000),
    ("DAY", 86_400_000),
];

impl Parser<'_> {
    /// What follows CREATE SCHEDULE.
    pub(super) fn create_schedule(&mut self) -> Result<Ddl> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("a schedule's name")?;
        self.word("EVERY")?;
        let every_ms = self.period()?;
        let routine = self.call()?;
        let mut arguments = Vec::new();
        if self.take("WITH") {
            self.symbol("(", "'(' and arguments")?;
            loop {
                arguments.push(self.argument()?);
                if !self.take_symbol(",") {
                    break;
                }
            }
            self.symbol(")", "',' or ')'")?;
        }
        Ok(Ddl::CreateSchedule(CreateSchedule { name, if_not_exists, every_ms, routine, arguments }))
    }

    /// `n unit`, or a unit alone.
    fn period(&mut self) -> Result<u64> {
        let count = match self.integer() {
            Some(count) => count?,
            None => 1,
        };
        let unit = UNITS.iter().find(|(word, _)| self.take(word));
        let Some((_, ms)) = unit else {
            return Err(self.expected("a number and MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"));
        };
        let every_ms = count.checked_mul(*ms).filter(|ms| *ms <= limits::SCHEDULE_MS_MAX);
        match every_ms {
            Some(every_ms) if every_ms >= limits::SCHEDULE_MS_MIN => Ok(every_ms),
            _ => {
                let text = format!(
                    "a schedule's period is from {} milliseconds to {} days",
                    limits::SCHEDULE_MS_MIN,
                    limits::SCHEDULE_MS_MAX / 86_400_000
                );
                Err(Error::new(Code::Limit, text))
            }
        }
    }

    /// A text or a number, as the function gets it.
    fn argument(&mut self) -> Result<String> {
        let sign = if self.take_symbol("-") { "-" } else { "" };
        match self.number() {
            Some(number) => Ok(format!("{sign}{number}")),
            None if sign.is_empty() => self.text("an argument: a text in quotes, or a number"),
            None => Err(self.expected("a number")),
        }
    }
}
