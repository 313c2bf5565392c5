//! Indexes that are built over the rows there are, and dropped.

use super::{TableChanges, Tables};
use crate::engine::{IndexBuild, Kept};
use crate::error::{Code, Error, Result};
use crate::table::catalog::{IndexDef, IndexId, TableDef};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that the build of an index reads between two looks at anything else.
const INDEX_ROWS_AT_ONCE: usize = 1 << 16;

/// An index on its way.
pub struct Building {
    before: Arc<TableDef>,
    def: TableDef,
    build: Box<dyn IndexBuild>,
}

impl Building {
    /// Works on some more rows; true when the index can be finished.
    pub fn run(&mut self) -> Result<bool> {
        self.build.run(INDEX_ROWS_AT_ONCE)
    }
}

impl Tables {
    /// Begins to build an index over the rows there are. While it runs, nothing else may change the tables; then it is
    /// finished or abandoned.
    pub fn begin_index(&mut self, table: &str, mut index: IndexDef) -> Result<Building> {
        self.refuse_if_busy()?;
        let before = self.table(table)?.clone();
        index.id = self.catalog.next_index_id();
        self.begin_building(before, &index)
    }

    /// Adds an index whose build has run to its table.
    pub fn finish_index(&mut self, building: Building, changes: &mut TableChanges) -> Result<()> {
        let before = building.before.clone();
        let def = self.finish_building(building)?;
        changes.note_definition(def.id, Some(&def), Some(before), None);
        Ok(())
    }

    /// Gives up a build.
    pub fn abandon_index(&mut self, building: Building) {
        self.engine.abandon_index(building.build);
    }

    pub(super) fn begin_building(&mut self, before: Arc<TableDef>, index: &IndexDef) -> Result<Building> {
        let mut def = TableDef::clone(&before);
        def.indexes.push(index.clone());
        def.check()?;
        let build = self.engine.begin_index(def.id, index)?;
        Ok(Building { before, def, build })
    }

    pub(super) fn finish_building(&mut self, building: Building) -> Result<Arc<TableDef>> {
        let def = self.catalog.put_table(building.def)?;
        if let Err(error) = self.engine.finish_index(building.build, &def) {
            self.catalog.put_table(TableDef::clone(&building.before))?;
            return Err(error);
        }
        Ok(def)
    }

    pub(super) fn add_index(&mut self, before: &Arc<TableDef>, index: &IndexDef) -> Result<Arc<TableDef>> {
        let mut building = self.begin_building(before.clone(), index)?;
        loop {
            match building.run() {
                Ok(true) => return self.finish_building(building),
                Ok(false) => {}
                Err(error) => {
                    self.abandon_index(building);
                    return Err(error);
                }
            }
        }
    }

    /// Drops an index by name. What it held comes back, as for a table.
    pub fn drop_index(&mut self, name: &str, changes: &mut TableChanges) -> Result<Option<Kept>> {
        self.refuse_if_busy()?;
        let missing = || Error::new(Code::Sql, format!("no such index: {name}"));
        let (table, index) = self.catalog.index(name).ok_or_else(missing)?;
        let (before, id) = (table.clone(), index.id);
        let (def, kept) = self.remove_index(&before, id)?;
        Ok(changes.note_definition(def.id, Some(&def), Some(before), Some(kept)))
    }

    pub(super) fn remove_index(&mut self, before: &Arc<TableDef>, index: IndexId) -> Result<(Arc<TableDef>, Kept)> {
        let mut def = TableDef::clone(before);
        def.indexes.retain(|i| i.id != index);
        def.drop_unused_hidden();
        let def = self.catalog.put_table(def)?;
        let kept = self.engine.drop_index(index, &def)?;
        Ok((def, kept))
    }

    /// Makes the indexes that definitions have and their tables have not, side by side: loading a checkpoint.
    ///
    /// # Errors
    /// Rows do not fit an index. The tables are of no use then.
    pub fn build_indexes(&mut self, defs: &[TableDef]) -> Result<()> {
        let mut builds = Vec::new();
        for def in defs {
            let now = self.engine.definition(def.id)?.clone();
            for index in def.indexes.iter().filter(|index| now.index(index.id).is_none()) {
                builds.push((def, self.engine.begin_index(def.id, index)?));
            }
        }
        run_side_by_side(builds.iter_mut().map(|(_, build)| build))?;
        for (def, build) in builds {
            let mut now = TableDef::clone(self.engine.definition(def.id)?);
            now.indexes.extend(def.index(build.index().id).cloned());
            let now = self.catalog.put_table(now)?;
            self.engine.finish_index(build, &now)?;
        }
        Ok(())
    }
}

/// Runs builds of indexes in as many threads as there are cores.
fn run_side_by_side<'a>(builds: impl Iterator<Item = &'a mut Box<dyn IndexBuild>> + Send) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let builds = Mutex::new(builds);
    let next = || builds.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(build) = next() {
            while !build.run(INDEX_ROWS_AT_ONCE)? {}
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(end).collect::<Vec<_>>().into_iter().collect()
    })
}
