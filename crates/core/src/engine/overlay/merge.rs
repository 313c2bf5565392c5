//! A walk over a view and the private rows above it, in one order.
//!
//! Two cursors stand on the next row of each side; the walk shows the one that comes first. Rows of the view that are
//! shadowed are passed over. Both cursors, and the shadows, are those of the moment at which the walk began.

use super::read::own_by_id;
use super::shadow::{Place, Shadows};
use super::{Overlay, Written};
use crate::engine::{Access, Cursor, Read, Source};
use crate::error::{Code, Error};
use crate::table::catalog::{IndexId, TableDef, TableId};
use crate::table::key::{KeyBuf, row_key};
use crate::table::row::Row;
use crate::table::row_id::RowId;
use std::cmp::Ordering;
use std::sync::Arc;

/// A walk.
pub(super) struct Walk {
    base: Side,
    own: Side,
    shadows: Arc<Shadows>,
    order: Order,
    /// It stands on a private row.
    on_own: bool,
}

/// One of the two cursors.
#[derive(Default)]
struct Side {
    cursor: Cursor,
    /// It stands on a row.
    stands: bool,
    /// The id of that row, as others know it.
    id: RowId,
    /// Its key, if the order is by key and it was asked for.
    key: KeyBuf,
    has_key: bool,
}

/// What comes first.
enum Order {
    /// The smaller id; the ids of the private rows, in the order of their cursor, come from a list.
    ById { ids: Vec<RowId>, at: usize },
    /// The smaller key, or the larger one; then the id.
    ByKey { def: Arc<TableDef>, index: IndexId, reverse: bool, keys_only: bool },
    /// What a list says.
    Listed { places: Vec<(RowId, Place)>, at: usize },
}

impl Walk {
    /// Opens both cursors; `stand` then finds the first row.
    pub fn begin(overlay: &Overlay, table: TableId, written: &Written, access: &Access<'_>) -> Read<Walk> {
        match *access {
            Access::All => Walk::by_id(overlay, table, written, RowId(0)),
            Access::From(id) => Walk::by_id(overlay, table, written, id),
            Access::Rows(ids) => Walk::listed(overlay, table, written, ids.iter().copied()),
            Access::Keys { index, keys } => {
                let mut found = false;
                overlay.own.get_many(table, index, keys, &mut |_, _, _| found = true)?;
                if !found {
                    // The view alone has such rows: nothing to be merged.
                    let order = Order::ById { ids: Vec::new(), at: 0 };
                    return Walk::open(overlay, table, written, order, access, &Access::Rows(&[]));
                }
                let mut ids = Vec::new();
                overlay.get_many(table, index, keys, &mut |_, id, _| ids.push(id))?;
                Walk::listed(overlay, table, written, ids.into_iter())
            }
            Access::Range { index, reverse, keys_only, .. } => {
                let def = overlay.base.definition(table)?.clone();
                let order = Order::ByKey { def, index, reverse, keys_only };
                Walk::open(overlay, table, written, order, access, access)
            }
        }
    }

    fn by_id(overlay: &Overlay, table: TableId, written: &Written, from: RowId) -> Read<Walk> {
        let rows = own_by_id(overlay, table, written, from)?;
        let own: Vec<RowId> = rows.iter().map(|(_, own)| *own).collect();
        let order = Order::ById { ids: rows.into_iter().map(|(id, _)| id).collect(), at: 0 };
        Walk::open(overlay, table, written, order, &Access::From(from), &Access::Rows(&own))
    }

    fn listed(overlay: &Overlay, table: TableId, written: &Written, ids: impl Iterator<Item = RowId>) -> Read<Walk> {
        let places: Vec<(RowId, Place)> = ids.map(|id| (id, written.place(id))).collect();
        let of = |wanted: fn(Place) -> Option<RowId>| -> Vec<RowId> {
            places.iter().filter_map(|(_, place)| wanted(*place)).collect()
        };
        let base = of(|place| if let Place::Base(id) = place { Some(id) } else { None });
        let own = of(|place| if let Place::Own(id) = place { Some(id) } else { None });
        let order = Order::Listed { places, at: 0 };
        Walk::open(overlay, table, written, order, &Access::Rows(&base), &Access::Rows(&own))
    }

    fn open(
        overlay: &Overlay,
        table: TableId,
        written: &Written,
        order: Order,
        base: &Access<'_>,
        own: &Access<'_>,
    ) -> Read<Walk> {
        let shadows = written.shadows.clone();
        let mut walk = Walk { base: Side::default(), own: Side::default(), shadows, order, on_own: false };
        walk.base.stands = overlay.base.seek(&mut walk.base.cursor, table, base)?;
        walk.own.stands = overlay.own.seek(&mut walk.own.cursor, table, own)?;
        Ok(walk)
    }

