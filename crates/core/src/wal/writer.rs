//! What the log's thread does: takes what is queued, writes it, syncs it, keeps room ready, begins segments.

use super::log::{SegmentSize, Segments};
use super::queue::{Batch, Condition, Queue, Shared};
use super::segment_file::{SegmentFile, Trouble};
use super::{LogSettings, Lsn, StoreId, segment};
use crate::env::{Files, whereabouts};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// The log's thread.
pub struct Writer {
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    settings: LogSettings,
    id: StoreId,
    /// None while a full disk has no room for the first.
    segment: Option<SegmentFile>,
    /// Taken from the queue, not written.
    pending: VecDeque<Batch>,
    /// Written, not synced: kept for the case that the sync fails.
    unsynced: Vec<Batch>,
    unsynced_bytes: usize,
    /// LSN of the record that is written next.
    next: Lsn,
    /// A segment is to begin with this record.
    rotate_at: Option<Lsn>,
    /// The room that is wanted could not be had in this turn.
    is_full: bool,
    timers: Timers,
    ended: bool,
}

/// When something must be done though nobody asks.
#[derive(Default)]
struct Timers {
    write: Option<Instant>,
    sync: Option<Instant>,
    retry: Option<Instant>,
    /// Until then nothing queued need be noticed: it is written at this time. It spares those who append and then want
    /// from waking the thread twice.
    lull: Option<Instant>,
}

impl Timers {
    fn next(&self) -> Option<Instant> {
        [self.write, self.sync, self.retry, self.lull].into_iter().flatten().min()
    }
}

/// What a turn is to do besides writing all that is queued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// Make it durable.
    pub sync: bool,
    /// Then end the log.
    pub close: bool,
}

impl Writer {
    pub fn open(
        shared: Arc<Shared>,
        segments: Arc<Segments>,
        id: StoreId,
        next: Lsn,
        settings: LogSettings,
    ) -> io::Result<Writer> {
        *segments.list.lock() = existing(&*segments.files, next)?;
        segment::remove_new(&*segments.files)?;
        let mut writer = Writer {
            shared,
            segments,
            settings,
            id,
            segment: None,
            pending: VecDeque::new(),
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            next,
            rotate_at: None,
            is_full: false,
            timers: Timers::default(),
            ended: false,
        };
        match writer.begin_first().and_then(|()| writer.keep_head_room()) {
            Ok(()) => {}
            Err(Trouble::Full) => writer.note_full(),
            Err(Trouble::Broken(what)) => return Err(io::Error::other(what)),
        }
        Ok(writer)
    }

    /// Works until the log is closed or has failed.
    pub fn run(mut self) {
        while !self.ended {
            let order = self.await_work();
            if catch_unwind(AssertUnwindSafe(|| self.turn(order))).is_err() {
                self.fail_after_panic();
            }
        }
    }

    /// A bug. Whoever waits must not wait for ever, and what is on the disk is as after a failed write.
    fn fail_after_panic(&mut self) {
        const WHAT: &str = "its thread panicked";
        if catch_unwind(AssertUnwindSafe(|| self.fail(WHAT))).is_err() {
            self.shared.queue.lock().refuses = true;
            self.shared.set_condition(Condition::Failed, Some(format!("{}: {WHAT}", self.failed())));
            self.shared.note_nothing_queued();
            self.ended = true;
            self.shared.settle();
        }
    }

    /// Sleeps until there is something to do, and takes it.
    fn await_work(&mut self) -> Order {
        let shared = self.shared.clone();
        let mut queue = shared.queue.lock();
        loop {
            let now = Instant::now();
            self.set_timers(&queue, now);
            if let Some(order) = self.due(&queue, now) {
                self.take(&mut queue);
                return order;
            }
            let in_time = self.timers.lull.is_some() || !queue.is_empty();
            shared.note_sleep(&mut queue, true, !in_time);
            if self.pending.is_empty() && shared.is_wanted() {
                shared.note_sleep(&mut queue, false, false);
                continue;
            }
            #[cfg(test)]
            shared.sleeps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match self.wakes_at() {
                Some(time) => drop(shared.work.wait_until(&mut queue, time)),
                None => shared.work.wait(&mut queue),
            }
            shared.note_sleep(&mut queue, false, false);
        }
    }

