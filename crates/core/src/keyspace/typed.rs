//! The types of value as edits see them: how a `Value` is one of them, and how their operations become one vocabulary.

use crate::value::{Hash, HashOp, List, ListOp, Op, Operation, Set, SetOp, Str, StrOp, Value, ZSet, ZSetOp};

/// A type of value.
pub trait Typed: Sized {
    /// Its operations.
    type Op: Operation;

    /// The TYPE of such values.
    const NAME: &'static str;

    /// The value, if it is of this type.
    fn of(value: &Value) -> Option<&Self>;

    /// The value for changes, if it is of this type.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;

    /// A new value without content.
    fn empty() -> Value;

    /// One of its operations, as one of any type.
    fn op(op: Self::Op) -> Op;
}

macro_rules! typed {
    ($type:ident, $op:ident, $name:literal, $empty:expr) => {
        impl Typed for $type {
            type Op = $op;
            const NAME: &'static str = $name;

            #[inline]
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$type(value) = value { Some(value) } else { None }
            }

            #[inline]
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$type(value) = value { Some(value) } else { None }
            }

            fn empty() -> Value {
                $empty
            }

            fn op(op: $op) -> Op {
                Op::$type(op)
            }
        }
    };
}

typed!(Str, StrOp, "string", Value::string(b""));
typed!(List, ListOp, "list", Value::List(Box::default()));
typed!(Set, SetOp, "set", Value::Set(Box::default()));
typed!(Hash, HashOp, "hash", Value::Hash(Box::default()));
typed!(ZSet, ZSetOp, "zset", Value::ZSet(Box::default()));
