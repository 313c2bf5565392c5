//! What is compiled of the libraries in the catalog: the functions by name, and the interpreter that has them.
//!
//! The catalog is the truth, and this can be thrown away. Each call compares versions, and where they differ (after a
//! change was taken back, or a restart) what is not up to date is compiled again.

use super::lua::{Field, FunctionId, Limits, Lua, Stack, Told};
use super::{Call, Host, Language, Outcome, Watch};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::meter::Uses;
use crate::procedure::library::read_heading;
use crate::table::datum::{Datum, DatumRef};
use crate::table::library::{FunctionDef, Libraries, LibraryDef, ScriptFlags};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A function that can be called.
#[derive(Clone, Copy)]
pub struct Function {
    /// What it declares.
    pub flags: ScriptFlags,
    id: FunctionId,
}

/// A library whose code has run.
pub struct Loaded {
    /// Its definition, for the catalog.
    pub def: Arc<LibraryDef>,
    ids: Vec<FunctionId>,
}

/// All compiled functions.
pub struct Functions {
    lua: Option<Lua>,
    watch: Arc<Watch>,
    /// The catalog's version that they were made from.
    version: u64,
    /// By name in lower case.
    by_name: HashMap<Box<[u8]>, Function>,
    /// Names as registered, by number.
    names: Vec<Box<str>>,
    libraries: HashMap<String, Loaded>,
    /// Functions that run, inside each other.
    depth: Cell<usize>,
    /// How each was used since it was loaded, by number.
    uses: RefCell<Vec<Uses>>,
    /// The one that a request has called, whose time is still to be noted.
    called: Cell<Option<FunctionId>>,
}

/// The functions in their place, from which one may be called while the state that it works on changes.
pub struct Place(Rc<Functions>);

// SAFETY: the place is the state's, and others than it only have the functions while one of them is called (`Lent`), which
// whoever holds the baton does on one thread, and is done with when the baton passes. So whenever the state goes to another
// thread, nothing of this one counts references any more.
unsafe impl Send for Place {}

impl Place {
    /// A place for them.
    pub fn new(functions: Functions) -> Place {
        Place(Rc::new(functions))
    }

    /// The functions, to change what there is of them. None while one runs.
    pub fn get_mut(&mut self) -> Option<&mut Functions> {
        Rc::get_mut(&mut self.0)
    }

    /// The functions, to look at.
    #[inline]
    pub fn get(&self) -> &Functions {
        &self.0
    }

    /// The functions, to call one.
    ///
    /// # Errors
    /// Too many run inside each other.
    #[inline]
    pub fn lend(&self) -> Result<Lent> {
        let depth = &self.0.depth;
        if depth.get() >= limits::PROCEDURE_DEPTH_MAX {
            let text = format!("functions are nested more than {} deep", limits::PROCEDURE_DEPTH_MAX);
            return Err(Error::new(Code::Limit, text));
        }
        depth.set(depth.get() + 1);
        Ok(Lent(self.0.clone()))
    }
}

/// The functions, lent until a call is over. It must not outlive the hold of the baton.
pub struct Lent(Rc<Functions>);

impl Deref for Lent {
    type Target = Functions;

    #[inline]
    fn deref(&self) -> &Functions {
        &self.0
    }
}

impl Drop for Lent {
    #[inline]
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

impl Functions {
    /// None yet; `watch` shows their runs.
    pub fn new(watch: Arc<Watch>) -> Functions {
        Functions {
            lua: None,
            watch,
            version: 0,
            by_name: HashMap::new(),
            names: Vec::new(),
            libraries: HashMap::new(),
            depth: Cell::new(0),
            uses: RefCell::default(),
            called: Cell::new(None),
        }
    }

    /// The function of this name, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Function> {
        // Names mostly come in lower case; only others pay for the copy.
        let found = self.by_name.get(name).or_else(|| {
            let lower: SmallVec<[u8; 64]> = name.iter().map(u8::to_ascii_lowercase).collect();
            self.by_name.get(&lower[..])
        });
        found.copied()
    }

