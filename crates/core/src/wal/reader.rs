//! Reads a log back: every record once and in order, and what is wrong with it.

use super::format::{
    self, BadHeader, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use super::segment::{self, Segment};
use super::window::Window;
use super::{Lsn, StoreId};
use crate::env::Files;
use std::fmt;
use std::io;

/// Where to begin, and whose log it should be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// The first record that is wanted; 0 and 1 say all.
    pub from: Lsn,
    /// The store's id, if it is known from elsewhere.
    pub id: Option<StoreId>,
}

/// How far the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// LSN of the record that comes next.
    pub next: Lsn,
    /// The store that the log belongs to; none if there is no log.
    pub id: Option<StoreId>,
    /// A torn tail that [`settle`] cuts.
    pub cut: Option<Cut>,
    /// What may not be durable although it was read.
    tail: Option<Tail>,
}

/// A torn tail: what a crash left of writes that nobody was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub file: String,
    /// Where the last good group ends.
    pub offset: u64,
    /// How much follows.
    pub bytes: u64,
}

/// The end of the last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tail {
    file: String,
    /// Groups from here on were not known to be durable by any later one.
    unsure: u64,
    /// Where the last good group ends.
    end: u64,
}

/// A log that does not have what it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub file: String,
    /// Where it is no good.
    pub offset: u64,
    /// What is wrong, in words.
    pub what: String,
    /// The first record that cannot be read.
    pub from: Lsn,
    /// A record after it that can be read, and would be lost, too, by cutting here, if there is one.
    pub resumes: Option<Lsn>,
    /// Bytes of the log from there on, in this segment and those after it.
    pub bytes: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the log is damaged: {} at offset {}: {}; changes from {} on",
            self.file, self.offset, self.what, self.from
        )?;
        if let Some(resumes) = self.resumes {
            write!(f, " cannot be read, those from {resumes} on can")?;
        }
        write!(f, ": cutting the log there loses them ({} bytes)", self.bytes)
    }
}

/// Why a log was not read to its end.
#[derive(Debug)]
pub enum ReadError<E> {
    /// A file cannot be read.
    Io {
        /// Its name.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The log is damaged; [`repair`] cuts it.
    Damage(Damage),
    /// A segment of another store or a later version, which no repair should touch.
    Foreign {
        /// The segment's file.
        file: String,
        /// Why it is not ours.
        what: String,
    },
    /// The visitor did not want to go on.
    Visit {
        /// The record that it was given.
        lsn: Lsn,
        /// What it said.
        error: E,
    },
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io { file, error } => write!(f, "cannot read {file}: {error}"),
            ReadError::Damage(damage) => damage.fmt(f),
            ReadError::Foreign { file, what } => write!(f, "{file}: {what}"),
            ReadError::Visit { lsn, error } => write!(f, "change {lsn} of the log: {error}"),
        }
    }
}

impl<E> ReadError<E> {
    fn io(file: &str) -> impl FnOnce(io::Error) -> ReadError<E> {
        let file = file.to_string();
        move |error| ReadError::Io { file, error }
    }
}

/// Gives all records from `start` on to `visit`, and tells `progress` how many bytes of how many are read.
///
/// # Errors
/// A file cannot be read, the log is damaged or not ours, or the visitor refuses. What was visited before that is good.
pub fn read<E>(
    files: &dyn Files,
    start: Start,
    progress: &mut dyn FnMut(u64, u64),
    visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<(), E>,
) -> Result<End, ReadError<E>> {
    let mut reader = Reader::open(files, start)?;
    let mut told = 0;
    while let Some((first, payload)) = reader.next_group()? {
        let mut rest = payload;
        let mut lsn = first;
        while !rest.is_empty() {
            let record = format::take_record(&mut rest).expect("next_group has looked at the records");
            if lsn >= start.from {
                visit(lsn, record).map_err(|error| ReadError::Visit { lsn, error })?;
            }
            lsn += 1;
        }
        if reader.done() >= told + (1 << 20) {
            told = reader.done();
            progress(told, reader.total);
        }
    }
    progress(reader.total, reader.total);
    reader.end()
}

