//! stub
pub struct Str(Box<Vec<u8>>);
impl Str {
    pub fn from_slice(s: &[u8]) -> Str {
        Str(Box::new(s.to_vec()))
    }
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}
pub enum Value {
    Str(Str),
}
pub enum Op {
    Put(Value, Option<i64>),
    Remove,
    ExpireAt(Option<i64>),
}
#[derive(Default, Clone)]
pub struct Thresholds {
    pub hash_entries: usize,
    pub hash_value_bytes: usize,
    pub set_intset_entries: usize,
    pub zset_entries: usize,
    pub zset_value_bytes: usize,
    pub list_size: i64,
}
