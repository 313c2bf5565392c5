//! Splits a writing statement into what SQLite runs and the clauses that are ours, by tokens alone.
//!
//! SQLite refuses ON CONFLICT, RETURNING and ORDER BY / LIMIT of UPDATE and DELETE on virtual tables, and knows neither
//! MySQL's spellings nor STORE INTO. Those are cut off or rewritten here. What is left of the text keeps its order, so
//! parameters keep their numbers.

use super::text::{Rewrite, Script};
use crate::error::{Code, Error, Result};
use crate::sql::error::{not_yet, sql, syntax};
use crate::sql::origin::Origin;
use crate::sql::run::Shape;
use std::ops::Range;

/// Places of tokens.
pub type Span = Range<usize>;

/// A statement with clauses of ours.
#[derive(Debug, PartialEq)]
pub struct Form {
    /// What SQLite runs.
    pub main: String,
    /// Where that comes from.
    pub origin: Origin,
    /// The table that is written, as the statement names it; None when rows are only read.
    pub table: Option<Target>,
    /// ON CONFLICT and ON DUPLICATE KEY clauses, in their order.
    pub upserts: Vec<UpsertClause>,
    /// What the proposed row is called in them.
    pub proposed: Proposed,
    /// The expressions of RETURNING.
    pub returning: Option<Span>,
    /// STORE INTO.
    pub store: Option<StoreClause>,
    /// DELETE FROM keys.
    pub keys: Option<DeleteKeys>,
}

/// How keys are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteKeys {
    /// In slices: each key is judged by itself.
    Sliced,
    /// At once: their order or number matters, or other keys do.
    AtOnce,
}

/// The table that a statement writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its name in the statement, if it has another one.
    pub alias: Option<String>,
}

/// How an upsert names the row that could not be inserted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposed {
    /// MySQL's `AS new`, besides `excluded`.
    pub alias: Option<String>,
    /// MySQL's `AS new (m, n)`.
    pub columns: Vec<String>,
}

/// ON CONFLICT or ON DUPLICATE KEY.
#[derive(Debug, PartialEq)]
pub struct UpsertClause {
    /// The tokens between the parentheses of the target; None: any unique key.
    pub target: Option<Span>,
    /// The condition of the target, for a partial index.
    pub target_where: Option<Span>,
    /// What to do; None is DO NOTHING.
    pub update: Option<SetClause>,
}

/// SET .. [WHERE ..]
#[derive(Debug, PartialEq)]
pub struct SetClause {
    /// The assignments.
    pub items: Vec<Span>,
    /// Update only rows for which this holds.
    pub condition: Option<Span>,
}

/// STORE INTO type key
#[derive(Debug, PartialEq)]
pub struct StoreClause {
    /// The type of the key.
    pub shape: Shape,
    /// The token of the key: a text or a parameter.
    pub key: usize,
}

/// What kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Delete,
    Select,
}

/// Splits a statement; None: SQLite can have it as it is.
pub fn split(script: &Script<'_>) -> Result<Option<Form>> {
    let Some((at, verb)) = main_verb(script) else { return Ok(None) };
    let splitter = Splitter { script, verb: at };
    match verb {
        Verb::Insert => splitter.insert(),
        Verb::Update => splitter.update(),
        Verb::Delete => splitter.delete(),
        Verb::Select => splitter.select(),
    }
}

/// The statement's own verb: its first token, or the first one outside of parentheses after WITH.
fn main_verb(script: &Script<'_>) -> Option<(usize, Verb)> {
    let verb = |at: usize| {
        let word = |words: &[&str]| words.iter().any(|word| script.is_word(at, word));
        match () {
            () if word(&["INSERT", "REPLACE"]) => Some(Verb::Insert),
            () if word(&["UPDATE"]) => Some(Verb::Update),
            () if word(&["DELETE"]) => Some(Verb::Delete),
            () if word(&["SELECT", "VALUES"]) => Some(Verb::Select),
            () => None,
        }
    };
    let tokens = 0..script.count();
    let mut outside = if script.is_word(0, "WITH") { tokens } else { 0..1 }.filter(|at| script.depth(*at) == 0);
    outside.find_map(|at| Some((at, verb(at)?)))
}

struct Splitter<'s, 't> {
    script: &'s Script<'t>,
    /// The token of the verb.
    verb: usize,
}

impl Splitter<'_, '_> {
    fn word(&self, at: usize, word: &str) -> bool {
        self.script.is_word(at, word)
    }