/// Goes through a log, a group at a time. Whoever follows a log that is being written takes what is there, and opens another
/// from the next record on when there may be more.
pub struct Reader<'a> {
    files: &'a dyn Files,
    segments: Vec<Segment>,
    /// Which segment `place` is in, or would be.
    index: usize,
    place: Option<Place>,
    id: Option<StoreId>,
    from: Lsn,
    /// LSN of the record that comes next.
    next: Lsn,
    done_before: u64,
    total: u64,
    /// How it ended, when it has.
    end: Option<(Option<Cut>, Tail)>,
}

/// A place in a segment.
struct Place {
    window: Window,
    seed: u32,
    offset: u64,
    /// Groups that no later one has told to be durable: offset and LSN after it.
    unsure: Vec<(u64, Lsn)>,
}

impl<'a> Reader<'a> {
    /// Begins with the segment that holds the record `start.from`.
    ///
    /// # Errors
    /// As of [`read`].
    pub fn open<E>(files: &'a dyn Files, start: Start) -> Result<Reader<'a>, ReadError<E>> {
        let segments = segment::list(files).map_err(ReadError::io("the directory"))?;
        let from = start.from.max(1);
        let index = segments.iter().rposition(|segment| segment.first <= from).unwrap_or(0);
        let mut reader = Reader {
            files,
            next: segments.get(index).map_or(from, |segment| segment.first),
            segments,
            index,
            place: None,
            id: start.id,
            from,
            done_before: 0,
            total: 0,
            end: None,
        };
        for segment in &reader.segments[index..] {
            reader.total += reader.length_of(segment)?;
        }
        if let Some(segment) = reader.segments.get(index)
            && segment.first > from
        {
            let what = format!("the segment with change {from} is missing before it");
            return Err(reader.damage(&segment.name.clone(), 0, from, what, Some(segment.first)));
        }
        Ok(reader)
    }

    /// Bytes read so far, as whole segments and the present one count.
    pub fn done(&self) -> u64 {
        self.done_before + self.place.as_ref().map_or(0, |place| place.offset)
    }

    /// The next group with a record that is wanted: LSN of its first record, and its records (`format::take_record`).
    ///
    /// # Errors
    /// As of [`read`].
    pub fn next_group<E>(&mut self) -> Result<Option<(Lsn, &[u8])>, ReadError<E>> {
        loop {
            let Some(found) = self.step()? else { return Ok(None) };
            let GroupHeader { first, length, .. } = found.header;
            if found.header.next() <= self.from || length == 0 {
                continue;
            }
            let name = &self.segments[self.index].name;
            let place = self.place.as_mut().expect("a group was found in it");
            let payload = place.window.get(found.payload, length).map_err(ReadError::io(name))?;
            return Ok(Some((first, payload.expect("step has read it"))));
        }
    }

    /// How the log ends; after `next_group` gave nothing.
    ///
    /// # Errors
    /// There are groups left.
    pub fn end<E>(self) -> Result<End, ReadError<E>> {
        let (cut, tail) = self.end.map_or((None, None), |(cut, tail)| (cut, Some(tail)));
        // The log may end before a checkpoint that did not wait for it.
        Ok(End { next: self.next.max(self.from), id: self.id, cut, tail })
    }

    /// Goes over one group, which it gives.
    fn step<E>(&mut self) -> Result<Option<Found>, ReadError<E>> {
        loop {
            if self.end.is_some() || self.index >= self.segments.len() {
                return Ok(None);
            }
            if self.place.is_none() {
                self.enter()?;
            }
            let following = self.segments.get(self.index + 1).map(|segment| segment.first);
            if following.is_some_and(|first| first <= self.next) {
                self.leave();
                continue;
            }
            let name = &self.segments[self.index].name;
            let place = self.place.as_mut().expect("entered above");
            match place.group(self.next, self.from).map_err(ReadError::io(name))? {
                Some(found) => {
                    self.next = found.header.next();
                    return Ok(Some(found));
                }
                None => {
                    self.no_more_groups()?;
                }
            }
        }
    }

    /// Opens the present segment.
    fn enter<E>(&mut self) -> Result<(), ReadError<E>> {
        let Segment { first, name } = self.segments[self.index].clone();
        let window = self.files.open(&name).and_then(Window::new);
        let mut window = window.map_err(ReadError::io(&name))?;
        let length = window.length.min(SEGMENT_HEADER_BYTES as u64);
        let bytes = window.get(0, length).map_err(ReadError::io(&name))?.unwrap_or_default();
        match SegmentHeader::decode(bytes) {
            Ok(header) if self.id.is_some_and(|id| id != header.id) => {
                Err(ReadError::Foreign { file: name, what: "this log belongs to another store".into() })
            }
            Ok(header) if header.first != first => {
                let what = format!("the name says that change {first} comes first, the header says {}", header.first);
                Err(ReadError::Foreign { file: name, what })
            }
            Ok(header) => {
                self.id = Some(header.id);
                let offset = SEGMENT_HEADER_BYTES as u64;
                self.place = Some(Place { window, seed: header.seed(), offset, unsure: Vec::new() });
                Ok(())
            }
            Err(BadHeader::Version(version)) => {
                let what = format!("the log has version {version}; this Peryton reads {}", format::VERSION);
                Err(ReadError::Foreign { file: name, what })
            }
            // A segment has its name only when its header is durable.
            Err(BadHeader::Malformed) => Err(self.damage(&name, 0, first, "its header is no good".into(), None)),
        }
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.done_before += place.window.length;
        }
        self.index += 1;
    }