    /// Are they made from this version of the catalog?
    #[inline]
    pub fn is_current(&self, libraries: &Libraries) -> bool {
        self.version == libraries.version()
    }

    /// Counts a call of a function.
    #[inline]
    pub fn count(&self, function: Function, failed: bool) {
        if let Some(uses) = self.uses.borrow_mut().get_mut(function.id.index()) {
            uses.count(failed);
        }
    }

    /// Counts a call of a function by a request, whose time [`Functions::time`] tells later.
    #[inline]
    pub fn count_request(&self, function: Function, failed: bool) {
        self.count(function, failed);
        self.called.set(Some(function.id));
    }

    /// Notes how long the last request took, if it called a function.
    #[inline]
    pub fn time(&self, ns: u64) {
        if let Some(id) = self.called.take()
            && let Some(uses) = self.uses.borrow_mut().get_mut(id.index())
        {
            uses.time(ns);
        }
    }

    /// How a function was used since it was loaded.
    pub fn uses(&self, function: Function) -> Uses {
        self.uses.borrow().get(function.id.index()).cloned().unwrap_or_default()
    }

    /// Forgets how the functions were used.
    pub fn forget_uses(&self) {
        self.uses.borrow_mut().iter_mut().for_each(|uses| *uses = Uses::default());
    }

    /// Calls a function that was found. It may be called while others run.
    #[inline]
    pub fn call(&self, host: &mut dyn Host, function: Function, call: &Call<'_>) -> Outcome {
        match self.named(function) {
            Some((lua, name)) => lua.call_function(host, function.id, &Call { name, ..*call }),
            None => Outcome { reply: not_found().into(), counted: false },
        }
    }

