//! Commands of scripts: EVAL and its kin, SCRIPT and its subcommands.

use super::arguments::{integer, is};
use super::context::Context;
use super::dispatch::ScriptMode;
use super::script_host::with_host;
use super::server::{container, help};
use super::spec::{Find, Flags, Group, Keys, Run, Spec, Use};
use super::{atomic, room, routine};
use crate::error::{Code, Error, Result};
use crate::procedure::budget::Kind;
use crate::procedure::lua::Lua;
use crate::procedure::{Call, Host, Language, Outcome, ScriptFlags, ScriptId};
use crate::reply::Reply;

const RUNS: Flags = Flags::NOSCRIPT
    .union(Flags::STALE)
    .union(Flags::SKIP_MONITOR)
    .union(Flags::MAY_REPLICATE)
    .union(Flags::NO_MANDATORY_KEYS);
const RUNS_READ_ONLY: Flags = RUNS.difference(Flags::MAY_REPLICATE).union(Flags::READONLY);
const ANYTIME: Flags = Flags::LOADING.union(Flags::STALE);

/// A command that runs a script.
const fn runs(name: &'static str, run: Run, flags: Flags, since: &'static str, usage: &'static str) -> Spec {
    let summary = "Runs a Lua script.";
    let complexity = "Depends on the script that is executed.";
    // How a script uses its keys is not known, so the worst is told.
    let uses = if flags.contains(Flags::READONLY) { Use::READ } else { Use::READ_CHANGE };
    let keys = Keys::None.and(uses, 2, Find::Counted { at_least: 0 });
    Spec::row(Group::Scripting, name, run, -3, flags, keys, since, complexity, usage, summary)
}

/// A subcommand of SCRIPT.
const fn sub(
    name: &'static str,
    run: Run,
    arity: i32,
    flags: Flags,
    since: &'static str,
    usage: &'static str,
    summary: &'static str,
) -> Spec {
    Spec::row(Group::Scripting, name, run, arity, flags, Keys::None, since, "O(N)", usage, summary)
}

const TEXT_USAGE: &str = "script numkeys [key [key ...]] [arg [arg ...]]";
const SHA_USAGE: &str = "sha1 numkeys [key [key ...]] [arg [arg ...]]";

pub(super) const COMMANDS: &[Spec] = &[
    runs("eval", eval, RUNS, "2.6.0", TEXT_USAGE),
    runs("evalsha", evalsha, RUNS, "2.6.0", SHA_USAGE),
    runs("eval_ro", eval_ro, RUNS_READ_ONLY, "7.0.0", TEXT_USAGE),
    runs("evalsha_ro", evalsha_ro, RUNS_READ_ONLY, "7.0.0", SHA_USAGE),
    sub("script", container, -2, Flags::empty(), "2.6.0", "", "A container for commands on scripts.").holding(&[
        sub(
            "script|debug",
            debug,
            3,
            Flags::NOSCRIPT,
            "3.2.0",
            "<YES|SYNC|NO>",
            "Sets the debug mode of scripts, of which there is only NO.",
        ),
        sub("script|exists", exists, -3, Flags::NOSCRIPT, "2.6.0", "sha1 [sha1 ...]", "Tells which scripts are known."),
        sub("script|flush", flush, -2, Flags::NOSCRIPT, "2.6.0", "[ASYNC|SYNC]", "Forgets all scripts."),
        sub("script|help", script_help, 2, ANYTIME, "5.0.0", "", "Shows what SCRIPT can do."),
        sub(
            "script|kill",
            kill,
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            "2.6.0",
            "",
            "Ends the running script, unless it has written.",
        ),
        sub(
            "script|load",
            load,
            3,
            Flags::NOSCRIPT.union(Flags::STALE),
            "2.6.0",
            "script",
            "Makes a script known without running it.",
        ),
    ]),
];

fn eval(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, Named::Text, false)
}

fn eval_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, Named::Text, true)
}

fn evalsha(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, Named::Sha, false)
}

fn evalsha_ro(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    run(ctx, args, Named::Sha, true)
}

/// How a command names the script it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Text,
    Sha,
}

fn no_script() -> Error {
    Error::new(Code::NoScript, "No matching script. Please use EVAL.")
}

fn run(ctx: &mut Context<'_>, args: &[&[u8]], named: Named, read_only: bool) -> Result<Reply> {
    if named == Named::Sha && args[1].len() != 40 {
        return Err(no_script());
    }
    let (keys, rest) = split_keys(args, integer(args[2])?)?;
    let Some(mut lua) = ctx.state.scripts.take_lua() else {
        return Err(Error::err("a script is running already"));
    };
    // Whatever happens in between, the interpreter goes back to its place.
    let outcome = find(ctx, &mut lua, args[1], named)
        .and_then(|id| prepare(ctx, &mut lua, id, read_only))
        .map(|prepared| run_prepared(ctx, &mut lua, prepared, keys, rest));
    ctx.state.scripts.lua = Some(lua);
    outcome?
}