    /// What follows in the present segment is no group that continues the log, nor does the next segment.
    fn no_more_groups<E>(&mut self) -> Result<(), ReadError<E>> {
        let name = self.segments[self.index].name.clone();
        let place = self.place.as_mut().expect("a group was looked for in it");
        let (offset, next) = (place.offset, self.next);
        if let Some(following) = self.segments.get(self.index + 1) {
            let resumes = following.first;
            let what = format!("changes {next} to {} are not there", resumes - 1);
            return Err(self.damage(&name, offset, next, what, Some(resumes)));
        }
        if is_zero(&mut place.window, offset).map_err(ReadError::io(&name))? {
            self.end = Some((None, place.tail(&name)));
            return Ok(());
        }
        let later = find_durable(&mut place.window, offset, place.seed, next).map_err(ReadError::io(&name))?;
        if let Some(later) = later {
            let what = "a group is no good, and one after it says that it was durable".to_string();
            let resumes = (later.records > 0).then_some(later.first);
            return Err(self.damage(&name, offset, next, what, resumes));
        }
        let cut = Cut { file: name.clone(), offset, bytes: place.window.length - offset };
        self.end = Some((Some(cut), place.tail(&name)));
        Ok(())
    }

    fn damage<E>(&self, file: &str, offset: u64, from: Lsn, what: String, resumes: Option<Lsn>) -> ReadError<E> {
        let at = self.segments.iter().position(|segment| segment.name == file).unwrap_or(0);
        // A length that cannot be had only makes the message poorer.
        let length = |segment: &Segment| self.length_of::<E>(segment).unwrap_or(0);
        let bytes = self.segments[at..].iter().map(length).sum::<u64>().saturating_sub(offset);
        ReadError::Damage(Damage { file: file.into(), offset, what, from, resumes, bytes })
    }

    fn length_of<E>(&self, segment: &Segment) -> Result<u64, ReadError<E>> {
        self.files.open(&segment.name).and_then(|file| file.length()).map_err(ReadError::io(&segment.name))
    }
}

/// A good group.
struct Found {
    header: GroupHeader,
    /// Offset of its records.
    payload: u64,
}

