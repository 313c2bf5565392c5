//! The catalog: definitions of tables, columns, indexes, views, libraries, triggers and schedules, and the version that grows
//! at each change of them.

use super::datum::{Datum, damaged, put_bytes, put_varint, take, take_bytes, take_varint};
use super::library::{Libraries, LibraryDef};
use super::schedule::Schedules;
use super::trigger::{TriggerDef, Triggers};
use super::types::{Collation, ColumnType, Storage};
use crate::error::{Code, Error, Result};
use crate::limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names a table for good: never reused, not even after DROP TABLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// Names an index for good, among the indexes of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(pub u32);

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDef {
    /// Its id.
    pub id: TableId,
    /// Its name as written; compared without case.
    pub name: String,
    /// The storage engine that keeps its rows.
    pub engine: String,
    /// The columns in the order of `SELECT *`; hidden ones last.
    pub columns: Vec<ColumnDef>,
    /// What rows hold at each position, dropped columns included (positions are never reused).
    pub stored: Vec<StoredColumn>,
    /// How many positions a row of each schema version has; rows are written with the last version.
    pub versions: Vec<u16>,
    /// The indexes, the primary key first if there is one.
    pub indexes: Vec<IndexDef>,
    /// CHECK constraints.
    pub checks: Vec<CheckDef>,
    /// REFERENCES constraints.
    pub foreign_keys: Vec<ForeignKey>,
    /// How many rows it may have.
    pub bound: Option<Bound>,
}

/// How many rows a table may have, and what happens when one more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Most rows.
    pub max_rows: u64,
    /// Which row goes then.
    pub evict: Evict,
}

/// Which row makes room for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evict {
    /// None: the new row is refused.
    #[default]
    Refuse,
    /// One that has not been read by key or written for long.
    Lru,
    /// The one that was inserted first.
    Fifo,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Its name as written; compared without case.
    pub name: String,
    /// The type as written, for SHOW CREATE TABLE.
    pub declared: String,
    /// The type.
    pub ctype: ColumnType,
    /// How it compares.
    pub collation: Collation,
    /// Where rows keep it.
    pub position: u16,
    /// NULL is refused.
    pub not_null: bool,
    /// A missing value becomes the next number never used before.
    pub autoincrement: bool,
    /// Not shown by `SELECT *` (made for an expression index).
    pub hidden: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// GENERATED ALWAYS AS, as SQL text.
    pub generated: Option<String>,
}

/// What rows keep at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredColumn {
    /// The form of the value.
    pub storage: Storage,
    /// The value of rows written before the position existed.
    pub missing: Datum,
}

/// An index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDef {
    /// Its id.
    pub id: IndexId,
    /// Its name, unique among all indexes.
    pub name: String,
    /// What it is made of, in order.
    pub columns: Vec<IndexColumn>,
    /// No two rows have the same key (keys with a NULL in them excepted).
    pub unique: bool,
    /// The access method.
    pub method: Method,
    /// What asked for it.
    pub origin: Origin,
    /// A partial index holds only the rows in which the (hidden, boolean) column at this position is true.
    pub filter: Option<u16>,
}

/// One column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// The position in rows.
    pub position: u16,
    /// Largest first.
    pub desc: bool,
    /// How it compares.
    pub collation: Collation,
}

/// An access method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Answers equality on all its columns.
    Hash,
    /// Answers equality, ranges and order on any prefix of its columns.
    Ordered,
}

/// What asked for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// PRIMARY KEY.
    PrimaryKey,
    /// UNIQUE in CREATE TABLE.
    Unique,
    /// CREATE INDEX.
    Created,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckDef {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// The SQL expression.
    pub expression: String,
}

/// A REFERENCES constraint; columns by name, as the parent may be created later.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// The referring columns.
    pub columns: Vec<String>,
    /// The table referred to.
    pub parent: String,
    /// Its columns; empty: its primary key.
    pub parent_columns: Vec<String>,
    /// What happens when the parent row goes.
    pub on_delete: Action,
    /// What happens when the parent key changes.
    pub on_update: Action,
}

