//! EXPLAIN and EXPLAIN ANALYZE: the plan of a statement in our words, and what each step of it took.

use super::run::{self, Host, Taken, Traits};
use super::schema::{rows, text};
use super::token::Tokens;
use super::vtab::describe::Step;
use super::{dml, executor, fast};
use crate::error::Result;
use crate::reply::Reply;
use crate::table::datum::DatumRef;
use std::collections::HashMap;

/// A line of the answer.
#[derive(Default)]
struct Line {
    words: String,
    step: Option<Step>,
    taken: Option<Taken>,
}

/// The plan of the statement `statement`: a row for each step, inner steps indented. ANALYZE runs the statement, too.
pub fn execute(host: &mut dyn Host, statement: &str, traits: Traits, params: &[DatumRef<'_>]) -> Result<Reply> {
    let analyzes = traits.analyzes;
    let lines = match fast_plan(host, statement)? {
        Some(plan) => explain_fast(host, &plan, analyzes, params)?,
        None => None,
    };
    // These values may need SQLite, which then has a plan of its own.
    let lines = match lines {
        Some(lines) => lines,
        None => explain_prepared(host, statement, traits, params)?,
    };
    let mut names = vec!["plan", "table", "path", "index", "terms", "rows"];
    if analyzes {
        names.extend(["loops", "visited", "yielded", "us"]);
    }
    Ok(rows(&names, lines.into_iter().map(|line| columns(line, analyzes))))
}

fn columns(line: Line, analyzes: bool) -> Vec<Reply> {
    let or_nil = |value: String| if value.is_empty() { Reply::Nil } else { text(value) };
    let step = line.step.unwrap_or_default();
    let rows = step.rows.parse().map_or(Reply::Nil, Reply::Int);
    let mut columns =
        vec![text(line.words), or_nil(step.table), or_nil(step.path), or_nil(step.index), or_nil(step.terms), rows];
    if analyzes {
        columns.extend(match line.taken {
            Some(t) => [t.loops, t.visited, t.yielded, t.ns / 1000].map(|n| Reply::Int(n as i64)),
            None => [Reply::Nil, Reply::Nil, Reply::Nil, Reply::Nil],
        });
    }
    columns
}

fn fast_plan(host: &mut dyn Host, statement: &str) -> Result<Option<fast::Plan>> {
    if !host.sql().fast_path {
        return Ok(None);
    }
    let mut tokens = Tokens::all(statement)?;
    while tokens.last().is_some_and(|t| t.is_symbol(";")) {
        tokens.pop();
    }
    fast::compile(host, statement, &tokens)
}

/// The plan that needs no SQLite; None: with these values it does.
fn explain_fast(
    host: &mut dyn Host,
    plan: &fast::Plan,
    analyzes: bool,
    params: &[DatumRef<'_>],
) -> Result<Option<Vec<Line>>> {
    let line = |step: Step| Line { words: step.words.clone(), step: Some(step), taken: None };
    let mut lines: Vec<Line> = plan.steps(host.source()).into_iter().map(line).collect();
    if analyzes {
        if plan.parameters() != params.len() {
            return Err(executor::wrong_count(plan.parameters(), params.len()));
        }
        let start_ns = host.monotonic_ns();
        let mut taken = Vec::new();
        let reply = run::until_ready(host, |host| fast::run_analysed(host, plan, params, &mut taken))?;
        let Some(reply) = reply else { return Ok(None) };
        let ns = host.monotonic_ns().saturating_sub(start_ns);
        let rows = rows_of(&reply);
        if taken.is_empty() {
            taken.push(Taken { loops: 1, visited: rows, yielded: rows, ns });
        }
        lines.iter_mut().zip(taken).for_each(|(line, taken)| line.taken = Some(taken));
        lines.push(result(&reply, ns));
    }
    Ok(Some(lines))
}

fn explain_prepared(
    host: &mut dyn Host,
    statement: &str,
    traits: Traits,
    params: &[DatumRef<'_>],
) -> Result<Vec<Line>> {
    let asked = Traits { analyzes: false, explains: true, ..traits.clone() };
    let main = dml::main_text(statement)?;
    let main = main.as_deref().unwrap_or(statement);
    let mut prepared = executor::prepare(host, &format!("EXPLAIN QUERY PLAN {main}"), asked)?;
    let steps = executor::explain_steps(host, &mut prepared, params)?;
    drop(prepared);
    let mut taken = Vec::new();
    let mut end = None;
    if traits.analyzes {
        // The same questions are asked again, so the steps have the same numbers.
        let start_ns = host.monotonic_ns();
        host.sql().taken.clear();
        let reply = executor::run_analysed(host, statement, traits, params)?;
        end = Some(result(&reply, host.monotonic_ns().saturating_sub(start_ns)));
        taken = std::mem::take(&mut host.sql().taken);
    }
    let mut depths: HashMap<i64, usize> = HashMap::new();
    let mut lines = Vec::new();
    for (id, parent, detail) in steps {
        let depth = depths.get(&parent).map_or(0, |d| d + 1);
        depths.insert(id, depth);
        let (words, step) = in_our_words(&detail);
        let number = step.as_ref().map(|(number, _)| *number);
        let taken = number.map(|number| taken.get(number).copied().unwrap_or_default());
        let words = format!("{}{words}", "  ".repeat(depth));
        lines.push(Line { words, step: step.map(|(_, step)| step), taken });
    }
    if lines.is_empty() {
        lines.push(Line { words: "no table is read".into(), ..Line::default() });
    }
    lines.extend(end);
    Ok(lines)
}

fn rows_of(reply: &Reply) -> u64 {
    match reply {
        Reply::Array(rows) => rows.len().saturating_sub(1) as u64,
        Reply::Rows(rows) => rows.len() as u64,
        Reply::Int(changed) => *changed as u64,
        _ => 0,
    }
}

/// The last line of an ANALYZE.
fn result(reply: &Reply, ns: u64) -> Line {
    let rows = rows_of(reply);
    let words = if matches!(reply, Reply::Array(_) | Reply::Rows(_)) { "rows of the result" } else { "rows changed" };
    Line { words: words.into(), step: None, taken: Some(Taken { loops: 1, visited: rows, yielded: rows, ns }) }
}

/// One line of SQLite's in our words, and the step that the shim has put into it.
fn in_our_words(detail: &str) -> (String, Option<(usize, Step)>) {
    if let Some((scan, packed)) = detail.split_once(" VIRTUAL TABLE INDEX ")
        && let Some((_, packed)) = packed.split_once(':')
    {
        let alias = scan.strip_prefix("SCAN ").or(scan.strip_prefix("SEARCH ")).unwrap_or(scan);
        let alias = alias.split_once(" LEFT-JOIN").map_or(alias, |(name, _)| name);
        let (packed, join) = packed.split_once(" LEFT-JOIN").map_or((packed, ""), |(p, _)| (p, ", for a left join"));
        let step = Step::unpack(packed);
        let words = step.as_ref().map_or(packed, |(_, step)| &step.words);
        let named = words.split([' ', ':', ',']).any(|word| word == alias);
        let words = if named { format!("{words}{join}") } else { format!("{alias}: {words}{join}") };
        return (words, step);
    }
    let found = PHRASES.iter().find_map(|(theirs, ours)| Some((ours, detail.strip_prefix(theirs)?)));
    (found.map_or(detail.to_string(), |(ours, rest)| ours.replace("{}", rest)), None)
}

/// Beginnings of SQLite's lines, and what we say; `{}` stands for the rest.
const PHRASES: [(&str, &str); 22] = [
    ("USE TEMP B-TREE FOR LAST TERM OF ", "sort for the last term of {}"),
    ("USE TEMP B-TREE FOR ", "sort for {}"),
    ("SCAN CONSTANT ROW", "one row of constants"),
    ("SCAN ", "walk over {}"),
    ("SEARCH ", "look-up in {}"),
    ("MULTI-INDEX OR", "one look-up for each side of OR"),
    ("INDEX ", "side {}"),
    ("CO-ROUTINE ", "{}, row by row"),
    ("MATERIALIZE ", "{}, kept for the statement"),
    ("CORRELATED SCALAR SUBQUERY ", "value of subquery {}, for each row"),
    ("CORRELATED LIST SUBQUERY ", "list of subquery {}, for each row"),
    ("SCALAR SUBQUERY ", "value of subquery {}"),
    ("LIST SUBQUERY ", "list of subquery {}"),
    ("REUSE LIST SUBQUERY ", "list of subquery {} again"),
    ("COMPOUND QUERY", "several queries"),
    ("LEFT-MOST SUBQUERY", "the first"),
    ("UNION USING TEMP B-TREE", "union, each row once"),
    ("UNION ALL", "union of all"),
    ("SETUP", "beginning"),
    ("RECURSIVE STEP", "each further step"),
    ("BLOOM FILTER ON ", "filter of hashes on {}"),
    ("RIGHT-JOIN ", "the rows of {} that found no partner"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_into_our_words() {
        let step = Step { table: "t".into(), words: "full scan of t".into(), ..Step::default() }.packed(7);
        let words = |detail: &str| in_our_words(detail).0;
        assert_eq!("full scan of t", words(&format!("SCAN t VIRTUAL TABLE INDEX 0:{step}")));
        assert_eq!("x: full scan of t", words(&format!("SCAN x VIRTUAL TABLE INDEX 0:{step}")));
        let joined = words(&format!("SCAN x VIRTUAL TABLE INDEX 3:{step} LEFT-JOIN"));
        assert_eq!("x: full scan of t, for a left join", joined);
        assert_eq!(Some(7), in_our_words(&format!("SCAN x VIRTUAL TABLE INDEX 3:{step}")).1.map(|(number, _)| number));
        assert_eq!("sort for ORDER BY", words("USE TEMP B-TREE FOR ORDER BY"));
        assert_eq!("walk over q", words("SCAN q"));
        assert_eq!("list of subquery 1", words("LIST SUBQUERY 1"));
        assert_eq!("side 2", words("INDEX 2"));
    }
}