impl Place {
    /// The group here, if it is good and begins with the record `next`; then this goes behind it. The records of a group
    /// that ends before `from` are not looked at.
    fn group(&mut self, next: Lsn, from: Lsn) -> io::Result<Option<Found>> {
        let Some(header) = group_at(&mut self.window, self.offset, self.seed)? else { return Ok(None) };
        if header.first != next {
            return Ok(None);
        }
        let payload = self.offset + GROUP_HEADER_BYTES as u64;
        if header.next() > from && !is_good(&mut self.window, payload, &header)? {
            return Ok(None);
        }
        self.unsure.retain(|(_, after)| *after > header.durable + 1);
        self.unsure.push((self.offset, header.next()));
        self.offset = payload + header.length;
        Ok(Some(Found { header, payload }))
    }

    fn tail(&self, name: &str) -> Tail {
        let unsure = self.unsure.first().map_or(self.offset, |(offset, _)| *offset);
        Tail { file: name.to_string(), unsure, end: self.offset }
    }
}

/// The header of the group at `offset`, if it is one and the file has all of it.
fn group_at(window: &mut Window, offset: u64, seed: u32) -> io::Result<Option<GroupHeader>> {
    let bytes = window.get(offset, GROUP_HEADER_BYTES as u64)?;
    let Some(header) = bytes.and_then(|bytes| GroupHeader::decode(bytes, seed)) else { return Ok(None) };
    let end = (offset + GROUP_HEADER_BYTES as u64).checked_add(header.length);
    Ok(end.is_some_and(|end| end <= window.length).then_some(header))
}

/// Whether the records of a group are those that were written.
fn is_good(window: &mut Window, payload: u64, header: &GroupHeader) -> io::Result<bool> {
    let Some(mut bytes) = window.get(payload, header.length)? else { return Ok(false) };
    if format::payload_crc(bytes) != header.payload_crc {
        return Ok(false);
    }
    for _ in 0..header.records {
        if format::take_record(&mut bytes).is_err() {
            return Ok(false);
        }
    }
    Ok(bytes.is_empty())
}

/// Whether nothing but zeros follows.
fn is_zero(window: &mut Window, mut offset: u64) -> io::Result<bool> {
    while let Some(bytes) = window.some(offset)? {
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        offset += bytes.len() as u64;
    }
    Ok(true)
}

/// The first good group after `offset` that says that the record `lost` was durable.
fn find_durable(window: &mut Window, offset: u64, seed: u32, lost: Lsn) -> io::Result<Option<GroupHeader>> {
    let mut at = offset;
    while let Some((found, header)) = find(window, at, seed)? {
        if header.durable >= lost && header.first > lost {
            return Ok(Some(header));
        }
        at = found + 1;
    }
    Ok(None)
}

/// The first good group from `offset` on, wherever it begins.
fn find(window: &mut Window, mut offset: u64, seed: u32) -> io::Result<Option<(u64, GroupHeader)>> {
    loop {
        let Some(bytes) = window.some(offset)? else { return Ok(None) };
        let Some(at) = bytes.iter().position(|byte| *byte == GROUP_MAGIC[0]) else {
            offset += bytes.len() as u64;
            continue;
        };
        offset += at as u64;
        if let Some(header) = group_at(window, offset, seed)?
            && is_good(window, offset + GROUP_HEADER_BYTES as u64, &header)?
        {
            return Ok(Some((offset, header)));
        }
        offset += 1;
    }
}

/// Whether a segment has a record that can be read.
pub(super) fn holds_records(files: &dyn Files, segment: &Segment) -> io::Result<bool> {
    let mut window = Window::new(files.open(&segment.name)?)?;
    let Some(Ok(header)) = window.get(0, SEGMENT_HEADER_BYTES as u64)?.map(SegmentHeader::decode) else {
        return Ok(false);
    };
    let offset = SEGMENT_HEADER_BYTES as u64;
    let group = group_at(&mut window, offset, header.seed())?;
    Ok(match group {
        Some(group) if group.records > 0 => is_good(&mut window, offset + GROUP_HEADER_BYTES as u64, &group)?,
        _ => false,
    })
}

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
        files.rename(&segment.name, &format!("{}.damaged", segment.name))?;
    }
    if keep == 1 {
        truncate(files, &damage.file, damage.offset)?;
    }
    files.sync_directory()
}