/// What a foreign key does when its parent changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Refuse, at the end of the statement.
    #[default]
    NoAction,
    /// Refuse at once.
    Restrict,
    /// Do the same to the child.
    Cascade,
    /// Set the child's columns to NULL.
    SetNull,
    /// Set the child's columns to their defaults.
    SetDefault,
}

/// A view: a name for a SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewDef {
    /// Its name as written.
    pub name: String,
    /// Its whole CREATE VIEW statement.
    pub sql: String,
}

impl TableDef {
    /// A table without columns and indexes; the catalog gives it an id when it is added.
    pub fn new(name: impl Into<String>) -> TableDef {
        TableDef {
            id: TableId(0),
            name: name.into(),
            engine: "memory".into(),
            columns: Vec::new(),
            stored: Vec::new(),
            versions: vec![0],
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            bound: None,
        }
    }

    /// Do rows go by themselves?
    pub fn forgets(&self) -> bool {
        self.bound.is_some_and(|bound| bound.evict != Evict::Refuse)
    }

    /// Adds a column to a table that has no rows yet.
    pub fn add_column(&mut self, name: &str, declared: &str) -> Result<&mut ColumnDef> {
        let at = self.push_column(name, declared, Datum::Null)?;
        let positions = self.stored.len() as u16;
        *self.versions.last_mut().expect("a table has a schema version") = positions;
        Ok(&mut self.columns[at])
    }

    /// Adds a column to a table that may have rows, as a new schema version: rows that exist read `missing` for it.
    pub fn add_column_later(&mut self, name: &str, declared: &str, missing: Datum) -> Result<&mut ColumnDef> {
        let at = self.push_column(name, declared, missing)?;
        self.versions.push(self.stored.len() as u16);
        Ok(&mut self.columns[at])
    }

    fn push_column(&mut self, name: &str, declared: &str, missing: Datum) -> Result<usize> {
        let ctype = ColumnType::parse(declared)
            .ok_or_else(|| Error::new(Code::Sql, format!("unknown type {declared} of column {}.{name}", self.name)))?;
        if self.stored.len() >= limits::COLUMNS_MAX {
            let dropped = self.stored.len() - self.columns.len();
            let counted =
                if dropped > 0 { format!(", the {dropped} that were dropped included") } else { String::new() };
            let text = format!("table {} would have more than {} columns{counted}", self.name, limits::COLUMNS_MAX);
            return Err(Error::new(Code::Limit, text));
        }
        if self.column(name).is_some() {
            return Err(Error::new(Code::Sql, format!("duplicate column name: {}.{name}", self.name)));
        }
        let position = self.stored.len() as u16;
        self.stored.push(StoredColumn { storage: ctype.storage(), missing });
        // Hidden columns stay last.
        let at = self.columns.iter().position(|c| c.hidden).unwrap_or(self.columns.len());
        let column = ColumnDef {
            name: name.into(),
            declared: declared.into(),
            ctype,
            collation: ctype.collation(),
            position,
            not_null: false,
            autoincrement: false,
            hidden: false,
            default: None,
            generated: None,
        };
        self.columns.insert(at, column);
        Ok(at)
    }

    /// The column of this name and its place in `columns`.
    pub fn column(&self, name: &str) -> Option<(usize, &ColumnDef)> {
        self.columns.iter().enumerate().find(|(_, c)| c.name.eq_ignore_ascii_case(name))
    }

    /// The column at a position; `None` for a dropped one.
    pub fn column_at(&self, position: u16) -> Option<&ColumnDef> {
        self.columns.iter().find(|c| c.position == position)
    }

    /// The index with this id.
    pub fn index(&self, id: IndexId) -> Option<&IndexDef> {
        self.indexes.iter().find(|i| i.id == id)
    }

