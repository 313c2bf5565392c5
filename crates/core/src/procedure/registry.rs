//! The scripts that clients sent, by SHA-1 and by text.
//!
//! EVAL sends the text every time, so it is found by the text itself: hashing forty bytes with SHA-1 would cost more
//! than running most scripts. Scripts that only EVAL brought are forgotten, the longest-unused first, past a limit;
//! those loaded with SCRIPT LOAD stay until SCRIPT FLUSH.

use crate::ds::sha1;
use crate::error::{Error, Result};
use crate::limits;
use crate::table::library::FLAG_NAMES;
pub use crate::table::library::ScriptFlags;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Names a script while it is known. The number of a forgotten script is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptId(pub u32);

/// A script.
#[derive(Debug)]
pub struct Script {
    /// The text as it came.
    pub text: Box<[u8]>,
    /// Its SHA-1 in hexadecimal.
    pub sha: [u8; 40],
    /// What it declares.
    pub flags: ScriptFlags,
    /// Bytes of `text` before the code; the line feed after them stays, so that lines keep their numbers.
    pub code_at: usize,
    loaded: bool,
    used: bool,
}

impl Script {
    /// The code without the declaring line.
    pub fn code(&self) -> &[u8] {
        &self.text[self.code_at..]
    }
}

/// All known scripts.
#[derive(Default)]
pub struct Registry {
    scripts: Vec<Option<Script>>,
    free: Vec<ScriptId>,
    by_text: HashTable<ScriptId>,
    by_sha: HashMap<[u8; 40], ScriptId>,
    /// Scripts that only EVAL brought, in the order in which they came.
    evalled: VecDeque<ScriptId>,
    hasher: DefaultHashBuilder,
    bytes: usize,
}

impl Registry {
    /// The script with this text.
    #[inline]
    pub fn find_text(&mut self, text: &[u8]) -> Option<ScriptId> {
        let hash = self.hasher.hash_one(text);
        let scripts = &self.scripts;
        let id = *self.by_text.find(hash, |id| scripts[id.0 as usize].as_ref().is_some_and(|s| *s.text == *text))?;
        if let Some(script) = &mut self.scripts[id.0 as usize] {
            script.used = true;
        }
        Some(id)
    }

    /// The script with this name, in any case.
    pub fn find_sha(&mut self, sha: &[u8]) -> Option<ScriptId> {
        let sha: [u8; 40] = sha.try_into().ok()?;
        let id = *self.by_sha.get(&sha.map(|digit| digit.to_ascii_lowercase()))?;
        if let Some(script) = &mut self.scripts[id.0 as usize] {
            script.used = true;
        }
        Some(id)
    }

    /// A known script.
    #[inline]
    pub fn get(&self, id: ScriptId) -> Option<&Script> {
        self.scripts.get(id.0 as usize)?.as_ref()
    }

    /// Adds a script that is not known yet. Gives its number, and true if that was another's, forgotten in its favour.
    pub fn add(&mut self, text: &[u8]) -> Result<(ScriptId, bool)> {
        let (flags, code_at) = read_declaration(text)?;
        let full = self.evalled.len() >= limits::SCRIPTS_EVALLED_MAX;
        let forgotten = full.then(|| self.forget_one()).flatten();
        let script = Script { text: text.into(), sha: sha1::hex(text), flags, code_at, loaded: false, used: false };
        let id = self.free.pop().unwrap_or(ScriptId(self.scripts.len() as u32));
        if id.0 as usize == self.scripts.len() {
            self.scripts.push(None);
        }
        self.bytes += text.len();
        self.by_sha.insert(script.sha, id);
        self.scripts[id.0 as usize] = Some(script);
        let (hash, scripts, hasher) = (self.hasher.hash_one(text), &self.scripts, &self.hasher);
        self.by_text.insert_unique(hash, id, |id| hasher.hash_one(text_of(scripts, *id)));
        self.evalled.push_back(id);
        Ok((id, forgotten == Some(id)))
    }

    /// Keeps a script until all are flushed.
    pub fn keep(&mut self, id: ScriptId) {
        if let Some(Some(script)) = self.scripts.get_mut(id.0 as usize)
            && !std::mem::replace(&mut script.loaded, true)
        {
            self.evalled.retain(|evalled| *evalled != id);
        }
    }

    /// Forgets a script, of text that turned out not to compile.
    pub fn remove(&mut self, id: ScriptId) {
        let Some(script) = self.scripts[id.0 as usize].take() else { return };
        self.by_sha.remove(&script.sha);
        if let Ok(entry) = self.by_text.find_entry(self.hasher.hash_one(&*script.text), |found| *found == id) {
            entry.remove();
        }
        self.evalled.retain(|evalled| *evalled != id);
        self.bytes -= script.text.len();
        self.free.push(id);
    }