    /// The first of these words outside of parentheses, from a token on.
    fn find(&self, from: usize, to: usize, word: &str) -> Option<usize> {
        (from..to).find(|at| self.script.depth(*at) == 0 && self.word(*at, word))
    }

    fn end(&self) -> usize {
        self.script.count()
    }

    fn expected(&self, at: usize, what: &str) -> Error {
        let found = self.script.token(at).map_or("the end".to_string(), |token| token.text.to_string());
        syntax(self.script.text(), self.script.start(at), format!("expected {what}, found {found}"))
    }

    /// `[OR x]`, or MySQL's IGNORE, which is rewritten. OR FAIL is refused.
    fn conflict_clause(&self, at: usize, rewrite: &mut Rewrite) -> Result<usize> {
        if self.word(at, "OR") {
            if self.word(at + 1, "FAIL") {
                return Err(sql("OR FAIL would keep the rows before the one that fails, and here a statement that \
                                fails leaves nothing behind: use OR ABORT, OR IGNORE or OR REPLACE"));
            }
            return Ok(at + 2);
        }
        if self.word(at, "IGNORE") && !self.script.is_symbol(at + 1, ".") {
            rewrite.replace(at..at + 1, "OR IGNORE");
            return Ok(at + 1);
        }
        Ok(at)
    }

    /// `[schema.]table [AS alias]`; the place after it.
    fn target(&self, at: usize, bare_alias: bool) -> (Target, usize) {
        let name = |at: usize| self.script.token(at).and_then(|t| t.name()).map(|name| name.into_owned());
        let at = if self.script.is_symbol(at + 1, ".") { at + 2 } else { at };
        let mut target = Target { name: name(at).unwrap_or_default(), alias: None };
        let mut next = at + 1;
        if self.word(next, "AS") {
            target.alias = name(next + 1);
            next += 2;
        } else if bare_alias && self.script.is_plain_name(next) {
            target.alias = name(next);
            next += 1;
        }
        (target, next)
    }

    fn insert(&self) -> Result<Option<Form>> {
        let mut rewrite = Rewrite::default();
        let mut at = self.verb + 1;
        if self.word(self.verb, "INSERT") {
            at = self.conflict_clause(at, &mut rewrite)?;
        }
        if !self.word(at, "INTO") {
            return Ok(None);
        }
        let (target, after) = self.target(at + 1, false);
        let is_upsert = |at: &usize| self.starts_upsert(*at);
        let upsert = (after..self.end()).find(|at| self.script.depth(*at) == 0 && is_upsert(at));
        let returning = self.find(after, self.end(), "RETURNING");
        let mut source_end = upsert.or(returning).unwrap_or(self.end());
        let mut proposed = Proposed::default();
        if upsert.is_some_and(|at| self.word(at + 1, "DUPLICATE")) {
            source_end = self.proposed(after, source_end, &mut proposed);
        }
        if self.word(after, "SET") {
            self.set_as_values(after, source_end, &mut rewrite)?;
        }
        let mut upserts = Vec::new();
        let upsert_end = returning.unwrap_or(self.end());
        let mut from = upsert;
        while let Some(at) = from {
            from = (at + 1..upsert_end).find(|at| self.script.depth(*at) == 0 && is_upsert(at));
            upserts.push(self.upsert(at, from.unwrap_or(upsert_end))?);
        }
        if upserts.is_empty() && returning.is_none() && rewrite.is_empty() {
            return Ok(None);
        }
        if upserts.iter().rev().skip(1).any(|clause| clause.target.is_none()) {
            return Err(sql("only the last ON CONFLICT clause may be without a target"));
        }
        rewrite.cut(source_end..self.end());
        let (main, origin) = rewrite.apply(self.script);
        let returning = returning.map(|at| self.returning(at)).transpose()?;
        Ok(Some(Form { main, origin, table: Some(target), upserts, proposed, returning, store: None, keys: None }))
    }

    fn starts_upsert(&self, at: usize) -> bool {
        let conflict = self.word(at + 1, "CONFLICT") && (self.script.is_symbol(at + 2, "(") || self.word(at + 2, "DO"));
        self.word(at, "ON") && (conflict || (self.word(at + 1, "DUPLICATE") && self.word(at + 2, "KEY")))
    }