    /// The primary key.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.indexes.iter().find(|i| i.origin == Origin::PrimaryKey)
    }

    /// Forgets hidden columns that no index uses any longer.
    pub fn drop_unused_hidden(&mut self) {
        let indexes = &self.indexes;
        let used = |position: u16| {
            indexes.iter().any(|i| i.filter == Some(position) || i.columns.iter().any(|c| c.position == position))
        };
        self.columns.retain(|c| !c.hidden || used(c.position));
    }

    /// Number of the schema version that rows are written with.
    pub fn version(&self) -> u16 {
        (self.versions.len() - 1) as u16
    }

    /// Is every reference inside the definition to something that exists, within the limits?
    pub fn check(&self) -> Result<()> {
        let positions = self.stored.len();
        let versions_fit = !self.versions.is_empty()
            && self.versions.len() <= usize::from(u16::MAX)
            && self.versions.iter().all(|&n| usize::from(n) <= positions)
            && self.versions.last() == Some(&(positions as u16));
        let columns_fit = positions <= limits::COLUMNS_MAX
            && self
                .columns
                .iter()
                .all(|c| self.stored.get(usize::from(c.position)).is_some_and(|s| s.storage == c.ctype.storage()));
        let indexes_fit = self.indexes.len() <= limits::INDEXES_MAX
            && self.indexes.iter().all(|i| {
                (1..=limits::INDEX_COLUMNS_MAX).contains(&i.columns.len())
                    && i.columns.iter().map(|c| c.position).chain(i.filter).all(|p| usize::from(p) < positions)
            });
        if versions_fit && columns_fit && indexes_fit {
            return Ok(());
        }
        Err(Error::new(
            Code::Limit,
            format!(
                "the definition of table {} is beyond the limits of columns, indexes or \
            columns of an index",
                self.name
            ),
        ))
    }
}

/// What a catalog remembers of definitions that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The version.
    pub version: u64,
    /// The largest id of a table ever given.
    pub last_table: u32,
    /// The largest id of an index ever given.
    pub last_index: u32,
}

/// All definitions. Cheap to read by name; a change makes a new definition and a new version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    version: u64,
    last_table: u32,
    last_index: u32,
    tables: BTreeMap<String, Arc<TableDef>>,
    views: BTreeMap<String, Arc<ViewDef>>,
    /// The bounds of the tables that have one, so that writes to others need no look.
    bounds: BTreeMap<TableId, Bound>,
    /// The libraries of functions; they have a version of their own.
    pub libraries: Libraries,
    /// What is called when rows and keys change.
    triggers: Triggers,
    /// What is called again and again; they have a version of their own.
    pub schedules: Schedules,
}

impl Catalog {
    /// How many rows a table may have.
    #[inline]
    pub fn bound(&self, table: TableId) -> Option<Bound> {
        if self.bounds.is_empty() { None } else { self.bounds.get(&table).copied() }
    }

    /// Grows at each change; plans and cached statements are good for one version (invariant 11).
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<TableDef>> {
        // Names mostly come as they were written; only others pay for the lower-case copy.
        self.tables.get(name).or_else(|| self.tables.get(&name.to_ascii_lowercase()))
    }

