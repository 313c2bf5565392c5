//! Foreign keys resolved against the tables there are: by which index the parent is found, and the child.

use crate::table::catalog::{
    Action, Catalog, ColumnDef, ForeignKey, IndexColumn, IndexDef, IndexId, Method, TableDef, TableId,
};
use crate::table::datum::{Datum, DatumRef, real_text};
use crate::table::key::{KeyBuf, put_column};
use crate::table::row::Row;
use crate::table::types::{self, Storage};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// The foreign keys that a table has part in.
#[derive(Debug, Default)]
pub struct Links {
    /// Those by which its rows refer to others.
    pub parents: Vec<Arc<Link>>,
    /// Those by which other rows refer to its own.
    pub children: Vec<Arc<Link>>,
}

/// One foreign key. Parts of the key stand in the order of the parent's index.
#[derive(Debug)]
pub struct Link {
    /// The referring table.
    pub child: TableId,
    /// Its name.
    pub child_name: String,
    /// The table referred to.
    pub parent_name: String,
    /// Its id and the unique index by which it is found, or what is wrong with the foreign key.
    pub parent: Result<(TableId, IndexId), String>,
    /// The parts.
    pub parts: SmallVec<[Part; 2]>,
    /// The child's index that finds referring rows.
    pub child_index: Option<ChildIndex>,
    /// What happens to referring rows when the parent row goes.
    pub on_delete: Action,
    /// What happens when its key changes.
    pub on_update: Action,
}

/// An index of the child: its first columns are those of the key, given as places among the parts.
#[derive(Clone, Debug)]
pub struct ChildIndex {
    /// The index.
    pub id: IndexId,
    /// For each of its first columns, which part it holds.
    pub columns: SmallVec<[(usize, IndexColumn); 2]>,
}

/// One column of a foreign key.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where child rows keep it.
    pub child: u16,
    /// Its place among the child's columns.
    pub child_column: usize,
    /// The parent's column, as its index has it.
    pub parent: IndexColumn,
    storage: Storage,
}

/// The values of a key, one for each part.
pub type Values = SmallVec<[Datum; 2]>;

impl Link {
    /// The key that a child row refers to, in the parent's form; None when a part is NULL.
    pub fn key_of_child(&self, row: Row<'_>) -> Option<Values> {
        self.parts.iter().map(|part| part.fitted(row.get(part.child))).collect()
    }

    /// The key of a parent row; None when a part is NULL.
    pub fn key_of_parent(&self, row: Row<'_>) -> Option<Values> {
        let value = |part: &Part| Some(row.get(part.parent.position)).filter(|value| !value.is_null());
        self.parts.iter().map(|part| value(part).map(DatumRef::to_owned)).collect()
    }

    /// The key as bytes in the parent's index; equal keys have equal bytes.
    pub fn encoded(&self, values: &Values) -> KeyBuf {
        let mut key = KeyBuf::new();
        for (part, value) in self.parts.iter().zip(values) {
            put_column(value.as_ref(), &part.parent, &mut key);
        }
        key
    }

    /// "child.a, child.b"
    pub fn child_columns(&self, def: &TableDef) -> String {
        let names: Vec<String> =
            self.parts.iter().map(|p| format!("{}.{}", self.child_name, def.columns[p.child_column].name)).collect();
        names.join(", ")
    }
}

impl Part {
    /// A child's value as the parent's column compares it.
    fn fitted(&self, value: DatumRef<'_>) -> Option<Datum> {
        Some(match (self.storage, value) {
            (_, DatumRef::Null) => return None,
            (Storage::Int | Storage::Real, DatumRef::Text(bytes)) => types::number(bytes).unwrap_or(value).to_owned(),
            (Storage::Text, DatumRef::Int(i)) => Datum::text(itoa::Buffer::new().format(i)),
            (Storage::Text, DatumRef::Real(r)) => Datum::text(real_text(r)),
            _ => value.to_owned(),
        })
    }
}

/// The foreign keys of all tables that have part in any.
pub fn resolve(catalog: &Catalog) -> HashMap<TableId, Links> {
    let mut links: HashMap<TableId, Links> = HashMap::new();
    for child in catalog.tables() {
        for key in &child.foreign_keys {
            let link = Arc::new(link_of(catalog, child, key));
            links.entry(child.id).or_default().parents.push(link.clone());
            if let Some(parent) = catalog.table(&key.parent) {
                links.entry(parent.id).or_default().children.push(link);
            }
        }
    }
    links
}