    /// When there may be something to do. While what is to be written waits for room, only the retry is: the times of others
    /// may be over.
    fn wakes_at(&self) -> Option<Instant> {
        match self.timers.retry {
            Some(retry) if !self.pending.is_empty() => Some(retry),
            _ => self.timers.next(),
        }
    }

    fn set_timers(&mut self, queue: &Queue, now: Instant) {
        let timers = &mut self.timers;
        if timers.lull.is_some_and(|time| time <= now) {
            timers.lull = None;
            // What was queued meanwhile is that old, perhaps.
            if !queue.is_empty() {
                timers.write = Some(now);
            }
        }
        if !queue.is_empty() && timers.lull.is_none() {
            timers.write.get_or_insert(now + self.settings.write_delay);
        }
        if !self.unsynced.is_empty() || timers.write.is_some() {
            timers.sync.get_or_insert(now + self.settings.sync_interval);
        }
    }

    /// What to do now, if there is anything.
    fn due(&self, queue: &Queue, now: Instant) -> Option<Order> {
        let over = |timer: Option<Instant>| timer.is_some_and(|time| time <= now);
        let sync = over(self.timers.sync) || self.shared.is_wanted();
        if queue.closing {
            return Some(Order { sync: true, close: true });
        }
        if over(self.timers.retry) {
            return Some(Order { sync, close: false });
        }
        // What waits for room waits for the retry.
        let blocked = !self.pending.is_empty();
        let write = over(self.timers.write) || queue.is_heavy() || queue.rotate_at.is_some();
        (!blocked && (sync || write)).then_some(Order { sync, close: false })
    }

    fn take(&mut self, queue: &mut Queue) {
        queue.take(&mut self.pending);
        self.rotate_at = queue.rotate_at.take().or(self.rotate_at);
        self.timers.write = None;
        self.timers.retry = None;
    }

    /// One turn of the thread over all that is queued, for tests that have none.
    #[cfg(test)]
    pub fn step(&mut self, order: Order) {
        if !self.ended {
            let shared = self.shared.clone();
            self.take(&mut shared.queue.lock());
            self.turn(order);
        }
    }

    fn turn(&mut self, order: Order) {
        self.is_full = false;
        match self.work(order) {
            Ok(()) if order.close => self.end(),
            Ok(()) => self.note_fine(),
            Err(Trouble::Full) if order.close => self.fail("the disk has no room for what the log still holds"),
            Err(Trouble::Full) => self.note_full(),
            Err(Trouble::Broken(what)) => self.fail(&what),
        }
    }

    fn work(&mut self, order: Order) -> Result<(), Trouble> {
        let written = match self.write_pending(order) {
            Err(Trouble::Broken(what)) => return Err(Trouble::Broken(what)),
            other => other,
        };
        // What has been written although the rest has no room is as good as ever.
        if order.sync {
            let was_wanted = self.shared.is_wanted();
            self.sync()?;
            // No longer than what nobody wants may wait to be written: if only the process dies, no more is lost.
            let lull = self.settings.write_delay.min(self.settings.sync_interval);
            self.timers.lull = was_wanted.then(|| Instant::now() + lull);
        }
        written?;
        self.rotate_if_asked()?;
        if order.close { self.put_end() } else { self.keep_head_room() }
    }

