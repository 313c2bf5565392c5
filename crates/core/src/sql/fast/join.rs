//! Joins of two tables by equal columns: a walk over the outer table, and for each of its rows a look-up in an index of
//! the inner one, or in a hash table made of it.
//!
//! Look-ups go side by side, in batches, as one look-up waits for memory several times. Where both tables were filled in
//! one order, each row found lies behind the last one; such rows are taken from there, without a look-up.

use super::follow::Follow;
use super::group::Groups;
use super::hashed::Hashed;
use super::listing::Listing;
use super::look::Look;
use super::path::{Flow, Path, Visitor};
use super::tables::{Demands, Field, Lying, Rows, Tables};
use crate::engine::{Read, RowBytes, Source};
use crate::sql::fast::filter::Test;
use crate::sql::fast::key;
use crate::sql::fast::read::Value;
use crate::sql::run::{Host, Outcome};
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::describe::Step;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexColumn, IndexDef, IndexId, Method, TableId};
use crate::table::datum::DatumRef;
use crate::table::key::put_column;
use crate::table::row::RowLayout;
use crate::table::types::Storage;
use smallvec::SmallVec;
use std::sync::Arc;

/// A join.
pub struct Join {
    /// How each table is walked over, and which of its rows count.
    paths: [Path; 2],
    /// What the query calls them.
    names: [String; 2],
    /// The ways to do it, at least one.
    ways: SmallVec<[Way; 2]>,
    /// Rows of the first table that find no partner stay.
    left: bool,
}

/// A way to do a join.
pub struct Way {
    /// The table that is walked over.
    outer: usize,
    /// What the other table's key is made of, in the order of the index.
    key: SmallVec<[KeyPart; 2]>,
    find: Find,
}

/// A column of a key: where its value comes from, and the column that it is looked up in.
#[derive(Clone, Copy)]
pub struct KeyPart {
    /// The column of the outer table.
    pub from: Field,
    /// The column of the inner table as its index has it.
    pub column: IndexColumn,
    /// Both are integers, or both are doubles, and keys are only compared with each other: eight bytes tell them apart.
    pub plain: bool,
}

impl KeyPart {
    /// Appends the part of a key that a value is. None: nothing equals it.
    #[inline]
    pub fn put(&self, value: DatumRef<'_>, out: &mut Vec<u8>) -> Result<(), ()> {
        match value {
            DatumRef::Null => return Err(()),
            DatumRef::Int(i) if self.plain => out.extend_from_slice(&i.to_le_bytes()),
            // There are two zeros, which are equal.
            DatumRef::Real(r) if self.plain => out.extend_from_slice(&(r + 0.0).to_bits().to_le_bytes()),
            value => put_column(value, &self.column, out),
        }
        Ok(())
    }
}

/// How partners are found.
#[derive(Clone, Copy)]
enum Find {
    /// In an index. `follows`: its key is one integer, of one row.
    Index { index: IndexId, follows: bool },
    /// In a hash table made for the statement.
    Hashed,
}

/// Takes the rows of a join.
pub trait Sink {
    /// Takes a row of each table.
    fn take(&mut self, rows: &Rows<'_>) -> Flow;
}

impl Sink for Groups<'_> {
    #[inline]
    fn take(&mut self, rows: &Rows<'_>) -> Flow {
        Groups::take(self, rows)
    }
}

impl Sink for Listing<'_> {
    #[inline]
    fn take(&mut self, rows: &Rows<'_>) -> Flow {
        Listing::take(self, rows)
    }
}

impl Join {
    /// The join that meets the demands. None: SQLite has more to choose from.
    pub fn choose(tables: &Tables, demands: &Demands, left: bool) -> Option<Join> {
        let [first, second] = &tables.0[..] else { return None };
        if demands.equal.is_empty() || !demands.equal.iter().all(|pair| are_comparable(tables, pair)) {
            return None;
        }
        let paths =
            [Path::choose(&first.info, &demands.conditions[0])?, Path::choose(&second.info, &demands.conditions[1])?];
        let outers: &[usize] = match (paths[0].is_chosen(), paths[1].is_chosen()) {
            (_, true) if left => return None,
            (true, true) => return None,
            (true, false) => &[0],
            (false, true) => &[1],
            (false, false) if left => &[0],
            (false, false) => &[0, 1],
        };
        let ways: SmallVec<[Way; 2]> =
            outers.iter().filter_map(|outer| Way::new(tables, demands, *outer, paths[*outer].is_chosen())).collect();
        let names = [first.name.clone(), second.name.clone()];
        (!ways.is_empty()).then_some(Join { paths, names, ways, left })
    }

