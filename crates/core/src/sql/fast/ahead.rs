//! Looks ahead at the statements of a pipeline: the keys that they will look up are loaded side by side, before the first
//! of them runs. One look-up in a large table waits for memory three times; thirty-two wait little longer than one.

use super::Plan;
use crate::engine::Source;
use crate::table::batch::Batch;
use crate::table::catalog::{IndexId, TableId};
use crate::table::datum::DatumRef;

/// Keys to be looked up, all in one index.
#[derive(Default)]
pub struct Ahead {
    place: Option<(TableId, IndexId)>,
    keys: Batch,
}

impl Ahead {
    /// Does a statement of this plan look up one key?
    #[inline]
    pub fn wants(plan: &Plan) -> bool {
        matches!(plan, Plan::Select(select) if select.is_of_one_key())
    }

    /// Notes the key of a statement that will run. Keys of another index than the last one's are loaded first.
    #[inline]
    pub fn add(&mut self, plan: &Plan, params: &[DatumRef<'_>], source: &dyn Source) {
        let Plan::Select(select) = plan else { return };
        if self.place != Some(select.place()) {
            self.load(source);
            self.place = Some(select.place());
        }
        select.key(params, &mut self.keys);
    }

    /// Starts loading what the keys lead to.
    pub fn load(&mut self, source: &dyn Source) {
        if let Some((table, index)) = self.place
            && !self.keys.is_empty()
        {
            source.prefetch(table, index, &self.keys);
            self.keys.clear();
        }
    }
}