    /// Calls a function with an event, which is a table with these fields; see [`Lua::tell_function`].
    ///
    /// # Errors
    /// What the function raised or returned as an error, with its name and line.
    pub fn tell(
        &self,
        host: &mut dyn Host,
        function: Function,
        call: &Call<'_>,
        fields: &[(&str, Field<'_>)],
        back: Option<&str>,
    ) -> Result<Told> {
        let (lua, name) = self.named(function).ok_or_else(not_found)?;
        lua.tell_function(host, function.id, &Call { name, ..*call }, fields, back)
    }

    /// Calls a function with values, and gives the value that it returns.
    ///
    /// # Errors
    /// What the function raised or returned as an error, with its name and line.
    pub fn evaluate(
        &self,
        host: &mut dyn Host,
        function: Function,
        call: &Call<'_>,
        args: &[DatumRef<'_>],
    ) -> Result<Datum> {
        let (lua, name) = self.named(function).ok_or_else(not_found)?;
        lua.evaluate_function(host, function.id, &Call { name, ..*call }, args)
    }

    /// Calls a function for another one in the same interpreter; see [`Lua::call_here`].
    pub fn call_here(
        &self,
        host: &mut dyn Host,
        function: Function,
        caller: Stack<'_>,
    ) -> Option<std::result::Result<(), Outcome>> {
        let (lua, name) = self.named(function)?;
        lua.call_here(host, function.id, name, caller)
    }

    #[inline]
    fn named(&self, function: Function) -> Option<(&Lua, &[u8])> {
        Some((self.lua.as_ref()?, self.names.get(function.id.index())?.as_bytes()))
    }

    /// Compiles what is not up to date. A library that does not load has no functions then; what is wrong is given.
    #[inline]
    pub fn follow(&mut self, libraries: &Libraries, host: &mut dyn Host) -> Vec<Error> {
        if self.version == libraries.version() { Vec::new() } else { self.catch_up(libraries, host) }
    }

    #[cold]
    fn catch_up(&mut self, libraries: &Libraries, host: &mut dyn Host) -> Vec<Error> {
        let is_current =
            |loaded: &Loaded| libraries.get(&loaded.def.name).is_some_and(|def| Arc::ptr_eq(def, &loaded.def));
        let old: Vec<String> =
            self.libraries.iter().filter(|(_, loaded)| !is_current(loaded)).map(|(name, _)| name.clone()).collect();
        old.iter().for_each(|name| self.forget(name));
        let mut errors = Vec::new();
        for def in libraries.iter() {
            if self.libraries.contains_key(&def.name) {
                continue;
            }
            // It has kept the time limit when it came; where it takes longer now, that is no reason to lose it.
            match self.load(host, &def.code, None) {
                Ok(loaded) => self.keep(Loaded { def: def.clone(), ..loaded }, libraries),
                Err(error) => errors.push(Error::err(format!("library {}: {}", def.name, error.message))),
            }
        }
        self.note(libraries);
        errors
    }

    /// Runs the code of a library. Its functions can be called when it is [kept](Self::keep).
    ///
    /// # Errors
    /// What is wrong with it, in Redis's words.
    pub fn load(&mut self, host: &mut dyn Host, text: &[u8], ms_max: Option<u64>) -> Result<Loaded> {
        let heading = read_heading(text)?;
        let lua = self.lua.get_or_insert_with(|| Lua::for_functions(self.watch.clone()));
        let memory_bytes_max = limits::SCRIPT_MEMORY_BYTES_MAX;
        let mut registered = lua.load_library(host, &text[heading.code_at..], Limits { memory_bytes_max, ms_max })?;
        if registered.is_empty() {
            return Err(Error::err("No functions registered"));
        }
        registered.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (functions, ids): (Vec<FunctionDef>, Vec<FunctionId>) = registered.into_iter().unzip();
        Ok(Loaded { def: Arc::new(LibraryDef { name: heading.name, code: text.into(), functions }), ids })
    }

    /// Forgets a library that was loaded and is not wanted.
    pub fn discard(&mut self, loaded: &Loaded) {
        if let Some(lua) = &mut self.lua {
            loaded.ids.iter().for_each(|id| lua.forget_function(*id));
        }
    }

    /// Makes the functions of a library callable, in the place of those of the one with its name.
    pub fn keep(&mut self, loaded: Loaded, libraries: &Libraries) {
        self.forget(&loaded.def.name.clone());
        for (function, id) in loaded.def.functions.iter().zip(&loaded.ids) {
            let FunctionDef { name, flags, .. } = function;
            if self.names.len() <= id.index() {
                self.names.resize(id.index() + 1, Box::default());
            }
            self.names[id.index()] = name.as_str().into();
            let uses = self.uses.get_mut();
            if uses.len() <= id.index() {
                uses.resize_with(id.index() + 1, Uses::default);
            }
            uses[id.index()] = Uses::default();
            self.by_name.insert(name.to_ascii_lowercase().into_bytes().into(), Function { flags: *flags, id: *id });
        }
        self.libraries.insert(loaded.def.name.clone(), loaded);
        self.note(libraries);
    }

    /// Makes the functions of several libraries callable, after others have gone.
    pub fn keep_all(&mut self, loaded: Vec<Loaded>, libraries: &Libraries, host: &mut dyn Host) -> Vec<Error> {
        loaded.into_iter().for_each(|loaded| self.keep(loaded, libraries));
        self.catch_up(libraries, host)
    }

    /// Forgets a library.
    pub fn forget(&mut self, name: &str) {
        let Some(loaded) = self.libraries.remove(name) else { return };
        for (function, id) in loaded.def.functions.iter().zip(&loaded.ids) {
            // Its name may be that of another library's function by now.
            let name = function.name.to_ascii_lowercase();
            if self.by_name.get(name.as_bytes()).is_some_and(|found| found.id == *id) {
                self.by_name.remove(name.as_bytes());
            }
        }
        self.discard(&loaded);
    }

    /// They are now what the catalog says.
    pub fn note(&mut self, libraries: &Libraries) {
        self.version = libraries.version();
        self.watch.set_counts(libraries.len(), libraries.functions());
    }

    /// Bytes held by the interpreter.
    pub fn memory(&self) -> usize {
        self.lua.as_ref().map_or(0, Language::memory)
    }
}

/// There is no such function (Redis 7's text).
pub fn not_found() -> Error {
    Error::err("Function not found")
}
