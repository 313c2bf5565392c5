//! `CALL name(argument, ...)`: a statement that calls a procedure. Its arguments are values, parameters, or expressions
//! without either tables or parameters.

use super::error::{sql, syntax};
use super::executor::wrong_count;
use super::run::Host;
use super::token::{Kind, Token};
use crate::error::Result;
use crate::reply::Reply;
use crate::table::datum::{Datum, DatumRef};

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The procedure.
    pub name: String,
    arguments: Vec<Argument>,
    /// How many parameters the statement has.
    parameters: usize,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
enum Argument {
    /// The parameter of this number, from 0.
    Parameter(usize),
    /// An expression, as written.
    Expression(String),
}

/// Reads a statement that begins with CALL.
pub fn parse(text: &str, tokens: &[Token<'_>]) -> Result<Call> {
    let wrong = |at: usize, expected: &str| {
        let start = tokens.get(at).map_or(text.len(), |token| token.start);
        let found = tokens.get(at).map_or(String::new(), |token| format!(", found {}", token.text));
        syntax(text, start, format!("expected {expected}{found}"))
    };
    let name = tokens.get(1).filter(|token| matches!(token.kind, Kind::Word | Kind::Quoted)).and_then(Token::name);
    let name = name.ok_or_else(|| wrong(1, "the name of a procedure"))?.into_owned();
    let mut call = Call { name, arguments: Vec::new(), parameters: 0 };
    match tokens.get(2) {
        None => return Ok(call),
        Some(token) if token.is_symbol("(") => {}
        Some(_) => return Err(wrong(2, "( and arguments")),
    }
    let Some(last) = tokens.len().checked_sub(1).filter(|last| *last > 2 && tokens[*last].is_symbol(")")) else {
        return Err(wrong(tokens.len(), ") at the end"));
    };
    let inner = &tokens[3..last];
    if inner.is_empty() {
        return Ok(call);
    }
    let mut names: Vec<&str> = Vec::new();
    let (mut depth, mut from) = (0usize, 0usize);
    for at in 0..=inner.len() {
        match inner.get(at) {
            Some(token) if token.is_symbol("(") => depth += 1,
            Some(token) if token.is_symbol(")") => {
                depth = depth.checked_sub(1).ok_or_else(|| wrong(at + 3, "the end after )"))?;
            }
            Some(token) if !token.is_symbol(",") || depth > 0 => {}
            _ => {
                let part = &inner[from..at];
                let argument = argument(text, part, &mut names).map_err(|expected| wrong(at + 3, expected))?;
                call.arguments.push(argument);
                from = at + 1;
            }
        }
    }
    call.parameters = names.len();
    Ok(call)
}

/// One argument. `names` are the parameters so far, by number.
fn argument<'a>(
    text: &str,
    tokens: &[Token<'a>],
    names: &mut Vec<&'a str>,
) -> std::result::Result<Argument, &'static str> {
    match tokens {
        [] => Err("an argument"),
        [only] if only.kind == Kind::Parameter => Ok(Argument::Parameter(number(only.text, names))),
        [first, .., last] | [first @ last] => match tokens.iter().any(|token| token.kind == Kind::Parameter) {
            true => Err("a parameter alone, or a value"),
            false => Ok(Argument::Expression(text[first.start..last.end()].into())),
        },
    }
}

/// The number of a parameter, from 0, by SQLite's rules: `?` is the next one, `?3` the third, a name always the same.
fn number<'a>(text: &'a str, names: &mut Vec<&'a str>) -> usize {
    if let Some(at) = text[1..].parse::<usize>().ok().filter(|at| text.starts_with('?') && *at > 0) {
        // Longer than any list of parameters, so it is refused when they are counted.
        let at = at.min(crate::limits::SQL_PARAMETERS_MAX + 1);
        while names.len() < at {
            names.push("");
        }
        return at - 1;
    }
    if text != "?"
        && let Some(at) = names.iter().position(|name| *name == text)
    {
        return at;
    }
    names.push(text);
    names.len() - 1
}

/// Makes a call.
pub fn execute(host: &mut dyn Host, call: &Call, params: &[DatumRef<'_>]) -> Result<Reply> {
    if call.parameters != params.len() {
        return Err(wrong_count(call.parameters, params.len()));
    }
    let mut args = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        args.push(match argument {
            Argument::Parameter(at) => DatumRef::to_owned(params[*at]),
            Argument::Expression(text) => evaluate(host, text)?,
        });
    }
    host.call(&call.name, args)
}

fn evaluate(host: &mut dyn Host, expression: &str) -> Result<Datum> {
    host.sql()
        .evaluate(&format!("({expression})"))
        .map_err(|error| sql(format!("the argument {expression}: {}", error.message)))
}

#[cfg(test)]
mod tests {
    use super::super::statement::{Class, classify};
    use super::*;

    fn call(text: &str) -> Result<Call> {
        match classify(text)? {
            (Class::Call(call), _) => Ok(call),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_split_at_commas_outside_of_brackets() {
        let read = call("CALL \"My f\" (1, abs(-2, 3), 'a,b', ?, -x'00') ;").unwrap();
        let expression = |text: &str| Argument::Expression(text.into());
        let expected = [
            expression("1"),
            expression("abs(-2, 3)"),
            expression("'a,b'"),
            Argument::Parameter(0),
            expression("-x'00'"),
        ];
        assert_eq!(("My f", &expected[..], 1), (read.name.as_str(), &read.arguments[..], read.parameters));
        assert_eq!(call("call f").unwrap(), call("call f()").unwrap());
    }

    #[test]
    fn parameters_have_sqlite_s_numbers() {
        let numbers = |text: &str| {
            let call = call(text).unwrap();
            let number = |argument: &Argument| if let Argument::Parameter(at) = argument { *at } else { usize::MAX };
            (call.arguments.iter().map(number).collect::<Vec<_>>(), call.parameters)
        };
        assert_eq!((vec![0, 1], 2), numbers("CALL f(?, ?)"));
        assert_eq!((vec![1, 0, 2], 3), numbers("CALL f(?2, ?1, ?)"));
        assert_eq!((vec![0, 1, 0], 2), numbers("CALL f(:a, @b, :a)"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("CALL", "expected the name of a procedure"),
            ("CALL 7", "expected the name of a procedure, found 7"),
            ("CALL f 1", "expected ( and arguments, found 1"),
            ("CALL f(1", "expected ) at the end"),
            ("CALL f(", "expected ) at the end"),
            ("CALL f(,)", "expected an argument, found ,"),
            ("CALL f(1,)", "expected an argument, found )"),
            ("CALL f(1) + (2)", "expected the end after ), found )"),
            ("CALL f(? + 1)", "expected a parameter alone, or a value"),
        ] {
            let message = call(text).unwrap_err().message;
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert!(call("CALL f(?1000000000)").unwrap().parameters > crate::limits::SQL_PARAMETERS_MAX);
    }
}
