//! Libraries of functions as the catalog keeps them: the code, and what it registered when it was loaded.
//!
//! What is compiled of them is made from this, and can be thrown away (`procedure/functions.rs`). Whoever has compiled
//! something remembers the [version](Libraries::version) it was made from.

use crate::value::codec::{self, Decoded, Malformed};
use bitflags::bitflags;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

bitflags! {
    /// What a function, or the first line of a script (`#!lua flags=no-writes,allow-oom`), declares.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScriptFlags: u8 {
        /// It declares something at all: without that, each command is judged when it is called.
        const DECLARED = 1;
        /// It does not write.
        const NO_WRITES = 1 << 1;
        /// It may run when the memory limit is reached.
        const ALLOW_OOM = 1 << 2;
        /// It may run on a replica that lost its master.
        const ALLOW_STALE = 1 << 3;
        /// It must not run in a cluster.
        const NO_CLUSTER = 1 << 4;
        /// It may touch keys of several slots.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 5;
        /// What it gives depends on its arguments only: SQL may call it. Not Redis's.
        const PURE = 1 << 6;
        /// What it did is undone if it fails. Not Redis's.
        const ATOMIC = 1 << 7;
    }
}

/// The flags by the names Redis gives them, in its order, and then our own.
pub const FLAG_NAMES: [(&str, ScriptFlags); 7] = [
    ("no-writes", ScriptFlags::NO_WRITES),
    ("allow-oom", ScriptFlags::ALLOW_OOM),
    ("allow-stale", ScriptFlags::ALLOW_STALE),
    ("no-cluster", ScriptFlags::NO_CLUSTER),
    ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
    ("pure", ScriptFlags::PURE),
    ("atomic", ScriptFlags::ATOMIC),
];

/// A library: a piece of code and the functions that it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryDef {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// The text as it came, with the line that names it.
    pub code: Box<[u8]>,
    /// The functions, by name.
    pub functions: Vec<FunctionDef>,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDef {
    /// Its name: letters, digits and underscores. Calls find it in any case.
    pub name: String,
    /// What is told of it.
    pub description: Option<Box<[u8]>>,
    /// What it declares.
    pub flags: ScriptFlags,
}

/// The first byte of a library's encoding; another one means another format.
const FORMAT: u8 = 1;

impl LibraryDef {
    /// Has it functions that SQL may call?
    pub fn is_called_by_sql(&self) -> bool {
        self.functions.iter().any(|function| function.flags.contains(ScriptFlags::PURE))
    }

