//! What is done to a log after it was read: its end made durable, a torn tail or damage cut off.

use super::findings::{Damage, End, Tail};
use super::format::SEGMENT_HEADER_BYTES;
use super::segment;
use super::window::Window;
use crate::env::Files;
use std::io;

/// Makes what was read durable, and cuts a torn tail off. The store may take changes only after this: what was read may
/// have been in the system's memory only, and a later record must not outlive an earlier one.
///
/// # Errors
/// The last segment cannot be written or synced.
pub fn settle(files: &dyn Files, end: &End) -> io::Result<()> {
    if let Some(Tail { file, unsure, end, .. }) = &end.tail {
        rewrite(files, file, *unsure, *end)?;
    }
    files.sync_directory()
}

/// Writes a part of a file anew, and ends the file there. Syncing alone would not do: after a sync that failed the system
/// takes for clean what is in its memory and not on the disk.
fn rewrite(files: &dyn Files, name: &str, from: u64, end: u64) -> io::Result<()> {
    let mut window = Window::new(files.open(name)?)?;
    let mut file = files.modify(name)?;
    let mut offset = from;
    while offset < end {
        let Some(bytes) = window.some(offset)? else { break };
        let bytes = &bytes[..bytes.len().min((end - offset) as usize)];
        file.write_at(offset, bytes)?;
        offset += bytes.len() as u64;
    }
    file.truncate(end)?;
    file.sync()
}

fn truncate(files: &dyn Files, name: &str, length: u64) -> io::Result<()> {
    let mut file = files.modify(name)?;
    file.truncate(length)?;
    file.sync()
}

/// A name for what is set aside. One that an earlier repair has given keeps what it has.
fn name_aside(files: &dyn Files, name: &str) -> io::Result<String> {
    let taken = files.list()?;
    let again = (2_u32..).map(|n| format!("{name}.{n}.damaged"));
    let free = std::iter::once(format!("{name}.damaged")).chain(again).find(|name| !taken.contains(name));
    free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

/// Cuts a log where it is damaged. Segments after that are set aside under other names; in the segment itself what
/// follows is lost.
///
/// # Errors
/// A file cannot be written.
pub fn repair(files: &dyn Files, damage: &Damage) -> io::Result<()> {
    let segments = segment::list(files)?;
    let Some(at) = segments.iter().position(|segment| segment.name == damage.file) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    // Without groups a segment says nothing, and in a missing one's place it would be in the way.
    let keep = usize::from(damage.offset > SEGMENT_HEADER_BYTES as u64);
    for segment in segments[at + keep..].iter().rev() {
        files.rename(&segment.name, &name_aside(files, &segment.name)?)?;
    }
    if keep == 1 {
        truncate(files, &damage.file, damage.offset)?;
    }
    files.sync_directory()
}