    /// The best way for the rows that there are now.
    fn way(&self, source: &dyn Source) -> Read<&Way> {
        let mut best = (&self.ways[0], f64::INFINITY);
        for way in &self.ways {
            let rows = |side: usize| Ok::<f64, crate::engine::ReadError>(source.row_count(self.table(side))? as f64);
            let outer = rows(way.outer)?;
            let found = outer * self.paths[way.outer].selectivity();
            // In walks over a row: a look-up in an index, one in a hash table of our own, and putting a row into that.
            let cost = match way.find {
                Find::Index { .. } => outer + 4.0 * found,
                Find::Hashed => outer + 2.0 * found + 3.0 * rows(1 - way.outer)?,
            };
            if cost < best.1 {
                best = (way, cost);
            }
        }
        Ok(best.0)
    }

    fn table(&self, side: usize) -> TableId {
        self.paths[side].info.def.id
    }

    /// Gives the rows to `sink`. `used`: which tables' columns it looks at. None: SQLite must go on, from the start.
    pub fn walk(
        &self,
        host: &mut dyn Host,
        params: &[DatumRef<'_>],
        look: &mut Look,
        used: [bool; 2],
        sink: &mut impl Sink,
    ) -> Outcome<Option<()>> {
        let way = self.way(host.source())?;
        let inner = 1 - way.outer;
        let Some(tests) = self.paths[inner].tests(params) else { return Ok(None) };
        let mut hashed = None;
        if let Find::Hashed = way.find {
            // A row that WHERE refuses is a partner nevertheless, so a LEFT JOIN needs it, and its columns.
            let keeps_rows = used[inner] || (self.left && !tests.is_empty());
            let mut made = Hashed::new(&way.key, keeps_rows);
            let path = &self.paths[inner];
            let tests = if self.left { &[][..] } else { &tests };
            if path.walk_all(host, tests, look, &mut made)?.is_none() {
                return Ok(None);
            }
            made.finish();
            hashed = Some(made);
        }
        let layout = |side: usize| host.source().layout(self.table(side)).cloned();
        let mut joiner = Joiner {
            way,
            tables: [self.table(0), self.table(1)],
            layouts: [layout(0)?, layout(1)?],
            left: self.left,
            tests: if hashed.is_some() && !self.left { Vec::new() } else { tests },
            hashed,
            waiting: Vec::new(),
            keys: Batch::new(),
            places: Vec::new(),
            together: 1,
            pairs: 0,
            follow: Follow::default(),
            sink,
        };
        self.paths[way.outer].walk(host, params, look, &mut joiner)
    }

    /// Does it look at a row or two?
    pub fn is_short(&self) -> bool {
        let unique = |way: &Way| match way.find {
            Find::Index { index, .. } => key::is_unique(&self.paths[1 - way.outer].info, index),
            Find::Hashed => false,
        };
        self.ways.iter().all(|way| self.paths[way.outer].is_single() && unique(way))
    }

    /// What it does, for EXPLAIN.
    pub fn steps(&self, source: &dyn Source) -> Vec<Step> {
        let Ok(way) = self.way(source) else { return Vec::new() };
        let rows = |side: usize| source.row_count(self.table(side)).unwrap_or(0);
        let (outer, inner) = (&self.paths[way.outer], &self.paths[1 - way.outer]);
        let mut step = match way.find {
            Find::Index { index, .. } => {
                let value = || SmallVec::from_iter([Value::Parameter(0)]);
                key::step(&inner.info, index, &way.key.iter().map(|_| value()).collect())
            }
            Find::Hashed => hashed_step(&inner.info, way, rows(1 - way.outer)),
        };
        step.words += &inner.filtered();
        if self.left {
            step.words += ", for a left join";
        }
        vec![named(outer.step(rows(way.outer)), &self.names[way.outer]), named(step, &self.names[1 - way.outer])]
    }
}

/// The step with the name that the query gives its table, unless it has that name in it.
fn named(step: Step, name: &str) -> Step {
    if step.words.split([' ', ':', ',']).any(|word| word == name) {
        return step;
    }
    Step { words: format!("{name}: {}", step.words), ..step }
}

fn hashed_step(info: &TableInfo, way: &Way, rows: u64) -> Step {
    let name = |part: &KeyPart| info.def.column_at(part.column.position).map_or("?", |c| &c.name);
    let names: Vec<&str> = way.key.iter().map(name).collect();
    let words = format!("hash table of {} by {}, made for the statement", info.def.name, names.join(", "));
    let terms = names.iter().map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(" and ");
    let (table, path, rows) = (info.def.name.clone(), "hash table".into(), rows.to_string());
    Step { table, path, index: String::new(), terms, rows, words }
}

/// Do equal values of the two columns have equal keys, and do no others?
fn are_comparable(tables: &Tables, [a, b]: &[Field; 2]) -> bool {
    let is_number = |storage: Storage| matches!(storage, Storage::Int | Storage::Real);
    match (tables.storage(*a), tables.storage(*b)) {
        (a, b) if is_number(a) && is_number(b) => true,
        (Storage::Text, Storage::Text) => tables.column(*a).collation == tables.column(*b).collation,
        (Storage::Blob, Storage::Blob) => true,
        _ => false,
    }
}

impl Way {
    fn new(tables: &Tables, demands: &Demands, outer: usize, is_chosen: bool) -> Option<Way> {
        let info = &tables.0[1 - outer].info;
        let equal: SmallVec<[KeyPart; 2]> = demands
            .equal
            .iter()
            .map(|pair| KeyPart { from: pair[outer], column: tables.key_column(pair[1 - outer]), plain: false })
            .collect();
        if let Some((index, key)) = index_for(info, &equal) {
            let is_number = |part: &KeyPart| info.def.stored[usize::from(part.column.position)].storage == Storage::Int;
            let follows = index.unique && key.len() == 1 && is_number(&key[0]);
            return Some(Way { outer, key, find: Find::Index { index: index.id, follows } });
        }
        // A part of an index might do for SQLite, and for a few rows no hash table is worth while.
        let begins = |index: &IndexDef| equal.iter().any(|part| part.column.position == index.columns[0].position);
        if is_chosen || info.def.indexes.iter().any(begins) {
            return None;
        }
        let is_plain = |part: &KeyPart| {
            let storage = info.def.stored[usize::from(part.column.position)].storage;
            storage == tables.storage(part.from) && matches!(storage, Storage::Int | Storage::Real)
        };
        let key = equal.iter().map(|part| KeyPart { plain: is_plain(part), ..*part }).collect();
        Some(Way { outer, key, find: Find::Hashed })
    }
}

/// The best index whose columns are just those of the key.
fn index_for<'a>(info: &'a TableInfo, equal: &[KeyPart]) -> Option<(&'a IndexDef, SmallVec<[KeyPart; 2]>)> {
    let of = |column: &IndexColumn| {
        let same =
            |part: &&KeyPart| part.column.position == column.position && part.column.collation == column.collation;
        equal.iter().find(same).map(|part| KeyPart { column: *column, ..*part })
    };
    let fits = |index: &'a IndexDef| {
        let key: Option<SmallVec<[KeyPart; 2]>> = index.columns.iter().map(of).collect();
        let whole = index.filter.is_none() && index.columns.len() == equal.len();
        key.filter(|_| whole).map(|key| (index, key))
    };
    info.def.indexes.iter().filter_map(fits).min_by_key(|(index, _)| (!index.unique, index.method != Method::Hash))
}