    /// Forgets the script that came first of those unused since the last look.
    fn forget_one(&mut self) -> Option<ScriptId> {
        // If all are in use, the second round meets them unmarked.
        for _ in 0..self.evalled.len() * 2 {
            let id = self.evalled.pop_front()?;
            let script = self.scripts[id.0 as usize].as_mut()?;
            if std::mem::replace(&mut script.used, false) {
                self.evalled.push_back(id);
                continue;
            }
            self.remove(id);
            return Some(id);
        }
        None
    }

    /// Number of known scripts.
    pub fn len(&self) -> usize {
        self.by_sha.len()
    }

    /// True when no script is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn text_of(scripts: &[Option<Script>], id: ScriptId) -> &[u8] {
    scripts[id.0 as usize].as_ref().map_or(&[], |script| &script.text)
}

/// Reads `#!lua flags=...` at the start of a text: the flags, and the length of the line.
fn read_declaration(text: &[u8]) -> Result<(ScriptFlags, usize)> {
    if !text.starts_with(b"#!") {
        return Ok((ScriptFlags::empty(), 0));
    }
    let invalid = || Error::err("Invalid script shebang");
    let end = text.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let line = String::from_utf8_lossy(&text[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(Error::err(format!("Unexpected engine in script shebang: {engine}")));
    }
    let mut flags = ScriptFlags::DECLARED;
    for word in words {
        let unknown = || Error::err(format!("Unknown lua shebang option: {word}"));
        let names = word.strip_prefix("flags=").ok_or_else(unknown)?;
        for name in names.split(',').filter(|_| !names.is_empty()) {
            let unexpected = || Error::err(format!("Unexpected flag in script shebang: {name}"));
            flags |= FLAG_NAMES.iter().find(|(known, _)| *known == name).ok_or_else(unexpected)?.1;
        }
    }
    Ok((flags, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_text_and_by_name() {
        let mut registry = Registry::default();
        let (id, _) = registry.add(b"return 1").unwrap();
        assert_eq!(Some(id), registry.find_text(b"return 1"));
        assert_eq!(Some(id), registry.find_sha(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"));
        assert_eq!(None, registry.find_text(b"return 2"));
        assert_eq!(None, registry.find_sha(b"e0e1"));
        registry.remove(id);
        assert_eq!(None, registry.find_text(b"return 1"));
        assert_eq!((0, 0), (registry.len(), registry.bytes()));
    }

    #[test]
    fn declarations_are_read_as_in_redis() {
        let flags = |text: &str| read_declaration(text.as_bytes()).map(|(flags, _)| flags).map_err(|e| e.message);
        assert_eq!(Ok(ScriptFlags::empty()), flags("return 1"));
        assert_eq!(Ok(ScriptFlags::DECLARED), flags("#!lua\nreturn 1"));
        assert_eq!(Ok(ScriptFlags::DECLARED), flags("#!lua flags=\nreturn 1"));
        let both = ScriptFlags::DECLARED | ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_OOM;
        assert_eq!(Ok(both), flags("#!lua flags=no-writes,allow-oom\nreturn 1"));
        for (text, error) in [
            ("#!lua", "Invalid script shebang"),
            ("#!not-lua\n", "Unexpected engine in script shebang: #!not-lua"),
            ("#!lua flags=bad-flag\n", "Unexpected flag in script shebang: bad-flag"),
            ("#!lua badarg=x\n", "Unknown lua shebang option: badarg=x"),
        ] {
            assert_eq!(Err(error.into()), flags(text));
        }
        let mut registry = Registry::default();
        let (id, _) = registry.add(b"#!lua flags=no-writes\nreturn 1").unwrap();
        assert_eq!(b"\nreturn 1", registry.get(id).unwrap().code());
    }

    #[test]
    fn only_so_many_unloaded_scripts_are_kept() {
        let mut registry = Registry::default();
        let (kept, _) = registry.add(b"return 'loaded'").unwrap();
        registry.keep(kept);
        let (busy, _) = registry.add(b"return 'busy'").unwrap();
        for n in 0..limits::SCRIPTS_EVALLED_MAX * 3 {
            registry.add(format!("return {n}").as_bytes()).unwrap();
            assert_eq!(Some(busy), registry.find_text(b"return 'busy'"));
        }
        assert_eq!(limits::SCRIPTS_EVALLED_MAX + 1, registry.len());
        assert_eq!(Some(kept), registry.find_text(b"return 'loaded'"));
        assert_eq!(None, registry.find_text(b"return 0"));
    }
}
