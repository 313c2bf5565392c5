//! `math.random` and `math.randomseed` with the sequence that Redis has on every machine: `lrand48`'s.

use super::stack::{Answer, Fault, Stack};

/// A linear congruential generator of 48 bits.
#[derive(Clone, Copy)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    fn seeded(seed: i32) -> Self {
        Random((seed as u32 as u64) << 16 | 0x330E)
    }

    /// The next state and a number in [0, 1).
    fn step(self) -> (Self, f64) {
        let state = (self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & 0xFFFF_FFFF_FFFF;
        let max = i32::MAX as u64;
        (Random(state), ((state >> 17) % max) as f64 / max as f64)
    }
}

/// `math.random([low,] high)`
pub fn random(stack: Stack<'_>) -> Answer {
    let cell = &stack.shared().random;
    let (next, fraction) = cell.get().step();
    cell.set(next);
    let value = match stack.top() {
        0 => fraction,
        1 => {
            let high = stack.integer_argument(1)? as i32;
            if high < 1 {
                return Err(Fault::Argument(1, "interval is empty".into()));
            }
            (fraction * high as f64).floor() + 1.0
        }
        2 => {
            let (low, high) = (stack.integer_argument(1)? as i32, stack.integer_argument(2)? as i32);
            if low > high {
                return Err(Fault::Argument(2, "interval is empty".into()));
            }
            (fraction * high.wrapping_sub(low).wrapping_add(1) as f64).floor() + low as f64
        }
        _ => return Err(Fault::Here("wrong number of arguments".into())),
    };
    stack.push_number(value);
    Ok(1)
}

/// `math.randomseed(seed)`
pub fn randomseed(stack: Stack<'_>) -> Answer {
    let seed = stack.integer_argument(1)? as i32;
    stack.shared().random.set(Random::seeded(seed));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_lrand48s() {
        let mut random = Random::default();
        let mut take = || {
            let (next, fraction) = random.step();
            random = next;
            format!("{fraction:.14}")
        };
        assert_eq!(["0.39646477363839", "0.84048536971234"], [take(), take()]);
        assert_eq!("0.17082803611217", format!("{:.14}", Random::seeded(0).step().1));
        assert_eq!("0.81681649285220", format!("{:.14}", Random::seeded(-5).step().1));
    }
}