/// Resolves one foreign key of `child`.
pub fn link_of(catalog: &Catalog, child: &TableDef, key: &ForeignKey) -> Link {
    // A table that is being made may refer to itself.
    let itself = child.name.eq_ignore_ascii_case(&key.parent).then_some(child);
    let parent = itself.or_else(|| catalog.table(&key.parent).map(|def| &**def));
    let found = match parent {
        None => Err(format!("no such table: {}, to which table {} refers", key.parent, child.name)),
        Some(parent) => parts_of(child, parent, key).map(|(index, parts)| (parent.id, index, parts)),
    };
    let (parent, parts) = match found {
        Ok((table, index, parts)) => (Ok((table, index)), parts),
        Err(why) => (Err(why), SmallVec::new()),
    };
    Link {
        child: child.id,
        child_name: child.name.clone(),
        parent_name: key.parent.clone(),
        child_index: child_index(child, &parts),
        parent,
        parts,
        on_delete: key.on_delete,
        on_update: key.on_update,
    }
}

/// The parent's unique index on just the columns referred to, and the parts in its order.
fn parts_of(child: &TableDef, parent: &TableDef, key: &ForeignKey) -> Result<(IndexId, SmallVec<[Part; 2]>), String> {
    let mismatch =
        |why: String| format!("foreign key mismatch: table {} refers to table {}, {why}", child.name, parent.name);
    let positions: Vec<u16> = match key.parent_columns.is_empty() {
        true => parent.primary_key().map_or(Vec::new(), |index| index.columns.iter().map(|c| c.position).collect()),
        false => {
            let position = |name: &String| {
                let column = parent.column(name).filter(|(_, c)| !c.hidden);
                column.map(|(_, c)| c.position).ok_or_else(|| mismatch(format!("which has no column {name}")))
            };
            key.parent_columns.iter().map(position).collect::<Result<_, _>>()?
        }
    };
    if positions.is_empty() {
        return Err(mismatch("which has no primary key".into()));
    }
    if positions.len() != key.columns.len() {
        return Err(mismatch(format!("{} columns to {}", key.columns.len(), positions.len())));
    }
    let fits = |index: &&IndexDef| {
        let own =
            |column: &IndexColumn| parent.column_at(column.position).is_some_and(|c| c.collation == column.collation);
        index.unique
            && index.filter.is_none()
            && index.columns.len() == positions.len()
            && index.columns.iter().all(|c| positions.contains(&c.position) && own(c))
    };
    let index = parent.indexes.iter().filter(fits).min_by_key(|index| index.method != Method::Hash);
    let index = index.ok_or_else(|| mismatch("whose columns are neither PRIMARY KEY nor UNIQUE".into()))?;
    let part = |column: &IndexColumn| {
        let place = positions.iter().position(|p| *p == column.position)?;
        let (child_column, def) = child.column(&key.columns[place])?;
        let storage = parent.stored[usize::from(column.position)].storage;
        Some(Part { child: def.position, child_column, parent: *column, storage })
    };
    let parts: Option<SmallVec<[Part; 2]>> = index.columns.iter().map(part).collect();
    let parts = parts.ok_or_else(|| mismatch(format!("by a column that {} does not have", child.name)))?;
    Ok((index.id, parts))
}

/// An index of the child by whose first columns referring rows are found, if their values compare as the parent's do.
fn child_index(child: &TableDef, parts: &[Part]) -> Option<ChildIndex> {
    let serves = |index: &IndexDef| {
        let whole = index.columns.len() == parts.len();
        if parts.is_empty() || index.filter.is_some() || (index.method == Method::Hash && !whole) {
            return None;
        }
        let columns = index.columns.get(..parts.len())?;
        let place = |column: &IndexColumn| {
            let place = parts.iter().position(|part| part.child == column.position)?;
            compares_alike(child.column_at(column.position)?, column, &parts[place]).then_some((place, *column))
        };
        Some(ChildIndex { id: index.id, columns: columns.iter().map(place).collect::<Option<_>>()? })
    };
    child.indexes.iter().find_map(serves)
}

fn compares_alike(child: &ColumnDef, column: &IndexColumn, part: &Part) -> bool {
    match (child.ctype.storage(), part.storage) {
        (Storage::Int | Storage::Real, Storage::Int | Storage::Real) | (Storage::Blob, Storage::Blob) => true,
        (Storage::Text, Storage::Text) => column.collation == part.parent.collation,
        _ => false,
    }
}
