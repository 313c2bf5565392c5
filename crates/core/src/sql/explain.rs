//! EXPLAIN: the plan of a statement in our words, from SQLite's plan and what the shim wrote into it.

use super::executor;
use super::run::{Host, Traits};
use super::schema::{rows, text};
use crate::error::Result;
use crate::reply::Reply;
use std::collections::HashMap;

/// The plan of the statement `statement`: a row for each step, inner steps indented.
pub fn execute(host: &mut dyn Host, statement: &str, traits: Traits) -> Result<Reply> {
    let traits = Traits { explains: true, ..traits };
    let mut prepared = executor::prepare(host, &format!("EXPLAIN QUERY PLAN {statement}"), traits)?;
    let steps = executor::explain_steps(host, &mut prepared)?;
    let mut depths: HashMap<i64, usize> = HashMap::new();
    let mut lines = Vec::new();
    for (id, parent, detail) in steps {
        let depth = depths.get(&parent).map_or(0, |d| d + 1);
        depths.insert(id, depth);
        lines.push(format!("{}{}", "  ".repeat(depth), in_our_words(&detail)));
    }
    if lines.is_empty() {
        lines.push("no table is read".into());
    }
    Ok(rows(&["plan"], lines.into_iter().map(|line| vec![text(line)])))
}

/// One line of SQLite's, in our words where the shim has left them.
fn in_our_words(detail: &str) -> String {
    if let Some((scan, words)) = detail.split_once(" VIRTUAL TABLE INDEX ")
        && let Some((_, words)) = words.split_once(':')
    {
        let alias = scan.strip_prefix("SCAN ").or(scan.strip_prefix("SEARCH ")).unwrap_or(scan);
        let alias = alias.split_once(" LEFT-JOIN").map_or(alias, |(name, _)| name);
        let (words, join) = words.split_once(" LEFT-JOIN").map_or((words, ""), |(w, _)| (w, ", for a left join"));
        let named = words.split([' ', ':', ',']).any(|word| word == alias);
        return if named { format!("{words}{join}") } else { format!("{alias}: {words}{join}") };
    }
    if let Some(what) = detail.strip_prefix("USE TEMP B-TREE FOR ") {
        return format!("sort for {what}");
    }
    detail.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_into_our_words() {
        assert_eq!("full scan of t", in_our_words("SCAN t VIRTUAL TABLE INDEX 0:full scan of t"));
        assert_eq!("x: full scan of t", in_our_words("SCAN x VIRTUAL TABLE INDEX 0:full scan of t"));
        let joined = in_our_words("SCAN x VIRTUAL TABLE INDEX 3:full scan of t LEFT-JOIN");
        assert_eq!("x: full scan of t, for a left join", joined);
        assert_eq!("sort for ORDER BY", in_our_words("USE TEMP B-TREE FOR ORDER BY"));
        assert_eq!("SCAN q", in_our_words("SCAN q"));
    }
}