    /// The table of this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.tables.values().find(|t| t.id == id)
    }

    /// The table that has the index of this name, and the index.
    pub fn index(&self, name: &str) -> Option<(&Arc<TableDef>, &IndexDef)> {
        self.tables.values().find_map(|t| Some((t, t.indexes.iter().find(|i| i.name.eq_ignore_ascii_case(name))?)))
    }

    /// The view of this name.
    pub fn view(&self, name: &str) -> Option<&Arc<ViewDef>> {
        self.views.get(&name.to_ascii_lowercase())
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.tables.values()
    }

    /// All views, by name.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values()
    }

    /// All triggers.
    #[inline]
    pub fn triggers(&self) -> &Triggers {
        &self.triggers
    }

    /// Adds a trigger in the place of the one with its name, and gives that one.
    pub fn put_trigger(&mut self, trigger: Arc<TriggerDef>) -> Option<Arc<TriggerDef>> {
        // What a statement does depends on the triggers of its table.
        self.version += 1;
        self.triggers.put(trigger)
    }

    /// Removes a trigger.
    pub fn remove_trigger(&mut self, name: &str) -> Option<Arc<TriggerDef>> {
        let removed = self.triggers.remove(name)?;
        self.version += 1;
        Some(removed)
    }

    /// A library has come or gone: if SQL may call functions of it, statements are to be compiled anew.
    pub fn note_library(&mut self, library: Option<&LibraryDef>) {
        self.version += u64::from(library.is_some_and(LibraryDef::is_called_by_sql));
    }

    /// What it remembers of definitions that are gone.
    pub fn marks(&self) -> Marks {
        Marks { version: self.version, last_table: self.last_table, last_index: self.last_index }
    }

    /// Goes on from where another catalog was: ids that it gave are not given again.
    pub fn resume(&mut self, marks: Marks) {
        self.version = self.version.max(marks.version);
        self.last_table = self.last_table.max(marks.last_table);
        self.last_index = self.last_index.max(marks.last_index);
    }

    /// An id for a new table.
    pub fn next_table_id(&mut self) -> TableId {
        self.last_table += 1;
        TableId(self.last_table)
    }

    /// An id for a new index.
    pub fn next_index_id(&mut self) -> IndexId {
        self.last_index += 1;
        IndexId(self.last_index)
    }

    /// Adds a table, or puts a new definition in the place of the one with the same id (which may have another name).
    pub fn put_table(&mut self, def: TableDef) -> Result<Arc<TableDef>> {
        def.check()?;
        let key = def.name.to_ascii_lowercase();
        let taken = self.tables.get(&key).is_some_and(|t| t.id != def.id) || self.views.contains_key(&key);
        if taken {
            return Err(Error::new(Code::Sql, format!("table {} already exists", def.name)));
        }
        for index in &def.indexes {
            if self.index(&index.name).is_some_and(|(t, i)| t.id != def.id && i.id != index.id) {
                return Err(Error::new(Code::Sql, format!("index {} already exists", index.name)));
            }
        }
        // Definitions from a log or a checkpoint bring their ids along.
        self.last_table = self.last_table.max(def.id.0);
        self.last_index = def.indexes.iter().map(|i| i.id.0).fold(self.last_index, u32::max);
        self.tables.retain(|_, t| t.id != def.id);
        self.bounds.remove(&def.id);
        self.bounds.extend(def.bound.map(|bound| (def.id, bound)));
        let def = Arc::new(def);
        self.tables.insert(key, def.clone());
        self.version += 1;
        Ok(def)
    }

    /// Removes a table.
    pub fn remove_table(&mut self, name: &str) -> Option<Arc<TableDef>> {
        let removed = self.tables.remove(&name.to_ascii_lowercase())?;
        self.bounds.remove(&removed.id);
        self.version += 1;
        Some(removed)
    }

    /// Adds a view, or replaces the one of the same name.
    pub fn put_view(&mut self, view: ViewDef) -> Result<()> {
        let key = view.name.to_ascii_lowercase();
        if self.tables.contains_key(&key) {
            return Err(Error::new(Code::Sql, format!("table {} already exists", view.name)));
        }
        self.views.insert(key, Arc::new(view));
        self.version += 1;
        Ok(())
    }

    /// Removes a view.
    pub fn remove_view(&mut self, name: &str) -> Option<Arc<ViewDef>> {
        let removed = self.views.remove(&name.to_ascii_lowercase())?;
        self.version += 1;
        Some(removed)
    }

    /// Appends the deterministic encoding of the whole catalog.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.version, self.last_table.into(), self.last_index.into(), self.tables.len() as u64] {
            put_varint(out, number);
        }
        self.tables.values().for_each(|t| t.encode(out));
        put_varint(out, self.views.len() as u64);
        for view in self.views.values() {
            put_text(out, &view.name);
            put_text(out, &view.sql);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut &[u8]) -> Result<Catalog> {
        let (version, last_table, last_index) = (take_varint(input)?, take_u32(input)?, take_u32(input)?);
        let mut catalog = Catalog { last_table, last_index, ..Catalog::default() };
        for _ in 0..take_varint(input)? {
            catalog.put_table(TableDef::decode(input)?)?;
        }
        for _ in 0..take_varint(input)? {
            catalog.put_view(ViewDef { name: take_text(input)?, sql: take_text(input)? })?;
        }
        catalog.version = version;
        Ok(catalog)
    }
}

