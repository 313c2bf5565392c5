//! A key of a database by which maps are asked without copying it.

use hashbrown::Equivalent;

/// A database's number and a key of it, as maps own it.
pub type OwnedPlace = (usize, Box<[u8]>);

/// The same, borrowed. It hashes as the owned one does: number, then bytes.
#[derive(Hash)]
pub struct Place<'a>(pub usize, pub &'a [u8]);

impl Equivalent<OwnedPlace> for Place<'_> {
    fn equivalent(&self, owned: &OwnedPlace) -> bool {
        self.0 == owned.0 && *self.1 == *owned.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::HashMap;

    #[test]
    fn what_was_put_under_the_owned_one_is_found_by_the_borrowed_one() {
        let map: HashMap<OwnedPlace, u8> = HashMap::from([((3, Box::from(&b"key"[..])), 1)]);
        assert_eq!(Some(&1), map.get(&Place(3, b"key")));
        assert_eq!(None, map.get(&Place(4, b"key")));
        assert_eq!(None, map.get(&Place(3, b"ke")));
    }
}