    /// MySQL's `AS new [(m, n)]` after the values; gives where these end.
    fn proposed(&self, from: usize, end: usize, proposed: &mut Proposed) -> usize {
        let Some(at) = self.find(from, end, "AS").filter(|at| self.script.is_symbol(at.wrapping_sub(1), ")")) else {
            return end;
        };
        let columns = (at + 2..end).filter(|at| self.script.depth(*at) == 1);
        let names = columns.filter_map(|at| self.script.token(at).and_then(|t| t.name()));
        proposed.columns = names.map(|name| name.into_owned()).collect();
        proposed.alias = self.script.token(at + 1).and_then(|t| t.name()).map(|name| name.into_owned());
        at
    }

    /// MySQL's `INSERT INTO t SET a = 1, b = 2`.
    fn set_as_values(&self, set: usize, end: usize, rewrite: &mut Rewrite) -> Result<()> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for item in self.script.list(set + 1..end) {
            if !self.script.is_symbol(item.start + 1, "=") || item.len() < 3 {
                return Err(self.expected(item.start, "column = value"));
            }
            names.push(self.script.slice(item.start..item.start + 1));
            values.push(self.script.slice(item.start + 2..item.end));
        }
        rewrite.replace(set..end, &format!("({}) VALUES ({})", names.join(", "), values.join(", ")));
        Ok(())
    }

    /// One clause, which ends before `end`.
    fn upsert(&self, at: usize, end: usize) -> Result<UpsertClause> {
        if self.word(at + 1, "DUPLICATE") {
            if !self.word(at + 3, "UPDATE") {
                return Err(self.expected(at + 3, "UPDATE"));
            }
            let items = self.script.list(at + 4..end);
            return Ok(UpsertClause {
                target: None,
                target_where: None,
                update: Some(SetClause { items, condition: None }),
            });
        }
        let mut next = at + 2;
        let (mut target, mut target_where) = (None, None);
        if self.script.is_symbol(next, "(") {
            let close = self.script.close(next).ok_or_else(|| self.expected(end, ")"))?;
            target = Some(next + 1..close);
            next = close + 1;
            if self.word(next, "WHERE") {
                let to = self.find(next, end, "DO").unwrap_or(end);
                target_where = Some(next + 1..to);
                next = to;
            }
        }
        if !self.word(next, "DO") {
            return Err(self.expected(next, "DO UPDATE or DO NOTHING"));
        }
        if self.word(next + 1, "NOTHING") && next + 2 == end {
            return Ok(UpsertClause { target, target_where, update: None });
        }
        if !self.word(next + 1, "UPDATE") || !self.word(next + 2, "SET") {
            return Err(self.expected(next + 1, "UPDATE SET or NOTHING"));
        }
        let condition = self.find(next + 3, end, "WHERE");
        let items = self.script.list(next + 3..condition.unwrap_or(end));
        let condition = condition.map(|at| at + 1..end);
        Ok(UpsertClause { target, target_where, update: Some(SetClause { items, condition }) })
    }

    fn returning(&self, at: usize) -> Result<Span> {
        if at + 1 == self.end() {
            return Err(self.expected(at + 1, "what to return"));
        }
        Ok(at + 1..self.end())
    }

    fn update(&self) -> Result<Option<Form>> {
        let mut rewrite = Rewrite::default();
        let at = self.conflict_clause(self.verb + 1, &mut rewrite)?;
        let (target, after) = self.target(at, true);
        let set = self.find(after, self.end(), "SET").unwrap_or(after);
        self.narrowed(target, set, at..after, rewrite)
    }

    fn delete(&self) -> Result<Option<Form>> {
        if !self.word(self.verb + 1, "FROM") {
            return Ok(None);
        }
        let (target, after) = self.target(self.verb + 2, true);
        if target.name.eq_ignore_ascii_case("keys") {
            return self.delete_keys(&target, after).map(Some);
        }
        self.narrowed(target, after, self.verb + 2..after, Rewrite::default())
    }

    /// DELETE FROM keys: the keys are selected, and deleted then.
    fn delete_keys(&self, target: &Target, from: usize) -> Result<Form> {
        if let Some(at) = self.find(from, self.end(), "RETURNING") {
            return Err(not_yet(format!("RETURNING of deleted keys (at position {})", self.script.position(at))));
        }
        let named =
            (0..self.end()).filter(|at| self.script.token(*at).and_then(|t| t.name()).is_some_and(|n| n == "keys"));
        let together = self.find(from, self.end(), "ORDER").or(self.find(from, self.end(), "LIMIT"));
        let sliced = together.is_none() && named.count() == 1 && self.script.is_word(self.verb + 2, "keys");
        let mut rewrite = Rewrite::default();
        let name = crate::sql::token::quote_name(target.alias.as_deref().unwrap_or("keys"));
        rewrite.replace(self.verb..self.verb + 1, &format!("SELECT {name}.key"));
        let (main, origin) = rewrite.apply(self.script);
        Ok(Form {
            main,
            origin,
            table: None,
            upserts: Vec::new(),
            proposed: Proposed::default(),
            returning: None,
            store: None,
            keys: Some(if sliced { DeleteKeys::Sliced } else { DeleteKeys::AtOnce }),
        })
    }

    /// UPDATE or DELETE: the rows that ORDER BY and LIMIT choose are named by their row ids.
    fn narrowed(&self, target: Target, from: usize, table: Span, mut rewrite: Rewrite) -> Result<Option<Form>> {
        let returning = self.find(from, self.end(), "RETURNING");
        let end = returning.unwrap_or(self.end());
        let order = (from..end).find(|at| self.script.depth(*at) == 0 && self.word(*at, "ORDER"));
        let limit = self.find(from, end, "LIMIT");
        if let Some(tail) = order.into_iter().chain(limit).min() {
            if let Some(at) = self.find(from, tail, "FROM") {
                let text = "ORDER BY and LIMIT in an UPDATE with FROM";
                return Err(Error::new(
                    Code::Sql,
                    format!("{} (at position {})", not_yet(text).message, self.script.position(at)),
                ));
            }
            let condition = self.find(from, tail, "WHERE").unwrap_or(tail);
            let name = target.alias.as_deref().unwrap_or(&target.name);
            let name = crate::sql::token::quote_name(name);
            let table = self.script.slice(table);
            rewrite.insert(condition, &format!("WHERE {name}.rowid IN (SELECT {name}.rowid FROM {table}"));
            rewrite.insert(end, ")");
        }
        if rewrite.is_empty() && returning.is_none() {
            return Ok(None);
        }
        rewrite.cut(end..self.end());
        let (main, origin) = rewrite.apply(self.script);
        let returning = returning.map(|at| self.returning(at)).transpose()?;
        let (upserts, proposed) = (Vec::new(), Proposed::default());
        Ok(Some(Form { main, origin, table: Some(target), upserts, proposed, returning, store: None, keys: None }))
    }

    /// SELECT .. STORE INTO type key
    fn select(&self) -> Result<Option<Form>> {
        let Some(at) = self.end().checked_sub(4).filter(|at| *at > self.verb) else { return Ok(None) };
        if !self.word(at, "STORE") || !self.word(at + 1, "INTO") || self.script.depth(at) > 0 {
            return Ok(None);
        }
        let shapes = [("HASH", Shape::Hash), ("SET", Shape::Set), ("ZSET", Shape::ZSet), ("LIST", Shape::List)];
        let shape = shapes.into_iter().find(|(word, _)| self.word(at + 2, word));
        let (_, shape) = shape.ok_or_else(|| self.expected(at + 2, "HASH, SET, ZSET or LIST"))?;
        if !self.script.is_text_or_parameter(at + 3) {
            return Err(self.expected(at + 3, "the key as a text or a parameter"));
        }
        let mut rewrite = Rewrite::default();
        rewrite.cut(at..self.end());
        let (main, origin) = rewrite.apply(self.script);
        Ok(Some(Form {
            main,
            origin,
            table: None,
            upserts: Vec::new(),
            proposed: Proposed::default(),
            returning: None,
            store: Some(StoreClause { shape, key: at + 3 }),
            keys: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::token::Tokens;

    fn form(text: &str) -> Result<Option<Form>> {
        let tokens = Tokens::all(text)?;
        split(&Script::new(text, &tokens))
    }

    fn main(text: &str) -> String {
        form(text).unwrap().map_or("as it is".into(), |form| form.main)
    }

    #[test]
    fn what_sqlite_runs_is_cut_and_rewritten() {
        for (text, expected) in [
            ("INSERT INTO t VALUES (1)", "as it is"),
            ("SELECT replace(a, 'x', 'y') FROM t ORDER BY 1 LIMIT 2", "as it is"),
            ("INSERT INTO t SELECT a FROM u JOIN v ON conflict = 1", "as it is"),
            ("UPDATE t SET a = (SELECT b FROM u LIMIT 1) WHERE c", "as it is"),
            ("DELETE FROM t LIMIT 3 -- c", "DELETE FROM t  WHERE \"t\".rowid IN (SELECT \"t\".rowid FROM t LIMIT 3 )"),
            ("INSERT INTO t VALUES (?) RETURNING *", "INSERT INTO t VALUES (?)"),
            ("INSERT INTO t SELECT 1 WHERE true ON CONFLICT DO NOTHING", "INSERT INTO t SELECT 1 WHERE true"),
            ("INSERT IGNORE INTO t VALUES (1)", "INSERT OR IGNORE INTO t VALUES (1)"),
            ("INSERT INTO t SET a = ?, b = f(2, 3)", "INSERT INTO t (a, b) VALUES (?, f(2, 3))"),
            (
                "INSERT INTO t VALUES (1), (2) AS new(m, n) ON DUPLICATE KEY UPDATE a = m",
                "INSERT INTO t VALUES (1), (2)",
            ),
            (
                "UPDATE t x SET a = ? WHERE b > ? ORDER BY c LIMIT 1, 2 RETURNING a",
                "UPDATE t x SET a = ? WHERE \"x\".rowid IN (SELECT \"x\".rowid FROM t x WHERE b > ? ORDER BY c LIMIT 1, 2 )",
            ),
            ("DELETE FROM t LIMIT 3", "DELETE FROM t WHERE \"t\".rowid IN (SELECT \"t\".rowid FROM t LIMIT 3 )"),
            ("WITH q AS (SELECT 1) DELETE FROM t RETURNING a", "WITH q AS (SELECT 1) DELETE FROM t"),
            ("SELECT a, b FROM t STORE INTO HASH 'k'", "SELECT a, b FROM t"),
            ("DELETE FROM keys k WHERE k.key GLOB ?", "SELECT \"k\".key FROM keys k WHERE k.key GLOB ?"),
        ] {
            let words: Vec<&str> = expected.split_whitespace().collect();
            assert_eq!(words, main(text).split_whitespace().collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn clauses_are_found() {
        let text = "INSERT INTO t AS x VALUES (1) ON CONFLICT (a, b) WHERE c > 0 DO UPDATE SET (a, b) = (1, 2), c = d + 1 \
                    WHERE excluded.a ON CONFLICT DO NOTHING RETURNING a";
        let form = form(text).unwrap().unwrap();
        assert_eq!(Some(Target { name: "t".into(), alias: Some("x".into()) }), form.table);
        assert_eq!(2, form.upserts.len());
        assert_eq!(2, form.upserts[0].update.as_ref().unwrap().items.len());
        assert!(form.upserts[0].target_where.is_some() && form.returning.is_some());
        assert!(form.upserts[1].update.is_none() && form.upserts[1].target.is_none());
    }

    #[test]
    fn keys_are_deleted_in_slices_where_each_is_judged_by_itself() {
        for (text, keys) in [
            ("DELETE FROM keys", DeleteKeys::Sliced),
            ("DELETE FROM keys WHERE key GLOB 'x*' AND type IN (SELECT a FROM t LIMIT 3)", DeleteKeys::Sliced),
            ("DELETE FROM keys LIMIT 5", DeleteKeys::AtOnce),
            ("DELETE FROM keys WHERE bytes > (SELECT avg(bytes) FROM keys)", DeleteKeys::AtOnce),
        ] {
            assert_eq!(Some(keys), form(text).unwrap().unwrap().keys, "{text}");
        }
    }

    #[test]
    fn wrong_forms_say_what_was_expected() {
        for (text, message) in [
            ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE a = 1", "expected UPDATE SET or NOTHING, found UPDATE"),
            ("INSERT INTO t VALUES (1) ON CONFLICT (a) UPDATE SET a = 1", "expected DO UPDATE or DO NOTHING"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING ON CONFLICT (a) DO NOTHING", "only the last"),
            ("INSERT INTO t VALUES (1) RETURNING", "expected what to return, found the end"),
            ("INSERT OR FAIL INTO t VALUES (1)", "OR FAIL would keep"),
            ("UPDATE OR FAIL t SET a = 1", "OR FAIL would keep"),
            ("INSERT INTO t SET a", "expected column = value"),
            ("SELECT 1 STORE INTO STREAM 'k'", "expected HASH, SET, ZSET or LIST, found STREAM"),
            ("SELECT 1 STORE INTO HASH 4", "expected the key"),
        ] {
            let error = form(text).unwrap_err().message;
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