/// First byte of a table definition's encoding; another one means another format.
const TABLE_FORMAT: u8 = 1;
/// That of one with a bound, which follows the rest.
const TABLE_FORMAT_BOUND: u8 = 2;

impl TableDef {
    /// Appends the deterministic encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.bound.is_some() { TABLE_FORMAT_BOUND } else { TABLE_FORMAT });
        put_varint(out, self.id.0.into());
        put_text(out, &self.name);
        put_text(out, &self.engine);
        put_list(out, &self.stored, |out, stored| {
            out.push(storage_byte(stored.storage));
            stored.missing.encode(out);
        });
        put_list(out, &self.versions, |out, n| put_varint(out, u64::from(*n)));
        put_list(out, &self.columns, put_column);
        put_list(out, &self.indexes, put_index);
        put_list(out, &self.checks, |out, check| {
            put_option(out, &check.name);
            put_text(out, &check.expression);
        });
        put_list(out, &self.foreign_keys, put_foreign_key);
        if let Some(bound) = self.bound {
            put_varint(out, bound.max_rows);
            out.push(bound.evict as u8);
        }
    }

    /// Reads what [`encode`](Self::encode) wrote, and checks it.
    pub fn decode(input: &mut &[u8]) -> Result<TableDef> {
        let format = take(input, 1)?[0];
        if ![TABLE_FORMAT, TABLE_FORMAT_BOUND].contains(&format) {
            return Err(damaged());
        }
        let def = TableDef {
            id: TableId(take_u32(input)?),
            name: take_text(input)?,
            engine: take_text(input)?,
            stored: take_list(input, |input| {
                let storage = storage_of(take(input, 1)?[0])?;
                Ok(StoredColumn { storage, missing: Datum::decode(input)? })
            })?,
            versions: take_list(input, take_u16)?,
            columns: take_list(input, take_column)?,
            indexes: take_list(input, take_index)?,
            checks: take_list(input, |input| {
                Ok(CheckDef { name: take_option(input)?, expression: take_text(input)? })
            })?,
            foreign_keys: take_list(input, take_foreign_key)?,
            bound: if format == TABLE_FORMAT_BOUND { Some(take_bound(input)?) } else { None },
        };
        def.check()?;
        Ok(def)
    }
}

fn take_bound(input: &mut &[u8]) -> Result<Bound> {
    let (max_rows, evict) = (take_varint(input)?, usize::from(take(input, 1)?[0]));
    let evict = [Evict::Refuse, Evict::Lru, Evict::Fifo].get(evict).copied().ok_or_else(damaged)?;
    Ok(Bound { max_rows, evict })
}

fn put_column(out: &mut Vec<u8>, column: &ColumnDef) {
    put_text(out, &column.name);
    put_text(out, &column.declared);
    put_type(out, column.ctype);
    out.push(column.collation as u8);
    put_varint(out, column.position.into());
    let flags = [column.not_null, column.autoincrement, column.hidden];
    out.push(flags.iter().enumerate().fold(0, |byte, (bit, &set)| byte | u8::from(set) << bit));
    put_option(out, &column.default);
    put_option(out, &column.generated);
}

