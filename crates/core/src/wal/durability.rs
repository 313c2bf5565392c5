//! What a reply promises about the log.

/// What a reply promises about the changes that it tells of: its own, and those that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// They are on disk before it is sent.
    Sync,
    /// They are on disk within a second, unless the machine fails before.
    Interval,
    /// Nothing. Only a store opened with this has no log; elsewhere it means what `Interval` does.
    None,
}

impl Durability {
    /// Reads `sync`, `interval` or `none`, in any case.
    pub fn parse(text: &[u8]) -> Option<Durability> {
        let known = [Durability::Sync, Durability::Interval, Durability::None];
        known.into_iter().find(|one| text.eq_ignore_ascii_case(one.name().as_bytes()))
    }

    /// Its name, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Interval => "interval",
            Durability::None => "none",
        }
    }
}