/// Arguments of a request.
pub(super) type Arguments<'a> = &'a [&'a [u8]];

/// The names of keys, of which there are `count`, and the other arguments.
pub(super) fn split_keys<'a>(args: Arguments<'a>, count: i64) -> Result<(Arguments<'a>, Arguments<'a>)> {
    if count < 0 {
        return Err(Error::err("Number of keys can't be negative"));
    }
    let too_many = || Error::err("Number of keys can't be greater than number of args");
    args[3..].split_at_checked(usize::try_from(count).unwrap_or(usize::MAX)).ok_or_else(too_many)
}

/// The script that a request names; one sent as text becomes known.
#[inline]
fn find(ctx: &mut Context<'_>, lua: &mut Lua, name: &[u8], named: Named) -> Result<ScriptId> {
    let scripts = &mut ctx.state.scripts;
    match named {
        Named::Sha => scripts.registry.find_sha(name).ok_or_else(no_script),
        Named::Text => match scripts.registry.find_text(name) {
            Some(id) => Ok(id),
            None => scripts.add(lua, name),
        },
    }
}

/// A script that may run.
struct Prepared {
    id: ScriptId,
    sha: [u8; 40],
    mode: ScriptMode,
}

/// Compiles the script if need be, and decides what it may do.
#[inline]
fn prepare(ctx: &mut Context<'_>, lua: &mut Lua, id: ScriptId, read_only: bool) -> Result<Prepared> {
    let script = ctx.state.scripts.registry.get(id).ok_or_else(no_script)?;
    lua.prepare(id, script)?;
    let (flags, sha) = (script.flags, script.sha);
    Ok(Prepared { id, sha, mode: mode_of(ctx, flags, read_only)? })
}

/// What a script or function with these flags may do, if it may run at all.
#[inline]
pub(super) fn mode_of(ctx: &Context<'_>, flags: ScriptFlags, read_only: bool) -> Result<ScriptMode> {
    let is_full = ctx.state.shortage.is_full;
    let no_writes = flags.intersects(ScriptFlags::NO_WRITES.union(ScriptFlags::PURE));
    if flags.contains(ScriptFlags::DECLARED) {
        if read_only && !no_writes {
            return Err(Error::err("Can not execute a script with write flag using *_ro command."));
        }
        if is_full && !no_writes && !flags.contains(ScriptFlags::ALLOW_OOM) {
            return Err(room::out_of_memory());
        }
    }
    let ignores_memory_limit = !is_full || flags.contains(ScriptFlags::ALLOW_OOM);
    let is_atomic = flags.contains(ScriptFlags::ATOMIC);
    Ok(ScriptMode { read_only: read_only || no_writes, ignores_memory_limit, wrote: false, is_atomic })
}

fn run_prepared(
    ctx: &mut Context<'_>,
    lua: &mut Lua,
    Prepared { id, sha, mode }: Prepared,
    keys: &[&[u8]],
    args: &[&[u8]],
) -> Result<Reply> {
    let call = Call { keys, args, is_atomic: mode.is_atomic, ..routine::plain_call(ctx, &sha) };
    run_as(ctx, mode, |host| lua.run(host, id, &call))
}

/// Runs a script or function and takes its reply; one that is atomic leaves nothing if that is an error.
#[inline]
pub(super) fn run_as(
    ctx: &mut Context<'_>,
    mode: ScriptMode,
    run: impl FnOnce(&mut dyn Host) -> Outcome,
) -> Result<Reply> {
    let is_atomic = mode.is_atomic;
    let run = |ctx: &mut Context<'_>| with_host(ctx, mode, run);
    let outcome = atomic::run(ctx, is_atomic, run, |outcome| !outcome.reply.is_error());
    match outcome.reply {
        Reply::Error(error) if !outcome.counted => Err(error),
        reply => Ok(reply),
    }
}

fn load(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let Some(mut lua) = ctx.state.scripts.take_lua() else {
        return Err(Error::err("a script is running already"));
    };
    let found = find(ctx, &mut lua, args[2], Named::Text);
    ctx.state.scripts.lua = Some(lua);
    let id = found?;
    let registry = &mut ctx.state.scripts.registry;
    registry.keep(id);
    Ok(Reply::bulk_or_nil(registry.get(id).map(|script| script.sha)))
}

fn exists(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let registry = &mut ctx.state.scripts.registry;
    let known = args[2..].iter().map(|sha| Reply::Int(registry.find_sha(sha).is_some() as i64));
    Ok(Reply::Array(known.collect()))
}