fn take_column(input: &mut &[u8]) -> Result<ColumnDef> {
    let (name, declared, ctype) = (take_text(input)?, take_text(input)?, take_type(input)?);
    let (collation, position) = (take_collation(input)?, take_u16(input)?);
    let flags = take(input, 1)?[0];
    Ok(ColumnDef {
        name,
        declared,
        ctype,
        collation,
        position,
        not_null: flags & 1 != 0,
        autoincrement: flags & 2 != 0,
        hidden: flags & 4 != 0,
        default: take_option(input)?,
        generated: take_option(input)?,
    })
}

fn put_index(out: &mut Vec<u8>, index: &IndexDef) {
    put_varint(out, index.id.0.into());
    put_text(out, &index.name);
    put_list(out, &index.columns, |out, column| {
        put_varint(out, column.position.into());
        out.extend([u8::from(column.desc), column.collation as u8]);
    });
    out.extend([u8::from(index.unique), index.method as u8, index.origin as u8]);
    put_varint(out, index.filter.map_or(0, |p| u64::from(p) + 1));
}

fn take_index(input: &mut &[u8]) -> Result<IndexDef> {
    let (id, name) = (IndexId(take_u32(input)?), take_text(input)?);
    let columns = take_list(input, |input| {
        let (position, desc) = (take_u16(input)?, take(input, 1)?[0] != 0);
        Ok(IndexColumn { position, desc, collation: take_collation(input)? })
    })?;
    let unique = take(input, 1)?[0] != 0;
    let method = [Method::Hash, Method::Ordered].get(usize::from(take(input, 1)?[0])).copied().ok_or_else(damaged)?;
    let origins = [Origin::PrimaryKey, Origin::Unique, Origin::Created];
    let origin = origins.get(usize::from(take(input, 1)?[0])).copied().ok_or_else(damaged)?;
    let filter = take_varint(input)?.checked_sub(1).map(u16::try_from).transpose().map_err(|_| damaged())?;
    Ok(IndexDef { id, name, columns, unique, method, origin, filter })
}

fn put_foreign_key(out: &mut Vec<u8>, key: &ForeignKey) {
    put_option(out, &key.name);
    put_list(out, &key.columns, |out, name| put_text(out, name));
    put_text(out, &key.parent);
    put_list(out, &key.parent_columns, |out, name| put_text(out, name));
    out.extend([key.on_delete as u8, key.on_update as u8]);
}

fn take_foreign_key(input: &mut &[u8]) -> Result<ForeignKey> {
    Ok(ForeignKey {
        name: take_option(input)?,
        columns: take_list(input, take_text)?,
        parent: take_text(input)?,
        parent_columns: take_list(input, take_text)?,
        on_delete: take_action(input)?,
        on_update: take_action(input)?,
    })
}

fn take_action(input: &mut &[u8]) -> Result<Action> {
    use Action::*;
    let byte = usize::from(take(input, 1)?[0]);
    [NoAction, Restrict, Cascade, SetNull, SetDefault].get(byte).copied().ok_or_else(damaged)
}

fn take_collation(input: &mut &[u8]) -> Result<Collation> {
    use Collation::*;
    [Binary, NoCase, RTrim, Decimal].get(usize::from(take(input, 1)?[0])).copied().ok_or_else(damaged)
}

const STORAGES: [Storage; 5] = [Storage::Int, Storage::Real, Storage::Text, Storage::Blob, Storage::Any];

fn storage_byte(storage: Storage) -> u8 {
    storage as u8
}

fn storage_of(byte: u8) -> Result<Storage> {
    STORAGES.get(usize::from(byte)).copied().ok_or_else(damaged)
}

