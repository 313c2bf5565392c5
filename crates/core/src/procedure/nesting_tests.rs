//! Functions that run while others do, because these have called out to the engine.

use super::functions::{Functions, Lent, Place};
use super::lua::{Cell, Field, Told};
use super::{Call, Host, LogLevel, Outcome, RunFunction, Watch};
use crate::error::{Error, Result};
use crate::reply::Reply;
use crate::table::datum::{Datum, DatumRef};
use crate::table::library::Libraries;
use std::sync::Arc;

/// An engine in which every command fires a trigger.
struct Engine {
    functions: Place,
    watch: Arc<Watch>,
    /// Names of the function that ran when others saw it.
    seen: Vec<String>,
}

fn call<'a>(name: &'a [u8], args: &'a [&'a [u8]]) -> Call<'a> {
    let memory_bytes_max = 64 << 20;
    Call {
        name,
        words: Some(&[b"FCALL"]),
        keys: &[],
        args,
        now_ns: 1,
        memory_bytes_max,
        growth_bytes_max: usize::MAX,
        is_atomic: false,
    }
}

impl Host for Engine {
    fn call(&mut self, args: &[&[u8]]) -> Reply {
        self.seen.extend(self.watch.function().map(|function| String::from_utf8_lossy(&function.name).into_owned()));
        let [name, rest @ ..] = args else { return Reply::Nil };
        match *name {
            b"fire" => self.fire(rest[0], rest[1]).map_or_else(Reply::Error, |told| {
                let Some([Datum::Int(n), ..]) = told.row.as_deref() else { return Reply::Nil };
                Reply::Int(*n)
            }),
            b"kill" => {
                self.watch.kill(super::budget::Kind::Function).unwrap();
                Reply::Ok
            }
            _ => Error::err("no such command").into(),
        }
    }
    fn permits(&self, _: &[&[u8]]) -> Option<bool> {
        None
    }
    fn set_protocol(&mut self, _: u8) {}
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn monotonic_ns(&mut self) -> u64 {
        0
    }
    fn with_function(&mut self, name: &[u8], run: RunFunction<'_>) -> Result<()> {
        let functions = self.functions.lend()?;
        let function = functions.find(name).ok_or_else(super::functions::not_found)?;
        run(self, &functions, function);
        Ok(())
    }
}

impl Engine {
    fn new(code: &str) -> Engine {
        let watch = Arc::new(Watch::default());
        let mut functions = Functions::new(watch.clone());
        let mut engine = Engine { functions: Place::new(Functions::new(watch.clone())), watch, seen: Vec::new() };
        let loaded = functions.load(&mut engine, format!("#!lua name=lib\n{code}").as_bytes(), None).unwrap();
        functions.keep(loaded, &Libraries::default());
        engine.functions = Place::new(functions);
        engine
    }

    fn lend(&self) -> Lent {
        self.functions.lend().unwrap()
    }

    fn run(&mut self, name: &str, args: &[&[u8]]) -> Reply {
        let functions = self.lend();
        let function = functions.find(name.as_bytes()).unwrap();
        let Outcome { reply, .. } = functions.call(self, function, &call(name.as_bytes(), args));
        assert!(!self.watch.is_running());
        reply
    }

    fn fire(&mut self, name: &[u8], number: &[u8]) -> Result<Told> {
        let functions = self.functions.lend()?;
        let function = functions.find(name).ok_or_else(super::functions::not_found)?;
        let number = std::str::from_utf8(number).unwrap().parse().unwrap();
        let cell = |name, value| Cell { name, value, is_blob: false };
        let row = [
            cell("n", DatumRef::Int(number)),
            cell("gone", DatumRef::Null),
            cell("big", DatumRef::Int(i64::MAX)),
            Cell { is_blob: true, ..cell("bytes", DatumRef::Blob(b"b")) },
        ];
        let fields = [("table", Field::Value(DatumRef::Text(b"t"))), ("new", Field::Row(&row))];
        functions.tell(self, function, &call(name, &[]), &fields, Some("new"))
    }
}

