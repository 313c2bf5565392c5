//! Frees big values and whole databases away from the baton (principle: nothing under the baton takes long).

use std::any::Any;
use std::sync::mpsc::{Sender, channel};

/// A thread that drops what it is given; started when it is first needed.
#[derive(Default)]
pub struct Reaper {
    sender: Option<Sender<Box<dyn Any + Send>>>,
}

impl Reaper {
    /// Drops `garbage` soon, on another thread; here and now if there can be none.
    pub fn free(&mut self, garbage: impl Any + Send) {
        let sender = self.sender.get_or_insert_with(|| {
            let (sender, receiver) = channel::<Box<dyn Any + Send>>();
            // Without a thread the receiver is gone, and sending gives the garbage back.
            let builder = std::thread::Builder::new().name("peryton-reaper".into());
            let _ = builder.spawn(move || receiver.into_iter().for_each(drop));
            sender
        });
        // What cannot be sent is dropped here.
        let _ = sender.send(Box::new(garbage));
    }
}