    /// Appends the deterministic encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        codec::put_bytes(out, self.name.as_bytes());
        codec::put_bytes(out, &self.code);
        codec::put_number(out, self.functions.len() as u64);
        for function in &self.functions {
            codec::put_bytes(out, function.name.as_bytes());
            out.push(function.flags.bits());
            out.push(function.description.is_some() as u8);
            function.description.iter().for_each(|text| codec::put_bytes(out, text));
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(input: &mut &[u8]) -> Decoded<LibraryDef> {
        if codec::take_byte(input)? != FORMAT {
            return Err(Malformed("a library of another format"));
        }
        let (name, code) = (take_name(input)?, codec::take_bytes(input)?.into());
        let mut functions = Vec::new();
        for _ in 0..codec::take_count(input)? {
            functions.push(FunctionDef::decode(input)?);
        }
        Ok(LibraryDef { name, code, functions })
    }
}

impl FunctionDef {
    fn decode(input: &mut &[u8]) -> Decoded<FunctionDef> {
        let name = take_name(input)?;
        let flags = ScriptFlags::from_bits(codec::take_byte(input)?).ok_or(Malformed("unknown flags of a function"))?;
        let description = match codec::take_byte(input)? {
            0 => None,
            1 => Some(codec::take_bytes(input)?.into()),
            _ => return Err(Malformed("neither a description nor none")),
        };
        Ok(FunctionDef { name, description, flags })
    }
}

/// Is this a name that a library or a function may have?
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Takes the name of a library or a function.
pub fn take_name(input: &mut &[u8]) -> Decoded<String> {
    let name = codec::take_bytes(input)?;
    if !is_name(name) {
        return Err(Malformed("no name of a library or function"));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// All libraries.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    version: u64,
    by_name: BTreeMap<String, Arc<LibraryDef>>,
    /// The library of each function, by the function's name in lower case.
    by_function: HashMap<Box<str>, Arc<LibraryDef>>,
    bytes: usize,
}

impl PartialEq for Libraries {
    fn eq(&self, other: &Self) -> bool {
        self.by_name == other.by_name
    }
}

impl Libraries {
    /// Grows at each change.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The library of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<LibraryDef>> {
        self.by_name.get(name)
    }

    /// The library that has the function of this name, in any case.
    pub fn of_function(&self, name: &str) -> Option<&Arc<LibraryDef>> {
        self.by_function.get(name.to_ascii_lowercase().as_str())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LibraryDef>> {
        self.by_name.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many functions they have.
    pub fn functions(&self) -> usize {
        self.by_function.len()
    }

    /// Bytes of their code and names.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a library in the place of the one with its name, and gives that one.
    ///
    /// # Errors
    /// The name of the function that another library has already.
    pub fn put(&mut self, library: Arc<LibraryDef>) -> Result<Option<Arc<LibraryDef>>, String> {
        let taken = |name: &str| self.of_function(name).is_some_and(|other| other.name != library.name);
        if let Some(function) = library.functions.iter().find(|function| taken(&function.name)) {
            return Err(function.name.clone());
        }
        let before = self.remove(&library.name);
        for function in &library.functions {
            self.by_function.insert(function.name.to_ascii_lowercase().into(), library.clone());
        }
        self.bytes += bytes_of(&library);
        self.by_name.insert(library.name.clone(), library);
        self.version += 1;
        Ok(before)
    }

    /// Removes a library.
    pub fn remove(&mut self, name: &str) -> Option<Arc<LibraryDef>> {
        let removed = self.by_name.remove(name)?;
        for function in &removed.functions {
            self.by_function.remove(function.name.to_ascii_lowercase().as_str());
        }
        self.bytes -= bytes_of(&removed);
        self.version += 1;
        Some(removed)
    }
}

fn bytes_of(library: &LibraryDef) -> usize {
    let function = |f: &FunctionDef| {
        size_of::<FunctionDef>() + 2 * f.name.len() + f.description.as_ref().map_or(0, |text| text.len())
    };
    size_of::<LibraryDef>()
        + library.name.len()
        + library.code.len()
        + library.functions.iter().map(function).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<LibraryDef> {
        let function = |name: &&str| FunctionDef {
            name: name.to_string(),
            description: name.starts_with('d').then(|| b"what it does".as_slice().into()),
            flags: ScriptFlags::DECLARED | ScriptFlags::NO_WRITES,
        };
        Arc::new(LibraryDef {
            name: name.into(),
            code: b"#!lua name=x\n".as_slice().into(),
            functions: functions.iter().map(function).collect(),
        })
    }

    #[test]
    fn a_library_reads_back_and_a_part_of_it_does_not() {
        let library = library("lib", &["a", "described"]);
        let mut bytes = Vec::new();
        library.encode(&mut bytes);
        assert_eq!(Ok((*library).clone()), LibraryDef::decode(&mut &bytes[..]));
        for cut in 0..bytes.len() {
            assert!(LibraryDef::decode(&mut &bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_function_is_in_one_library() {
        let mut libraries = Libraries::default();
        let (first, second) = (library("one", &["f", "g"]), library("two", &["G"]));
        assert_eq!(Ok(None), libraries.put(first.clone()));
        let version = libraries.version();
        assert_eq!(Err("G".into()), libraries.put(second.clone()));
        assert_eq!((version, 2), (libraries.version(), libraries.functions()));
        assert_eq!(Some(&first), libraries.of_function("F"));
        assert_eq!(Ok(Some(first.clone())), libraries.put(library("one", &["f"])));
        assert_eq!(Ok(None), libraries.put(second.clone()));
        assert_eq!(Some(&second), libraries.of_function("g"));
        assert!(libraries.version() > version);
        libraries.remove("one");
        libraries.remove("two");
        assert_eq!((0, 0, 0), (libraries.len(), libraries.functions(), libraries.bytes()));
    }
}