const COUNT: &str = "
local depth = 0
redis.register_function('deeper', function(event)
  depth = depth + 1
  local n = event.new.n
  if n < 5 then
    event.new.n = 10 * redis.call('fire', 'deeper', n + 1)
  else
    event.new.n = depth
  end
end)
redis.register_function('begin', function(keys, args)
  local result = redis.call('fire', args[1], args[2])
  return {result, depth, #args, redis.call('fire', args[1], 5)}
end)";

#[test]
fn functions_fire_each_other_and_share_their_variables() {
    let mut engine = Engine::new(COUNT);
    let expected = Reply::Array(vec![Reply::Int(50_000), Reply::Int(5), Reply::Int(2), Reply::Int(6)]);
    assert_eq!(expected, engine.run("begin", &[b"deeper", b"1"]));
    // Others see the outermost.
    assert!(engine.seen.len() == 6 && engine.seen.iter().all(|name| name == "begin"), "{:?}", engine.seen);
    // The places of what ran inside are free again.
    for _ in 0..10_000 {
        engine.run("begin", &[b"deeper", b"4"]);
    }
}

#[test]
fn nesting_has_an_end_and_leaves_nothing_behind() {
    let mut engine = Engine::new(
        "redis.register_function('forever', function(event) event.new.n = redis.call('fire', 'forever', 1) end)
         redis.register_function('begin', function() return redis.pcall('fire', 'forever', 1).err end)
         redis.register_function('in_coroutine', function()
           return coroutine.wrap(function() return redis.call('fire', 'five', 1) end)()
         end)
         redis.register_function('five', function(event) coroutine.wrap(function() event.new.n = 5 end)() end)",
    );
    for _ in 0..3 {
        let Reply::Bulk(error) = engine.run("begin", &[]) else { panic!() };
        let error = String::from_utf8_lossy(&error).into_owned();
        assert_eq!("LIMIT functions are nested more than 8 deep script: forever, on @user_function:2.", error);
        assert_eq!(Reply::Int(5), engine.run("in_coroutine", &[]));
    }
}

#[test]
fn errors_name_the_innermost_function() {
    let mut engine = Engine::new(
        "redis.register_function('fails', function(event)
           error('no ' .. event.new.n, 0)
         end)
         redis.register_function('begin', function(keys, args) return redis.call('fire', 'fails', 7) end)
         redis.register_function('calls', function() return peryton.call('fails', {}, {}) end)
         redis.register_function('caught', function() return {pcall(peryton.call, 'begin')} end)
         redis.register_function('reply', function() return redis.error_reply('MY error') end)
         redis.register_function('refuses', function() return false end)
         redis.register_function('spoils', function(event) event.new.other = 1 end)
         redis.register_function('wrong', function(event) event.new.n = {} end)",
    );
    let told = "ERR no 7 script: fails, on @user_function:3.";
    let error = |reply: Reply| if let Reply::Error(error) = reply { error.to_string() } else { panic!("{reply:?}") };
    assert_eq!(told, error(engine.run("begin", &[])));
    assert!(error(engine.run("calls", &[])).ends_with("script: fails, on @user_function:3."));
    let Reply::Array(caught) = engine.run("caught", &[]) else { panic!() };
    assert_eq!(vec![Reply::Nil, Reply::bulk(told)], caught);
    let mut fire = |name: &str| engine.fire(name.as_bytes(), b"7").map_err(|error| error.to_string());
    assert_eq!(Err("MY error".into()), fire("reply"));
    assert_eq!(Err("ERR function spoils: the row has no column other".into()), fire("spoils"));
    assert_eq!(Err("ERR function wrong: a table is no value for column n".into()), fire("wrong"));
    assert_eq!(Ok(Told { refused: true, row: None }), fire("refuses"));
}

#[test]
fn a_row_comes_back_as_it_was_but_for_what_was_changed() {
    let mut engine = Engine::new(
        "redis.register_function('same', function(event) end)
         redis.register_function('other', function(event)
           local new = event.new
           assert(new.gone == nil and new.big == '9223372036854775807' and event.table == 't')
           new.n, new.gone, new.bytes = 1.5, 'here', 'text'
         end)",
    );
    let row = |n, gone, bytes: &str| Some(vec![n, gone, Datum::Int(i64::MAX), Datum::blob(bytes)]);
    assert_eq!(row(Datum::Int(3), Datum::Null, "b"), engine.fire(b"same", b"3").unwrap().row);
    assert_eq!(row(Datum::Real(1.5), Datum::text("here"), "text"), engine.fire(b"other", b"3").unwrap().row);
}

#[test]
fn values_go_in_and_one_comes_out() {
    let mut engine = Engine::new(
        "redis.register_function('join', function(...) return table.concat({...}, ' ') end)
         redis.register_function('count', function(...) return select('#', ...) end)
         redis.register_function('table', function() return {} end)",
    );
    let functions = engine.lend();
    let mut evaluate = |name: &str, args: &[DatumRef<'_>]| {
        let function = functions.find(name.as_bytes()).unwrap();
        functions.evaluate(&mut engine, function, &call(name.as_bytes(), &[]), args).map_err(|error| error.to_string())
    };
    let args = [DatumRef::Int(1), DatumRef::Real(0.5), DatumRef::Text(b"a"), DatumRef::Int(i64::MIN)];
    assert_eq!(Ok(Datum::text("1 0.5 a -9223372036854775808")), evaluate("join", &args));
    assert_eq!(Ok(Datum::Int(200)), evaluate("count", &[DatumRef::Null; 200]));
    assert_eq!(Err("ERR function table: a table is no value of SQL".into()), evaluate("table", &[]));
}

#[test]
fn a_kill_reaches_whatever_runs() {
    let mut engine = Engine::new(
        "redis.register_function('forever', function(event)
           redis.call('kill')
           while true do pcall(function() while true do end end) end
         end)
         redis.register_function('begin', function() while true do redis.pcall('fire', 'forever', 1) end end)",
    );
    let Reply::Error(error) = engine.run("begin", &[]) else { panic!() };
    let told = "ERR Script killed by user with SCRIPT KILL... script: forever, on @user_function:4.";
    assert!(error.to_string().starts_with("ERR Script killed by user"), "{error} {told}");
}
