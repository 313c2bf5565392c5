//! Libraries of functions that are loaded and deleted, and as the log and undo bring them back.

use super::{TableChanges, Tables};
use crate::error::{Code, Error, Result};
use crate::table::library::LibraryDef;
use std::sync::Arc;

impl Tables {
    /// Adds a library, or replaces the one of its name.
    ///
    /// # Errors
    /// A function of it belongs to another library. Nothing is changed then.
    pub fn put_library(&mut self, library: Arc<LibraryDef>, changes: &mut TableChanges) -> Result<()> {
        let before = self.catalog.libraries.put(library.clone()).map_err(|name| taken(&name))?;
        [before.as_deref(), Some(&*library)].into_iter().for_each(|library| self.catalog.note_library(library));
        changes.note_library(&library.name.clone(), Some(library), before);
        Ok(())
    }

    /// Deletes a library; false: there is none of this name.
    pub fn drop_library(&mut self, name: &str, changes: &mut TableChanges) -> bool {
        let before = self.catalog.libraries.remove(name);
        let existed = before.is_some();
        self.catalog.note_library(before.as_deref());
        if existed {
            changes.note_library(name, None, before);
        }
        existed
    }

    /// Makes a library be what it was or is to be: for recovery, and to take changes back.
    pub fn restore_library(&mut self, name: &str, library: Option<Arc<LibraryDef>>) -> Result<()> {
        match library {
            Some(library) if library.name == name => {
                let before = self.catalog.libraries.put(library.clone()).map_err(|name| taken(&name))?;
                [before.as_deref(), Some(&*library)].into_iter().for_each(|library| self.catalog.note_library(library));
                Ok(())
            }
            Some(_) => Err(Error::new(Code::Bug, "a library under the name of another")),
            None => {
                let before = self.catalog.libraries.remove(name);
                self.catalog.note_library(before.as_deref());
                Ok(())
            }
        }
    }
}

/// A function's name is taken (Redis 7's text).
pub fn taken(function: &str) -> Error {
    Error::err(format!("Function {function} already exists"))
}
