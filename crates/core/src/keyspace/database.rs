//! stub
use crate::value::*;
use std::collections::HashMap;
#[derive(Default)]
pub struct Database {
    pub map: HashMap<Box<[u8]>, (Value, Option<i64>)>,
}
impl Database {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn len(&self) -> usize {
        self.map.len()
    }
}
