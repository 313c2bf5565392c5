//! The tables that a query names, and the columns of theirs that it means.

use super::read::{Condition, Reader};
use crate::sql::run::Host;
use crate::sql::table_info::TableInfo;
use crate::sql::vtab::plan::Op;
use crate::table::catalog::{ColumnDef, IndexColumn};
use crate::table::datum::DatumRef;
use crate::table::row::{Row, RowLayout};
use crate::table::types::Storage;
use smallvec::SmallVec;
use std::sync::Arc;

/// A table under the name that the query gives it.
pub struct Named {
    /// The table.
    pub info: Arc<TableInfo>,
    /// The name.
    pub name: String,
    has_alias: bool,
}

/// The one or two tables of a query.
pub struct Tables(pub SmallVec<[Named; 2]>);

/// A column of one of the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Which table.
    pub side: usize,
    /// The column's place in it.
    pub column: usize,
    /// Its position in rows.
    pub position: u16,
}

/// A row where it lies, of which most likely numbers are wanted: nothing is read of it before a value is.
#[derive(Clone, Copy)]
pub struct Lying<'a> {
    /// The row.
    pub bytes: &'a [u8],
    /// How it is read.
    pub layout: &'a RowLayout,
}

impl<'a> Lying<'a> {
    /// The value at a position.
    #[inline(always)]
    pub fn get(&self, position: u16) -> DatumRef<'a> {
        self.layout.number(self.bytes, position).unwrap_or_else(|| Row::new(self.bytes, self.layout).get(position))
    }
}

/// A row of each table.
#[derive(Clone, Copy)]
pub struct Rows<'a>(pub [Option<&'a Lying<'a>>; 2]);

impl<'a> Rows<'a> {
    /// The value of a column; NULL where there is no row.
    #[inline(always)]
    pub fn get(&self, field: Field) -> DatumRef<'a> {
        match self.0[field.side] {
            Some(row) => row.get(field.position),
            None => DatumRef::Null,
        }
    }
}

impl Tables {
    /// Reads `table [JOIN table]` and what stands for JOIN. The order of words is checked by `skip`.
    pub fn read(reader: &mut Reader<'_>, host: &mut dyn Host) -> Option<Tables> {
        let mut tables: SmallVec<[Named; 2]> = SmallVec::new();
        loop {
            let (info, alias) = reader.table(host)?;
            let has_alias = alias.is_some();
            tables.push(Named { name: alias.unwrap_or_else(|| info.def.name.clone()), info, has_alias });
            if tables.len() == 2 || join_word(reader).is_none() {
                break;
            }
        }
        let same = tables.len() == 2 && tables[0].name.eq_ignore_ascii_case(&tables[1].name);
        (!same).then_some(Tables(tables))
    }

    /// Steps over a table that was read before.
    pub fn skip(&self, reader: &mut Reader<'_>, side: usize) -> Option<()> {
        reader.skip_table(self.0[side].has_alias)
    }

    /// A column by its name, perhaps with a table's in front.
    pub fn field(&self, reader: &mut Reader<'_>) -> Option<Field> {
        let first = reader.name()?;
        let (table, name) = match reader.symbol(".") {
            Some(()) => (Some(first), reader.name()?),
            None => (None, first),
        };
        let is_meant = |named: &&Named| table.as_ref().is_none_or(|table| named.name.eq_ignore_ascii_case(table));
        let mut found = self.0.iter().enumerate().filter(|(_, named)| is_meant(named)).filter_map(|(side, named)| {
            named.info.def.column(&name).map(|(column, def)| Field { side, column, position: def.position })
        });
        // A name that means two columns is SQLite's to refuse.
        let field = found.next()?;
        found.next().is_none().then_some(field)
    }

    /// All columns that `*` stands for.
    pub fn all(&self) -> impl Iterator<Item = Field> {
        self.0.iter().enumerate().flat_map(|(side, named)| {
            let columns = named.info.def.columns.iter().enumerate().filter(|(_, def)| !def.hidden);
            columns.map(move |(column, def)| Field { side, column, position: def.position })
        })
    }

    /// The definition of a column.
    pub fn column(&self, field: Field) -> &ColumnDef {
        &self.0[field.side].info.def.columns[field.column]
    }

    /// How a column is stored.
    pub fn storage(&self, field: Field) -> Storage {
        self.0[field.side].info.def.stored[usize::from(field.position)].storage
    }

    /// How keys are made of a column.
    pub fn key_column(&self, field: Field) -> IndexColumn {
        IndexColumn { position: field.position, desc: false, collation: self.column(field).collation }
    }
}

/// Steps over what joins two tables; a LEFT JOIN is told.
pub fn join_word(reader: &mut Reader<'_>) -> Option<bool> {
    if reader.symbol(",").is_some() {
        return Some(false);
    }
    let left = reader.word("LEFT").is_some();
    let _ = if left { reader.word("OUTER") } else { reader.word("INNER") };
    reader.word("JOIN").map(|()| left)
}

/// What WHERE and ON demand, all of it.
#[derive(Default)]
pub struct Demands {
    /// Comparisons of a column with values, of each table.
    pub conditions: [SmallVec<[Condition; 4]>; 2],
    /// Columns of the first table that equal columns of the second.
    pub equal: SmallVec<[[Field; 2]; 2]>,
}

impl Demands {
    /// Reads `condition [AND ...]`, perhaps in brackets.
    pub fn read(&mut self, reader: &mut Reader<'_>, tables: &Tables) -> Option<()> {
        let bracket = reader.symbol("(").is_some();
        loop {
            self.one(reader, tables)?;
            if reader.word("AND").is_none() {
                break;
            }
        }
        if bracket { reader.symbol(")") } else { Some(()) }
    }

    fn one(&mut self, reader: &mut Reader<'_>, tables: &Tables) -> Option<()> {
        let field = tables.field(reader)?;
        let mut add = |op, values, list| {
            self.conditions[field.side].push(Condition { column: field.column, op, values, list });
        };
        if reader.word("BETWEEN").is_some() {
            let low = reader.value()?;
            reader.word("AND")?;
            add(Op::GreaterOrEqual, SmallVec::from_iter([low]), false);
            add(Op::LessOrEqual, SmallVec::from_iter([reader.value()?]), false);
            return Some(());
        }
        if reader.word("IN").is_some() {
            add(Op::Equal, reader.list()?, true);
            return Some(());
        }
        if reader.word("IS").is_some() {
            let op = if reader.word("NOT").is_some() { Op::NotNull } else { Op::IsNull };
            reader.word("NULL")?;
            add(op, SmallVec::new(), false);
            return Some(());
        }
        let op = reader.comparison()?;
        if let Some(value) = reader.value() {
            add(op, SmallVec::from_iter([value]), false);
            return Some(());
        }
        let other = tables.field(reader)?;
        let mut pair = [field, other];
        pair.sort_by_key(|field| field.side);
        (op == Op::Equal && field.side != other.side).then(|| self.equal.push(pair))
    }
}
