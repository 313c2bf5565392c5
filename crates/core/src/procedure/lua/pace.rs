//! How long a function of ours has been at it, so that it ends when its script is to end.
//!
//! The interpreter looks by itself before each instruction. A function that goes over large data, or over small data many
//! times, counts what it does here instead.

use super::shared::Shared;
use super::stack::{Fault, Stack};

/// Steps between two looks.
const STEPS: u32 = 4096;
/// Bytes that are gone over in a step.
pub const PACE_BYTES: usize = 64;

/// Counts steps.
pub struct Pace<'a> {
    shared: &'a Shared,
    left: u32,
}

impl<'a> Pace<'a> {
    /// For a function that begins.
    pub fn new(stack: Stack<'a>) -> Pace<'a> {
        Pace { shared: stack.shared(), left: STEPS }
    }

    /// Takes so many steps.
    ///
    /// # Errors
    /// The script is to end.
    #[inline]
    pub fn take(&mut self, steps: usize) -> Result<(), Fault> {
        match self.left.checked_sub(steps.min(STEPS as usize) as u32) {
            Some(left) if left > 0 => {
                self.left = left;
                Ok(())
            }
            _ => self.look(),
        }
    }

    #[cold]
    fn look(&mut self) -> Result<(), Fault> {
        self.left = STEPS;
        if self.shared.must_end() { Err(Fault::Ended) } else { Ok(()) }
    }
}
