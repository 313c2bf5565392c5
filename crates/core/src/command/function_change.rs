//! Libraries that are loaded, deleted and moved: FUNCTION LOAD, DELETE, FLUSH, DUMP and RESTORE.

use super::arguments::is;
use super::context::Context;
use super::dispatch::wrong_subcommand;
use super::function::{Aside, prepare, with_functions};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::procedure::functions::Loaded;
use crate::procedure::library::{quoting, read_heading};
use crate::procedure::{Functions, payload};
use crate::reply::Reply;
use crate::state::State;
use crate::table::library::LibraryDef;
use crate::txn::tables::taken;

/// An error inside a transaction of BEGIN, which has no libraries of its own.
fn check_outside(ctx: &Context<'_>) -> Result<()> {
    match ctx.session.transaction {
        Some(_) => Err(Error::new(Code::Sql, "libraries cannot be changed inside a transaction of BEGIN")),
        None => Ok(()),
    }
}

pub(super) fn load(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_outside(ctx)?;
    let (options, code) = match &args[2..] {
        [options @ .., code] => (options, *code),
        [] => return Err(Error::err("Function code is missing")),
    };
    if let Some(unknown) = options.iter().find(|option| !is(option, "REPLACE")) {
        // Line ends become spaces, except at the end.
        let text = unknown.split(|byte| *byte == 0).next().unwrap_or_default();
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        return Err(quoting(b"Unknown option given: ", &text[..end], b""));
    }
    let heading = read_heading(code)?;
    if options.is_empty() && ctx.state.tables.catalog.libraries.get(&heading.name).is_some() {
        return Err(Error::err(format!("Library '{}' already exists", heading.name)));
    }
    with_functions(ctx, |ctx, functions| {
        let loaded = load_one(ctx, functions, code)?;
        let added = ctx.state.tables.put_library(loaded.def.clone(), &mut ctx.effect.tables);
        if let Err(error) = added {
            functions.discard(&loaded);
            return Err(error);
        }
        functions.keep(loaded, &ctx.state.tables.catalog.libraries);
        Ok(Reply::bulk(&heading.name))
    })
}

/// Runs the code of a library, which becomes no part of anything yet.
fn load_one(ctx: &mut Context<'_>, functions: &mut Functions, code: &[u8]) -> Result<Loaded> {
    functions.load(&mut Aside::loading(&mut *ctx.state.env), code, Some(limits::LIBRARY_LOAD_MS_MAX))
}

pub(super) fn delete(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    check_outside(ctx)?;
    let name = String::from_utf8_lossy(args[2]);
    if !ctx.state.tables.drop_library(&name, &mut ctx.effect.tables) {
        return Err(Error::err("Library not found"));
    }
    prepare(ctx.state);
    Ok(Reply::Ok)
}

pub(super) fn flush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let asynchronous = match args {
        [_, _] => false,
        [_, _, mode] if is(mode, "SYNC") => false,
        [_, _, mode] if is(mode, "ASYNC") => true,
        [_, _, _] => return Err(Error::err("FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(wrong_subcommand("function", args[1])),
    };
    check_outside(ctx)?;
    drop_all(ctx);
    // Without libraries a new interpreter will do; the old one has what its functions kept.
    let old = ctx.state.scripts.take_functions();
    if asynchronous {
        // Without a thread it is freed here, a little later.
        let _ = std::thread::Builder::new().name("peryton-free".into()).spawn(move || drop(old));
    }
    prepare(ctx.state);
    Ok(Reply::Ok)
}

fn drop_all(ctx: &mut Context<'_>) {
    let names: Vec<String> = ctx.state.tables.catalog.libraries.iter().map(|library| library.name.clone()).collect();
    for name in names {
        ctx.state.tables.drop_library(&name, &mut ctx.effect.tables);
    }
}

pub(super) fn dump(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(Reply::bulk(payload::write(&ctx.state.tables.catalog.libraries)))
}

/// What becomes of the libraries that are there when others are restored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

pub(super) fn restore(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let policy = match &args[3..] {
        [] => Policy::Append,
        [word] if is(word, "APPEND") => Policy::Append,
        [word] if is(word, "REPLACE") => Policy::Replace,
        [word] if is(word, "FLUSH") => Policy::Flush,
        [_] => {
            let text = "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(Error::err(text));
        }
        _ => return Err(wrong_subcommand("function", args[1])),
    };
    check_outside(ctx)?;
    let texts = payload::read(args[2])?;
    with_functions(ctx, |ctx, functions| {
        let mut loaded: Vec<Loaded> = Vec::new();
        let result = texts.iter().try_for_each(|text| load_another(ctx, functions, text, &mut loaded));
        let result = result.and_then(|()| check_collisions(ctx, &loaded, policy));
        if let Err(error) = result {
            loaded.iter().for_each(|loaded| functions.discard(loaded));
            return Err(error);
        }
        if policy == Policy::Flush {
            drop_all(ctx);
        }
        // Those that are replaced go first, since a function may have moved from one to another.
        for Loaded { def, .. } in &loaded {
            ctx.state.tables.drop_library(&def.name, &mut ctx.effect.tables);
        }
        for Loaded { def, .. } in &loaded {
            ctx.state.tables.put_library(def.clone(), &mut ctx.effect.tables)?;
        }
        let State { env, tables, .. } = &mut *ctx.state;
        functions.keep_all(loaded, &tables.catalog.libraries, &mut Aside::loading(&mut **env));
        Ok(Reply::Ok)
    })
}

/// Loads one more library of a payload, which must get along with those before it.
fn load_another(ctx: &mut Context<'_>, functions: &mut Functions, text: &[u8], loaded: &mut Vec<Loaded>) -> Result<()> {
    let heading = read_heading(text)?;
    if loaded.iter().any(|other| other.def.name == heading.name) {
        return Err(Error::err(format!("Library '{}' already exists", heading.name)));
    }
    let new = load_one(ctx, functions, text)?;
    let is_known = |name: &str| {
        loaded.iter().flat_map(|other| &other.def.functions).any(|known| known.name.eq_ignore_ascii_case(name))
    };
    let collision = new.def.functions.iter().find(|function| is_known(&function.name)).map(|f| f.name.clone());
    if let Some(name) = collision {
        functions.discard(&new);
        return Err(taken(&name));
    }
    loaded.push(new);
    Ok(())
}

/// An error if libraries, or functions of them, have names that are taken.
fn check_collisions(ctx: &Context<'_>, loaded: &[Loaded], policy: Policy) -> Result<()> {
    let libraries = &ctx.state.tables.catalog.libraries;
    if policy == Policy::Flush {
        return Ok(());
    }
    if policy == Policy::Append
        && let Some(loaded) = loaded.iter().find(|loaded| libraries.get(&loaded.def.name).is_some())
    {
        return Err(Error::err(format!("Library {} already exists", loaded.def.name)));
    }
    let is_replaced = |library: &LibraryDef| loaded.iter().any(|loaded| loaded.def.name == library.name);
    let is_taken = |name: &str| libraries.of_function(name).is_some_and(|library| !is_replaced(library));
    let mut functions = loaded.iter().flat_map(|loaded| &loaded.def.functions);
    functions.find(|function| is_taken(&function.name)).map_or(Ok(()), |function| Err(taken(&function.name)))
}