fn flush(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    let asynchronous = match args {
        [_, _] => false,
        [_, _, mode] if is(mode, "SYNC") => false,
        [_, _, mode] if is(mode, "ASYNC") => true,
        _ => return Err(Error::err("SCRIPT FLUSH only support SYNC|ASYNC option")),
    };
    let old = ctx.state.scripts.flush();
    if asynchronous {
        // Without a thread it is freed here, a little later.
        let _ = std::thread::Builder::new().name("peryton-free".into()).spawn(move || drop(old));
    }
    Ok(Reply::Ok)
}

/// With the baton in hand no script runs; a running one is killed through [`crate::store::Overrun`].
fn kill(ctx: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    ctx.state.scripts.watch().kill(Kind::Script).map(|()| Reply::Ok)
}

fn debug(_: &mut Context<'_>, args: &[&[u8]]) -> Result<Reply> {
    match args[2] {
        mode if is(mode, "NO") => Ok(Reply::Ok),
        mode if is(mode, "YES") || is(mode, "SYNC") => Err(Error::err("there is no debugger of scripts")),
        _ => Err(Error::err("Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

fn script_help(_: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply> {
    Ok(help("SCRIPT"))
}

#[cfg(test)]
mod tests {
    use crate::env::TestEnv;
    use crate::error::Code;
    use crate::keyspace::Wants;
    use crate::reply::Reply;
    use crate::session::{Door, NoWaker, SessionId};
    use crate::store::{Options, Store};
    use std::sync::Arc;

    #[allow(clippy::needless_update)] // options will be more
    fn open() -> (Store, SessionId) {
        let store = Store::open(Options { env: Some(Box::new(TestEnv::new(1))), ..Options::default() }).unwrap();
        let session = store.enter().open_session(Door::Embedded, Arc::new(NoWaker));
        (store, session)
    }

    /// Requests, one a line, words apart by spaces; a tilde stands for a space within a word, a bar for a line feed.
    fn run(store: &Store, session: SessionId, request: &str) -> Reply {
        let words: Vec<Vec<u8>> =
            request.split(' ').map(|word| word.replace('~', " ").replace('|', "\n").into_bytes()).collect();
        let args: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        store.enter().execute(session, &args)
    }

    fn error(store: &Store, session: SessionId, request: &str) -> String {
        match run(store, session, request) {
            Reply::Error(error) => error.to_string(),
            other => panic!("{request} gave {other:?}"),
        }
    }

    #[test]
    fn scripts_run_by_text_and_by_name() {
        let (store, session) = open();
        let text = "return~{KEYS[1],ARGV[1]}";
        let expected = Reply::Array(vec![Reply::bulk("k"), Reply::bulk("a")]);
        assert_eq!(expected, run(&store, session, &format!("EVAL {text} 1 k a")));
        let Reply::Bulk(sha) = run(&store, session, &format!("SCRIPT LOAD {text}")) else { panic!() };
        let sha = String::from_utf8(sha.to_vec()).unwrap();
        assert_eq!(expected, run(&store, session, &format!("EVALSHA {} 1 k a", sha.to_uppercase())));
        let known = run(&store, session, &format!("SCRIPT EXISTS {sha} x"));
        assert_eq!(Reply::Array(vec![Reply::Int(1), Reply::Int(0)]), known);
        assert_eq!(Reply::Ok, run(&store, session, "SCRIPT FLUSH ASYNC"));
        assert_eq!(
            "NOSCRIPT No matching script. Please use EVAL.",
            error(&store, session, &format!("EVALSHA {sha} 0"))
        );
    }

    #[test]
    fn requests_that_make_no_sense_are_refused() {
        let (store, session) = open();
        let name = "a".repeat(40);
        for (request, expected) in [
            ("EVAL x y", "ERR value is not an integer or out of range"),
            ("EVAL return~1 -1", "ERR Number of keys can't be negative"),
            ("EVAL return~1 2 a", "ERR Number of keys can't be greater than number of args"),
            ("EVALSHA x y", "NOSCRIPT No matching script. Please use EVAL."),
            (&format!("EVALSHA {name} y"), "ERR value is not an integer or out of range"),
            (&format!("EVALSHA_RO {name} 0"), "NOSCRIPT No matching script. Please use EVAL."),
            ("SCRIPT FLUSH X", "ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
            ("SCRIPT KILL", "NOTBUSY No scripts in execution right now."),
            ("SCRIPT DEBUG x", "ERR Use SCRIPT DEBUG YES/SYNC/NO"),
            ("SCRIPT LOAD x~y", "ERR Error compiling script (new function): user_script:1: '=' expected near 'y'"),
            ("EVAL #!lua~flags=x|return~1 0", "ERR Unexpected flag in script shebang: x"),
            ("EVAL_RO #!lua|return~1 0", "ERR Can not execute a script with write flag using *_ro command."),
        ] {
            assert_eq!(expected, error(&store, session, request), "{request}");
        }
        assert_eq!(Reply::Int(1), run(&store, session, "EVAL_RO #!lua~flags=no-writes|return~1 0"));
        // What did not compile is not known.
        assert!(store.enter().state().scripts.registry.find_text(b"x y").is_none());
    }

    #[test]
    fn scripts_meet_a_gate_of_their_own() {
        let (store, session) = open();
        let refused = |request: &str| error(&store, session, request).split(" script: ").next().unwrap().to_string();
        for (request, expected) in [
            ("EVAL redis.call('nosuch') 0", "ERR Unknown Redis command called from script"),
            ("EVAL redis.call('script','nosuch') 0", "ERR Unknown Redis command called from script"),
            ("EVAL redis.call('get') 0", "ERR Wrong number of args calling Redis command from script"),
            ("EVAL redis.call('eval','return~1','0') 0", "ERR This Redis command is not allowed from script"),
            ("EVAL redis.call('multi') 0", "ERR This Redis command is not allowed from script"),
            ("EVAL_RO redis.call('set','k','v') 0", "ERR Write commands are not allowed from read-only scripts."),
            (
                "EVAL #!lua~flags=no-writes|redis.call('set','k','v') 0",
                "ERR Write commands are not allowed from read-only scripts.",
            ),
        ] {
            assert_eq!(expected, refused(request), "{request}");
        }
    }

    #[test]
    fn a_scripts_changes_are_one_effect() {
        let (store, session) = open();
        store.enter().state().wants = Wants::REDO;
        store.enter().state().recorded = Some(Vec::new());
        run(&store, session, "EVAL redis.call('set','a','1')~redis.call('set','b','2')~error('late') 0");
        let mut baton = store.enter();
        let effects = baton.state().recorded.take().unwrap();
        assert_eq!(1, effects.len());
        assert_eq!(2, effects[0].dirty());
    }

    #[test]
    fn the_caller_stays_where_it_was() {
        let (store, session) = open();
        run(&store, session, "EVAL redis.setresp(3)~redis.call('select','5')~redis.call('set','k','v') 0");
        assert_eq!(Reply::Nil, run(&store, session, "GET k"));
        assert_eq!(2, store.enter().activate(session).unwrap().session().protocol);
        run(&store, session, "SELECT 5");
        assert_eq!(Reply::bulk("v"), run(&store, session, "GET k"));
    }

    #[test]
    fn the_memory_limit_holds_for_scripts() {
        let (store, session) = open();
        assert_eq!(Reply::Int(1), run(&store, session, "EVAL return~1 0"));
        store.enter().state().config.maxmemory = 1;
        crate::memory::adjust(1 << 20);
        let refused = "OOM command not allowed when used memory > 'maxmemory'.";
        let declared = error(&store, session, "EVAL #!lua|return~1 0");
        let allowed = run(&store, session, "EVAL #!lua~flags=allow-oom|return~1 0");
        let plain = run(&store, session, "EVAL return~1 0");
        crate::memory::adjust(-(1 << 20));
        assert_eq!((refused.to_string(), Reply::Int(1), Reply::Int(1)), (declared, allowed, plain));
    }

    #[test]
    fn another_thread_kills_a_script() {
        let (store, session) = open();
        let runner = {
            let store = store.clone();
            std::thread::spawn(move || error(&store, session, "EVAL while~true~do~end 0"))
        };
        let watch = store.overrun();
        while watch.running_for().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(Ok(()), watch.kill_script());
        assert!(runner.join().unwrap().starts_with("ERR Script killed by user with SCRIPT KILL..."));
        assert_eq!(Code::NotBusy, watch.kill_script().unwrap_err().code);
        assert_eq!(Reply::Int(1), run(&store, session, "EVAL return~1 0"));
    }

    #[test]
    fn a_script_that_wrote_is_not_killed() {
        let (store, session) = open();
        let runner = {
            let store = store.clone();
            let text = "redis.call('set','k','v')~for~i=1,2e7~do~end~return~redis.call('get','k')";
            std::thread::spawn(move || run(&store, session, &format!("EVAL {text} 0")))
        };
        let watch = store.overrun();
        // Before its first write the script could be killed, so ask only once it has written.
        while watch.running_for().is_none() || !watch.has_written() {
            if runner.is_finished() {
                break;
            }
            std::thread::yield_now();
        }
        if !runner.is_finished() {
            let refusal = watch.kill_script().unwrap_err().code;
            assert!(matches!(refusal, Code::Unkillable | Code::NotBusy));
        }
        assert_eq!(Reply::bulk("v"), runner.join().unwrap());
    }
}