/// A type as three bytes' worth of numbers: its kind, then its arguments plus one (0: absent).
fn put_type(out: &mut Vec<u8>, ctype: ColumnType) {
    let (kind, first, second) = match ctype {
        ColumnType::Integer => (0, 0, 0),
        ColumnType::Real => (1, 0, 0),
        ColumnType::Text { chars_max } => (2, chars_max.map_or(0, |n| u64::from(n) + 1), 0),
        ColumnType::Blob => (3, 0, 0),
        ColumnType::Date => (4, 0, 0),
        ColumnType::DateTime => (5, 0, 0),
        ColumnType::Json => (6, 0, 0),
        ColumnType::Decimal { precision, scale } => (7, precision.into(), scale.map_or(0, |s| u64::from(s) + 1)),
        ColumnType::Any => (8, 0, 0),
    };
    [kind, first, second].into_iter().for_each(|n| put_varint(out, n));
}

fn take_type(input: &mut &[u8]) -> Result<ColumnType> {
    let (kind, first, second) = (take_varint(input)?, take_varint(input)?, take_varint(input)?);
    let small = |n: u64| u8::try_from(n).map_err(|_| damaged());
    Ok(match kind {
        0 => ColumnType::Integer,
        1 => ColumnType::Real,
        2 => {
            let chars_max = first.checked_sub(1).map(u32::try_from).transpose().map_err(|_| damaged())?;
            ColumnType::Text { chars_max }
        }
        3 => ColumnType::Blob,
        4 => ColumnType::Date,
        5 => ColumnType::DateTime,
        6 => ColumnType::Json,
        7 => ColumnType::Decimal { precision: small(first)?, scale: second.checked_sub(1).map(small).transpose()? },
        8 => ColumnType::Any,
        _ => return Err(damaged()),
    })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn take_text(input: &mut &[u8]) -> Result<String> {
    std::str::from_utf8(take_bytes(input)?).map(str::to_owned).map_err(|_| damaged())
}

fn put_option(out: &mut Vec<u8>, text: &Option<String>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

fn take_option(input: &mut &[u8]) -> Result<Option<String>> {
    if take(input, 1)?[0] == 0 { Ok(None) } else { take_text(input).map(Some) }
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

fn take_list<T>(input: &mut &[u8], mut take_item: impl FnMut(&mut &[u8]) -> Result<T>) -> Result<Vec<T>> {
    // Grown item by item: a hostile count allocates nothing that the input does not pay for.
    let mut items = Vec::new();
    for _ in 0..take_varint(input)? {
        items.push(take_item(input)?);
    }
    Ok(items)
}

fn take_u32(input: &mut &[u8]) -> Result<u32> {
    u32::try_from(take_varint(input)?).map_err(|_| damaged())
}

fn take_u16(input: &mut &[u8]) -> Result<u16> {
    u16::try_from(take_varint(input)?).map_err(|_| damaged())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `CREATE TABLE name (id INTEGER PRIMARY KEY USING HASH, ...)` with the given columns after `id`.
    pub(crate) fn table(name: &str, columns: &[(&str, &str)]) -> TableDef {
        let mut def = TableDef::new(name);
        def.add_column("id", "INTEGER").unwrap().not_null = true;
        for (column, declared) in columns {
            def.add_column(column, declared).unwrap();
        }
        def
    }

    /// An index over columns given by name.
    pub(crate) fn index(def: &TableDef, id: u32, columns: &[&str], unique: bool, method: Method) -> IndexDef {
        let columns = columns.iter().map(|name| def.column(name).expect("a column").1);
        let columns = columns.map(|c| IndexColumn { position: c.position, desc: false, collation: c.collation });
        let (name, columns) = (format!("i{id}"), columns.collect());
        IndexDef { id: IndexId(id), name, columns, unique, method, origin: Origin::Created, filter: None }
    }

    fn rich() -> TableDef {
        let mut def = table("Orders", &[("customer", "VARCHAR(20)"), ("price", "DECIMAL(10,2)"), ("note", "JSON")]);
        def.id = TableId(3);
        def.columns[2].default = Some("1.50".into());
        def.columns[3].generated = Some("json_object('a', id)".into());
        def.columns[3].hidden = true;
        def.add_column_later("late", "REAL", Datum::Real(0.5)).unwrap();
        let mut primary = index(&def, 1, &["id"], true, Method::Hash);
        primary.origin = Origin::PrimaryKey;
        let mut second = index(&def, 2, &["customer", "price"], false, Method::Ordered);
        second.columns[1].desc = true;
        second.filter = Some(3);
        def.indexes = vec![primary, second];
        def.checks.push(CheckDef { name: Some("positive".into()), expression: "price > 0".into() });
        def.foreign_keys.push(ForeignKey {
            name: None,
            columns: vec!["customer".into()],
            parent: "customers".into(),
            parent_columns: vec![],
            on_delete: Action::Cascade,
            on_update: Action::SetNull,
        });
        def
    }

    #[test]
    fn definitions_read_back_and_refuse_cut_input() {
        read_back(&rich());
        read_back(&TableDef { bound: Some(Bound { max_rows: 1000, evict: Evict::Fifo }), ..rich() });
    }

    fn read_back(def: &TableDef) {
        let mut bytes = Vec::new();
        def.encode(&mut bytes);
        let mut input = &bytes[..];
        assert_eq!(*def, TableDef::decode(&mut input).unwrap());
        assert!(input.is_empty());
        for cut in 0..bytes.len() {
            assert!(TableDef::decode(&mut &bytes[..cut]).is_err(), "cut at {cut}");
        }
        // Any single wrong byte is refused or gives another valid definition; it never panics.
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7F, 0xFF] {
                let mut wrong = bytes.clone();
                wrong[at] = byte;
                let _ = TableDef::decode(&mut &wrong[..]);
            }
        }
    }

    #[test]
    fn a_catalog_reads_back_and_counts_its_changes() {
        let mut catalog = Catalog::default();
        let bound = Some(Bound { max_rows: 7, evict: Evict::Lru });
        catalog.put_table(TableDef { bound, ..rich() }).unwrap();
        assert_eq!(bound, catalog.bound(TableId(3)));
        let mut other = table("other", &[]);
        other.id = catalog.next_table_id();
        assert_eq!(TableId(4), other.id);
        catalog.put_table(other).unwrap();
        catalog.put_view(ViewDef { name: "V".into(), sql: "CREATE VIEW V AS SELECT 1".into() }).unwrap();
        assert_eq!(3, catalog.version());
        assert!(catalog.table("ORDERS").is_some());
        assert!(catalog.view("v").is_some());
        assert_eq!(IndexId(2), catalog.index("I2").unwrap().1.id);
        assert_eq!(IndexId(3), catalog.next_index_id());
        let mut bytes = Vec::new();
        catalog.encode(&mut bytes);
        assert_eq!(catalog, Catalog::decode(&mut &bytes[..]).unwrap());
    }

    #[test]
    fn names_collide_without_case_and_rename_moves() {
        let mut catalog = Catalog::default();
        let mut def = rich();
        catalog.put_table(def.clone()).unwrap();
        let mut twin = table("ORDERS", &[]);
        twin.id = TableId(9);
        assert!(catalog.put_table(twin).is_err());
        def.name = "purchases".into();
        catalog.put_table(def).unwrap();
        assert!(catalog.table("orders").is_none());
        assert!(catalog.table("Purchases").is_some());
        assert!(catalog.remove_table("purchases").is_some());
        assert_eq!(3, catalog.version());
    }

    #[test]
    fn columns_added_later_get_a_version() {
        let def = rich();
        assert_eq!(vec![4, 5], def.versions);
        assert_eq!(1, def.version());
        assert_eq!("late", def.columns[3].name); // before the hidden column
        assert!(def.clone().add_column("LATE", "REAL").is_err());
        assert!(def.clone().add_column("x", "POINT").is_err());
    }
}
