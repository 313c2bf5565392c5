//! Which rows of a view are covered by private ones, and how to get back from there.

use super::PROVISIONAL;
use crate::table::row_id::RowId;
use std::collections::HashMap;
use std::sync::Arc;

/// What became of a row of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    /// It has a new image.
    Replaced(Image),
    /// It is deleted; it may have had an image before, which comes back when the deletion is undone.
    Deleted(Option<Image>),
}

/// The image of a row. It goes when all that made it is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The private row.
    pub own: RowId,
    /// Updates that stand.
    pub updates: u32,
    /// The row was deleted, and this put in its place.
    pub put_back: bool,
}

/// The rows of a view that are covered, by id.
pub(super) type Shadows = HashMap<RowId, Shadow>;

/// What was written in one table, besides the private rows themselves.
#[derive(Debug, Default)]
pub struct Written {
    /// Copied when it is changed under an open cursor, which goes on with the old one.
    pub(super) shadows: Arc<Shadows>,
    /// Rows of the view that were deleted, as they were: taking that back must not have to ask the view.
    pub(super) deleted: HashMap<RowId, Box<[u8]>>,
    /// Of private rows that are images, the row they stand for. Never taken out: private ids are not used again.
    origins: HashMap<RowId, RowId>,
}

/// Where a row is to be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the view.
    Base(RowId),
    /// Among the private rows.
    Own(RowId),
    /// It is deleted.
    Nowhere,
}

impl Written {
    /// The rows of the view that were updated or deleted.
    pub fn shadows(&self) -> impl Iterator<Item = (RowId, Shadow)> {
        self.shadows.iter().map(|(id, shadow)| (*id, *shadow))
    }

    /// Is this private row a new one, and not the image of a row of the view?
    pub fn is_new(&self, own: RowId) -> bool {
        !self.origins.contains_key(&own)
    }

    /// The id under which a private row is known.
    pub(super) fn id_of(&self, own: RowId) -> RowId {
        self.origins.get(&own).copied().unwrap_or(RowId(PROVISIONAL | own.0))
    }

    /// Where the row of an id is.
    pub(super) fn place(&self, id: RowId) -> Place {
        if id.0 >= PROVISIONAL {
            return Place::Own(RowId(id.0 - PROVISIONAL));
        }
        match self.shadows.get(&id) {
            None => Place::Base(id),
            Some(Shadow::Replaced(image)) => Place::Own(image.own),
            Some(Shadow::Deleted(_)) => Place::Nowhere,
        }
    }

    pub(super) fn is_shadowed(&self, id: RowId) -> bool {
        self.shadows.contains_key(&id)
    }

    pub(super) fn set(&mut self, id: RowId, shadow: Option<Shadow>) {
        let shadows = Arc::make_mut(&mut self.shadows);
        match shadow {
            Some(shadow) => drop(shadows.insert(id, shadow)),
            None => drop(shadows.remove(&id)),
        }
        if let Some(Shadow::Replaced(image)) = shadow {
            self.origins.insert(image.own, id);
        }
    }
}
