//! The library `cjson` as Redis ships it: JSON from and to Lua values, with its settings and messages.

mod decode;
mod encode;

use super::stack::{Answer, Fault, Kind, Stack, entry};
use std::ffi::c_int;

/// Settings of one instance of the library. They live in a userdatum that its functions have as an upvalue.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_max_depth: i32,
    decode_max_depth: i32,
    encode_invalid: Invalid,
    decode_invalid: bool,
    precision: i32,
    keep_buffer: bool,
}

/// What becomes of infinities and NaN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

const DEFAULTS: Settings = Settings {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_max_depth: 1000,
    decode_max_depth: 1000,
    encode_invalid: Invalid::Refused,
    decode_invalid: true,
    precision: 14,
    keep_buffer: true,
};

/// Where functions find their settings.
const SETTINGS: c_int = mlua_sys::lua_upvalueindex(1);

/// Pushes a new instance of the library.
pub fn push(stack: Stack<'_>) {
    let functions = [
        ("encode", entry!(encode::encode)),
        ("decode", entry!(decode::decode)),
        ("encode_sparse_array", entry!(encode_sparse_array)),
        ("encode_max_depth", entry!(encode_max_depth)),
        ("decode_max_depth", entry!(decode_max_depth)),
        ("encode_number_precision", entry!(encode_number_precision)),
        ("encode_keep_buffer", entry!(encode_keep_buffer)),
        ("encode_invalid_numbers", entry!(encode_invalid_numbers)),
        ("decode_invalid_numbers", entry!(decode_invalid_numbers)),
        ("new", entry!(new)),
    ];
    stack.push_table(0, functions.len() + 3);
    stack.push_userdata(DEFAULTS);
    for (name, function) in functions {
        stack.push_copy(-1);
        stack.push_function(function, 1);
        stack.set_field(-3, name);
    }
    stack.pop(1);
    stack.push_null();
    stack.set_field(-2, "null");
    stack.push_text("cjson");
    stack.set_field(-2, "_NAME");
    stack.push_text("2.1.0");
    stack.set_field(-2, "_VERSION");
}

fn new(stack: Stack<'_>) -> Answer {
    stack.set_top(0);
    push(stack);
    Ok(1)
}

impl Settings {
    fn of(stack: Stack<'_>) -> Settings {
        // SAFETY: `push` bound each function to a userdatum of settings.
        unsafe { stack.read_userdata(SETTINGS) }
    }

    fn store(self, stack: Stack<'_>) {
        // SAFETY: `push` bound each function to a userdatum of settings.
        unsafe { stack.write_userdata(SETTINGS, self) };
    }
}

/// Checks the number of arguments of a setting's function and fills up with nil.
fn arguments(stack: Stack<'_>, count: c_int) -> Result<Settings, Fault> {
    if stack.top() > count {
        return Err(Fault::Argument(count + 1, "found too many arguments".into()));
    }
    stack.set_top(count);
    Ok(Settings::of(stack))
}

/// Reads an integer argument into a setting, if there is one, and pushes the setting.
fn integer(stack: Stack<'_>, index: c_int, setting: &mut i32, min: i32, max: i32) -> Result<(), Fault> {
    if stack.kind(index) != Kind::Nil {
        let value = stack.integer_argument(index)?;
        if !(min as i64..=max as i64).contains(&value) {
            return Err(Fault::Argument(1, format!("expected integer between {min} and {max}").into()));
        }
        *setting = value as i32;
    }
    stack.push_number(*setting as f64);
    Ok(())
}

/// Reads an argument that is a truth value or one of some words; None when it is nil.
fn choice(stack: Stack<'_>, index: c_int, words: &[&str]) -> Result<Option<usize>, Fault> {
    match stack.kind(index) {
        Kind::Nil => Ok(None),
        Kind::Boolean => Ok(Some(stack.truth(index) as usize)),
        _ => {
            let word = stack.string_argument(index)?;
            let found = words.iter().position(|known| known.as_bytes() == word);
            let unknown = || format!("invalid option '{}'", String::from_utf8_lossy(word));
            found.map(Some).ok_or_else(|| Fault::Argument(index, unknown().into()))
        }
    }
}

fn switch(stack: Stack<'_>, index: c_int, setting: &mut bool) -> Result<(), Fault> {
    if let Some(on) = choice(stack, index, &["off", "on"])? {
        *setting = on == 1;
    }
    stack.push_bool(*setting);
    Ok(())
}

fn encode_sparse_array(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 3)?;
    switch(stack, 1, &mut settings.sparse_convert)?;
    integer(stack, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
    integer(stack, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
    settings.store(stack);
    Ok(3)
}

fn encode_max_depth(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    integer(stack, 1, &mut settings.encode_max_depth, 1, i32::MAX)?;
    settings.store(stack);
    Ok(1)
}

fn decode_max_depth(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    integer(stack, 1, &mut settings.decode_max_depth, 1, i32::MAX)?;
    settings.store(stack);
    Ok(1)
}

fn encode_number_precision(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    integer(stack, 1, &mut settings.precision, 1, 14)?;
    settings.store(stack);
    Ok(1)
}

fn encode_keep_buffer(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    switch(stack, 1, &mut settings.keep_buffer)?;
    settings.store(stack);
    Ok(1)
}

fn encode_invalid_numbers(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    if let Some(chosen) = choice(stack, 1, &["off", "on", "null"])? {
        settings.encode_invalid = [Invalid::Refused, Invalid::Written, Invalid::Null][chosen];
    }
    match settings.encode_invalid {
        Invalid::Null => stack.push_text("null"),
        other => stack.push_bool(other == Invalid::Written),
    }
    settings.store(stack);
    Ok(1)
}

fn decode_invalid_numbers(stack: Stack<'_>) -> Answer {
    let mut settings = arguments(stack, 1)?;
    switch(stack, 1, &mut settings.decode_invalid)?;
    settings.store(stack);
    Ok(1)
}