    fn write_pending(&mut self, order: Order) -> Result<(), Trouble> {
        while let Some(batch) = self.pending.front() {
            let (first, bytes) = (batch.first, batch.bytes.len());
            self.begin_segment_if_due(first)?;
            let head_room = self.settings.head_room_bytes + self.settings.reserve_step_bytes;
            let durable = self.shared.durable();
            let (Some(segment), Some(batch)) = (&mut self.segment, self.pending.front_mut()) else { break };
            segment.reserve(bytes as u64, bytes as u64 + head_room)?;
            segment.write(batch, durable)?;
            self.note_written(bytes);
            if let (Some(segment), true) = (&mut self.segment, order.sync) {
                segment.put_zeros(bytes, self.settings.zeros_ahead_bytes)?;
            }
            if self.unsynced_bytes >= self.settings.unsynced_bytes {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Moves the first of `pending`, which was written, to `unsynced`.
    fn note_written(&mut self, bytes: usize) {
        let batch = self.pending.pop_front().expect("it was written");
        self.next = batch.next();
        self.unsynced.push(batch);
        self.unsynced_bytes += bytes;
        self.shared.note_written(bytes - super::format::GROUP_HEADER_BYTES);
        self.note_size();
    }

    fn sync(&mut self) -> Result<(), Trouble> {
        self.timers.sync = None;
        let (Some(segment), false) = (&mut self.segment, self.unsynced.is_empty()) else { return Ok(()) };
        segment.sync()?;
        self.unsynced_bytes = 0;
        {
            let mut queue = self.shared.queue.lock();
            self.unsynced.drain(..).for_each(|batch| queue.recycle(batch));
        }
        self.shared.set_durable(self.next - 1);
        Ok(())
    }

    /// Begins a segment with the record that is written next, if there is none, or the present one is full, or somebody
    /// asked for it. On a full disk the present one goes on, as long as it has room.
    fn begin_segment_if_due(&mut self, first: Lsn) -> Result<(), Trouble> {
        if self.segment.is_none() {
            return self.begin_first();
        }
        let is_full = self.segment.as_ref().is_some_and(|segment| segment.end >= self.settings.segment_bytes);
        if !self.is_full && (is_full || self.rotate_at.is_some_and(|at| at <= first)) {
            match self.rotate() {
                Err(Trouble::Full) => self.is_full = true,
                other => other?,
            }
        }
        Ok(())
    }

    fn rotate_if_asked(&mut self) -> Result<(), Trouble> {
        match self.rotate_at {
            Some(at) if at <= self.next && !self.is_full => self.rotate(),
            _ => Ok(()),
        }
    }

    /// Begins the next segment. All before it is made durable first, so that only the last segment can have a torn tail.
    fn rotate(&mut self) -> Result<(), Trouble> {
        self.sync()?;
        if self.segment.as_ref().is_some_and(|segment| segment.first == self.next) {
            // It is empty as yet.
            self.rotate_at = None;
            return Ok(());
        }
        let segment = self.create(true)?;
        if let Some(mut old) = self.segment.replace(segment) {
            // If this fails the file is a little longer than it need be.
            let _ = old.trim();
        }
        self.rotate_at = None;
        self.note_segment();
        Ok(())
    }

    fn begin_first(&mut self) -> Result<(), Trouble> {
        self.segment = Some(self.create(false)?);
        self.note_segment();
        Ok(())
    }

    /// Makes a segment, durable with its name; `roomy` demands head-room.
    fn create(&mut self, roomy: bool) -> Result<SegmentFile, Trouble> {
        let mut segment = self.create_nameless(roomy)?;
        segment.sync()?;
        self.give_name(&segment)?;
        Ok(segment)
    }

    /// Makes a segment that nobody sees yet. One that is given up, for want of room, must not come back after a crash as
    /// the newest.
    fn create_nameless(&self, roomy: bool) -> Result<SegmentFile, Trouble> {
        let mut segment = SegmentFile::create(&*self.segments.files, self.id, self.next)?;
        let head_room = self.settings.head_room_bytes;
        match segment.reserve(head_room, head_room + self.settings.reserve_step_bytes) {
            Err(Trouble::Full) if !roomy => Ok(segment),
            Err(trouble) => {
                // If this fails the next try takes its place.
                let _ = self.segments.files.remove(&segment::new_name(self.next));
                Err(trouble)
            }
            Ok(()) => Ok(segment),
        }
    }

    /// Gives a segment its name, in the place of one that has it and holds nothing durable.
    fn give_name(&self, segment: &SegmentFile) -> Result<(), Trouble> {
        let files = &*self.segments.files;
        let named =
            files.rename(&segment::new_name(segment.first), &segment.name).and_then(|()| files.sync_directory());
        named.map_err(|error| Trouble::Broken(format!("cannot give {} its name: {error}", segment.name)))
    }

    fn keep_head_room(&mut self) -> Result<(), Trouble> {
        if self.is_full {
            return Err(Trouble::Full);
        }
        let head_room = self.settings.head_room_bytes;
        let Some(segment) = &mut self.segment else { return self.begin_first() };
        segment.reserve(head_room, head_room + self.settings.reserve_step_bytes)
    }

    /// The end of a log that is closed: a group that tells that all before it is durable, and no reserved room.
    fn put_end(&mut self) -> Result<(), Trouble> {
        let durable = self.shared.durable();
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.write_end(durable)?;
        segment.trim()?;
        segment.sync()?;
        self.note_size();
        Ok(())
    }

    fn end(&mut self) {
        self.shared.queue.lock().refuses = true;
        self.ended = true;
        self.shared.settle();
    }

    fn note_fine(&mut self) {
        self.timers.retry = None;
        if self.shared.condition() == Condition::Full {
            self.shared.set_condition(Condition::Fine, None);
        }
    }

    fn note_full(&mut self) {
        self.timers.retry = Some(Instant::now() + self.settings.retry);
        let refusal = format!(
            "the disk has no room for the log{}, so nothing can be changed; it goes on by itself as soon as there is room",
            whereabouts(&*self.segments.files)
        );
        self.shared.set_condition(Condition::Full, Some(refusal));
    }

    /// Ends the log after a failure. What was appended and is not durable is tried to be saved in a segment of its own.
    fn fail(&mut self, what: &str) {
        let shared = self.shared.clone();
        {
            let mut queue = shared.queue.lock();
            queue.refuses = true;
            queue.take(&mut self.pending);
        }
        let advice = "nothing can be changed until the store is opened again; look after the disk first";
        shared.set_condition(Condition::Failed, Some(format!("{}: {what}; {advice}", self.failed())));
        let durable = shared.durable();
        self.segment = None;
        let mut lost: VecDeque<Batch> = self.unsynced.drain(..).collect();
        lost.append(&mut self.pending);
        shared.note_nothing_queued();
        match self.rescue(durable + 1, &mut lost) {
            Ok(()) => shared.set_durable(shared.last()),
            Err(Trouble::Full) => self.note_lost(what, "the disk has no room"),
            Err(Trouble::Broken(second)) => self.note_lost(what, &second),
        }
        self.ended = true;
        shared.settle();
    }

    /// Which log failed, in words.
    fn failed(&self) -> String {
        format!("the log{} failed", whereabouts(&*self.segments.files))
    }

    fn note_lost(&self, what: &str, second: &str) {
        let (from, to) = (self.shared.durable() + 1, self.shared.last());
        let refusal = format!(
            "{}: {what}; then {second}: changes {from} to {to} are not durable; \
             nothing can be changed until the store is opened again; look after the disk first",
            self.failed()
        );
        self.shared.set_condition(Condition::Failed, Some(refusal));
    }

    /// Writes what is not durable into a new segment. The failed one may hold some of the same records; the newer counts.
    fn rescue(&mut self, first: Lsn, lost: &mut VecDeque<Batch>) -> Result<(), Trouble> {
        // After a panic some may be missing, and then nobody may be told that all is well.
        let end = lost.iter().try_fold(first, |next, batch| (batch.first == next).then(|| batch.next()));
        if end != Some(self.shared.last() + 1) {
            return Err(Trouble::Broken("some are not there to be saved, through a bug".into()));
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.next = first;
        let mut segment = self.create_nameless(false)?;
        // Full or broken, what is left of it is removed when the store is opened again.
        for batch in lost.iter_mut() {
            segment.write(batch, first - 1)?;
        }
        segment.trim()?;
        segment.sync()?;
        self.give_name(&segment)?;
        self.segment = Some(segment);
        self.note_segment();
        Ok(())
    }

    fn note_segment(&self) {
        let Some(segment) = &self.segment else { return };
        let mut list = self.segments.list.lock();
        list.retain(|other| other.first != segment.first);
        list.push(SegmentSize { first: segment.first, name: segment.name.clone(), bytes: segment.end });
    }

    fn note_size(&self) {
        if let (Some(segment), Some(last)) = (&self.segment, self.segments.list.lock().last_mut()) {
            last.bytes = segment.end;
        }
    }
}

/// The segments before the one that begins with `next`.
fn existing(files: &dyn Files, next: Lsn) -> io::Result<Vec<SegmentSize>> {
    let mut sizes = Vec::new();
    for segment in segment::list(files)? {
        let bytes = files.open(&segment.name)?.length()?;
        if segment.first > next || (segment.first == next && super::reader::holds_records(files, &segment)?) {
            let what = format!("{} holds records that were not recovered", segment.name);
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        sizes.push(SegmentSize { first: segment.first, name: segment.name, bytes });
    }
    Ok(sizes)
}
