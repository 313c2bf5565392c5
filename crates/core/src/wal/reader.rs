//! Reads a log back: every record once and in order, and what is wrong with it.

use super::findings::{Cut, Damage, End, ReadError, Start, Tail};
use super::format::{
    self, BadHeader, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use super::segment::{self, Segment};
use super::window::Window;
use super::{Lsn, StoreId};
use crate::env::Files;
use std::io;

/// What is done with a record.
pub type Visit<'a, E> = dyn FnMut(Lsn, &[u8]) -> Result<(), E> + 'a;

/// Gives all records from `start` on to `visit`, and tells `progress` how many bytes of how many are read.
///
/// # Errors
/// A file cannot be read, the log is damaged or not ours, or the visitor refuses. What was visited before that is good.
pub fn read<E>(
    files: &dyn Files,
    start: Start,
    progress: &mut dyn FnMut(u64, u64),
    visit: &mut Visit<'_, E>,
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