    /// Leaves the row that the walk stands on.
    pub fn step(&mut self, overlay: &Overlay) -> Read<()> {
        match (&mut self.order, self.on_own) {
            (Order::ById { at, .. }, true) | (Order::Listed { at, .. }, _) => *at += 1,
            _ => {}
        }
        if self.on_own { self.own.next(&overlay.own) } else { self.base.next(&*overlay.base) }
    }

    /// Finds the row to stand on, from where both cursors are; false: there is none.
    pub fn stand(&mut self, overlay: &Overlay, table: TableId) -> Read<bool> {
        while self.base.stands && self.shadows.contains_key(&self.base.cursor.row_id()) {
            self.base.next(&*overlay.base)?;
        }
        if let Order::Listed { places, at } = &mut self.order {
            return Ok(match stand_listed(places, at, &mut self.base, &mut self.own) {
                Some(on_own) => {
                    self.on_own = on_own;
                    true
                }
                None => false,
            });
        }
        if self.base.stands {
            self.base.id = self.base.cursor.row_id();
        }
        if self.own.stands {
            self.own.id = match &self.order {
                Order::ById { ids, at } => ids[*at],
                _ => overlay.written_in(table).map_or(RowId(0), |written| written.id_of(self.own.cursor.row_id())),
            };
        }
        self.on_own = match (self.base.stands, self.own.stands) {
            (false, false) => return Ok(false),
            (base, own) if base != own => own,
            _ => self.own_is_first(overlay)?,
        };
        Ok(true)
    }

    fn own_is_first(&mut self, overlay: &Overlay) -> Read<bool> {
        let Walk { base, own, order, .. } = self;
        let Order::ByKey { def, index, reverse, keys_only } = order else { return Ok(own.id < base.id) };
        base.read_key(&*overlay.base, def, *index, *keys_only)?;
        own.read_key(&overlay.own, def, *index, *keys_only)?;
        let order = own.key.cmp(&base.key).then(own.id.cmp(&base.id));
        Ok(order == if *reverse { Ordering::Greater } else { Ordering::Less })
    }

    fn side(&self) -> &Side {
        if self.on_own { &self.own } else { &self.base }
    }

    /// The id of the row it stands on.
    pub fn id(&self) -> RowId {
        self.side().id
    }

    /// The key of the row it stands on, if it walks keys alone.
    pub fn key(&self) -> Option<&[u8]> {
        let keys_only = matches!(self.order, Order::ByKey { keys_only: true, .. });
        keys_only.then(|| self.side().cursor.key())
    }

    /// The row it stands on.
    pub fn row<'a>(&'a self, overlay: &'a Overlay) -> Row<'a> {
        if self.on_own { overlay.own.row(&self.own.cursor) } else { overlay.base.row(&self.base.cursor) }
    }
}

/// Goes on in a list to the first place whose row there is; true: a private one.
fn stand_listed(places: &[(RowId, Place)], at: &mut usize, base: &mut Side, own: &mut Side) -> Option<bool> {
    loop {
        let (id, place) = *places.get(*at)?;
        let (side, inner, on_own) = match place {
            Place::Base(inner) => (&mut *base, inner, false),
            Place::Own(inner) => (&mut *own, inner, true),
            Place::Nowhere => {
                *at += 1;
                continue;
            }
        };
        // The cursor stands on the next row that exists; if that is another one, this one does not.
        if side.stands && side.cursor.row_id() == inner {
            side.id = id;
            return Some(on_own);
        }
        *at += 1;
    }
}

impl Side {
    fn next(&mut self, source: &dyn Source) -> Read<()> {
        self.has_key = false;
        self.stands = source.next(&mut self.cursor)?;
        Ok(())
    }

    fn read_key(&mut self, source: &dyn Source, def: &TableDef, index: IndexId, keys_only: bool) -> Read<()> {
        if std::mem::replace(&mut self.has_key, true) {
            return Ok(());
        }
        if keys_only {
            self.key.clear();
            self.key.extend_from_slice(self.cursor.key());
            return Ok(());
        }
        let lost = || Error::new(Code::Engine, format!("table {} has no index number {}", def.name, index.0));
        row_key(def.index(index).ok_or_else(lost)?, source.row(&self.cursor), &mut self.key)?;
        Ok(())
    }
}
