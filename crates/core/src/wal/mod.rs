//! stub
#![allow(missing_docs)]
use std::sync::Arc;
pub type Lsn = u64;
#[derive(Clone)]
pub struct Log;
#[derive(Clone,Copy,PartialEq,Eq,Debug)]
pub enum Condition { Fine, Full, Failed }
#[derive(Debug)]
pub struct LogError;
impl std::fmt::Display for LogError { fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { Ok(()) } }
impl Log {
  pub fn append(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Lsn { encode(&mut vec![]); 0 }
  pub fn last(&self) -> Lsn {0}
  pub fn durable(&self) -> Lsn {0}
  pub fn want(&self, _: Lsn) {}
  pub fn wait(&self, _: Lsn) -> Result<(), LogError> {Ok(())}
  pub fn on_progress(&self, _: Arc<dyn Fn() + Send + Sync>) {}
  pub fn condition(&self) -> Condition {Condition::Fine}
  pub fn refusal(&self) -> Option<String> {None}
  pub fn queued_bytes(&self) -> usize {0}
  pub fn size_bytes(&self) -> u64 {0}
}