/// Rows whose partners are looked up together.
const TOGETHER: usize = 64;

/// Finds the partners of rows.
struct Joiner<'a, S> {
    way: &'a Way,
    tables: [TableId; 2],
    layouts: [Arc<RowLayout>; 2],
    left: bool,
    /// What inner rows must pass.
    tests: Vec<Test>,
    hashed: Option<Hashed<'a>>,
    /// Outer rows whose partners are still to be found; they stay where they are until they are flushed.
    waiting: Vec<RowBytes>,
    /// Their keys, and which row each belongs to: NULL has none.
    keys: Batch,
    places: Vec<u32>,
    /// So many are looked up together now.
    together: usize,
    /// Partners found that the clock does not know of yet.
    pairs: usize,
    follow: Follow,
    sink: &'a mut S,
}

impl<S: Sink> Visitor for Joiner<'_, S> {
    #[inline]
    fn row(&mut self, source: &dyn Source, row: Lying<'_>) -> Read<Flow> {
        if self.follow.is_on() {
            let wanted = row.get(self.way.key[0].from.position);
            if let Some(found) = self.follow.next(source, &self.layouts[1 - self.way.outer], wanted)? {
                return self.take_behind(source, &row, found);
            }
        }
        let put =
            |out: &mut Vec<u8>| self.way.key.iter().try_for_each(|part| part.put(row.get(part.from.position), out));
        if self.keys.write(put).is_ok() {
            self.places.push(self.waiting.len() as u32);
        }
        self.waiting.push(RowBytes::of(row.bytes));
        if self.waiting.len() < self.together { Ok(Flow::More) } else { self.flush(source) }
    }

    fn work(&mut self) -> usize {
        std::mem::take(&mut self.pairs)
    }

    fn flush(&mut self, source: &dyn Source) -> Read<Flow> {
        if self.waiting.is_empty() {
            return Ok(Flow::More);
        }
        let outer = Waiting { rows: &self.waiting, layout: &self.layouts[self.way.outer] };
        let inner = self.tables[1 - self.way.outer];
        let mut pairs = Pairs { outer: self.way.outer, left: self.left, tests: &self.tests, sink: self.sink };
        let mut progress = Progress { at: 0, matched: false, pairs: 0, flow: Flow::More };
        match (&self.way.find, &self.hashed) {
            (Find::Index { index, follows }, _) => {
                self.follow.begin();
                source.get_many(inner, *index, &self.keys, &mut |place, id, row| {
                    self.follow.note(id);
                    let row = Lying { bytes: row.bytes(), layout: row.layout() };
                    pairs.found(&outer, self.places[place] as usize, &row, &mut progress);
                })?;
                pairs.up_to(&outer, self.waiting.len(), &mut progress);
                if *follows {
                    self.follow.end(source, inner, self.way.key[0].column.position, self.waiting.len())?;
                }
            }
            (Find::Hashed, Some(hashed)) => {
                let layout = &self.layouts[1 - self.way.outer];
                for (place, key) in self.keys.iter().enumerate() {
                    hashed.find(key, layout, |row| {
                        pairs.found_in(&outer, self.places[place] as usize, row, &mut progress);
                    });
                }
                pairs.up_to(&outer, self.waiting.len(), &mut progress);
            }
            (Find::Hashed, None) => {}
        }
        // Where each row has many partners, few are enough for one look-up, and the clock is to be looked at in between.
        let many = progress.pairs > 8 * self.waiting.len();
        self.together = if many { 1 } else { (2 * self.together).min(TOGETHER) };
        self.pairs += progress.pairs;
        self.waiting.clear();
        self.keys.clear();
        self.places.clear();
        Ok(progress.flow)
    }
}

impl<S: Sink> Joiner<'_, S> {
    /// Gives a row with the partner that was found without a look-up. Rows that wait come first.
    #[inline]
    fn take_behind(&mut self, source: &dyn Source, row: &Lying<'_>, found: RowBytes) -> Read<Flow> {
        if !self.waiting.is_empty() {
            let flow = self.flush(source)?;
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        // SAFETY: the row found stays where it is until `follow` is asked again; so few rows wait while it is on that their
        // look-ups do not move it.
        let found = Lying { bytes: unsafe { found.get() }, layout: &self.layouts[1 - self.way.outer] };
        let mut pairs = Pairs { outer: self.way.outer, left: false, tests: &self.tests, sink: self.sink };
        Ok(pairs.partner(row, &found))
    }
}

/// Outer rows that wait.
struct Waiting<'a> {
    rows: &'a [RowBytes],
    layout: &'a RowLayout,
}

impl<'a> Waiting<'a> {
    fn row(&self, at: usize) -> Lying<'a> {
        // SAFETY: the rows stay where they are until they were flushed, by the contract of visitors.
        Lying { bytes: unsafe { self.rows[at].get() }, layout: self.layout }
    }
}

/// How far a flush has come: the row in hand, and whether it has found a partner.
struct Progress {
    at: usize,
    matched: bool,
    pairs: usize,
    flow: Flow,
}

/// Puts pairs of rows together and gives them to the sink.
struct Pairs<'a, S> {
    outer: usize,
    left: bool,
    tests: &'a [Test],
    sink: &'a mut S,
}

impl<S: Sink> Pairs<'_, S> {
    /// Gives a pair, if the inner row passes.
    #[inline]
    fn partner(&mut self, outer: &Lying<'_>, inner: &Lying<'_>) -> Flow {
        if self.tests.iter().all(|test| test.passes(inner)) { self.give(outer, Some(inner)) } else { Flow::More }
    }

    #[inline]
    fn give(&mut self, outer: &Lying<'_>, inner: Option<&Lying<'_>>) -> Flow {
        match self.outer {
            0 => self.sink.take(&Rows([Some(outer), inner])),
            _ => self.sink.take(&Rows([inner, Some(outer)])),
        }
    }

    /// A partner of the outer row number `at` was found.
    #[inline]
    fn found(&mut self, outer: &Waiting<'_>, at: usize, inner: &Lying<'_>, progress: &mut Progress) {
        self.found_in(outer, at, Some(inner), progress);
    }

    /// The same; without a row when nobody looks at it.
    #[inline]
    fn found_in(&mut self, outer: &Waiting<'_>, at: usize, inner: Option<&Lying<'_>>, progress: &mut Progress) {
        self.up_to(outer, at, progress);
        if progress.flow != Flow::More {
            return;
        }
        progress.matched = true;
        progress.pairs += 1;
        progress.flow = match inner {
            Some(inner) => self.partner(&outer.row(at), inner),
            None => self.give(&outer.row(at), None),
        };
    }

    /// Gives the outer rows before number `at` that found no partner, when they stay.
    #[inline]
    fn up_to(&mut self, outer: &Waiting<'_>, at: usize, progress: &mut Progress) {
        while self.left && progress.at < at && progress.flow == Flow::More {
            if !progress.matched && self.tests.iter().all(Test::passes_null) {
                progress.flow = self.give(&outer.row(progress.at), None);
            }
            progress.at += 1;
            progress.matched = false;
        }
    }
}
