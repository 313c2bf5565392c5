//! What a load sends: commands with placeholders, compiled so that making a request is patching a few digits.
//!
//! A command is a list of arguments in which `%name%` stands for a fresh value of the field `name`, `%=name%` for its
//! last value again, and `%%` for a percent sign. Fields are declared in one line each:
//!
//! - `name=uniform:LOW:HIGH[:WIDTH]`: a random integer, LOW included, HIGH not
//! - `name=sequence:START[:WIDTH]`: consecutive integers, shared by all connections
//! - `name=text:LENGTH`: random letters and digits
//!
//! With WIDTH an integer is padded with zeros to that many digits (and wraps past them). A command whose fields all have
//! a fixed width is laid out once for a whole pipeline, and only the places of its fields are written again.

use peryton_core::env::Xoshiro;

/// Commands, how often each is sent, and the fields in them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    fields: Vec<Field>,
    commands: Vec<Command>,
    weight: u64,
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    kind: Kind,
    /// Bytes of a value; None when they vary.
    width: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Uniform { low: u64, count: u64 },
    Sequence { start: u64 },
    Text,
}

#[derive(Clone, Debug)]
struct Command {
    weight: u64,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// A request of constant length and the places to write in it.
    Fixed { bytes: Vec<u8>, holes: Vec<Hole> },
    /// Arguments to be put together.
    Flexible(Vec<Vec<Piece>>),
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    at: usize,
    width: usize,
    place: Place,
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Place(Place),
}

/// A field's value in a command: a fresh one, or the last again.
#[derive(Clone, Copy, Debug)]
struct Place {
    field: usize,
    again: bool,
}

/// Widest field, bytes.
const WIDTH_MAX: usize = 1 << 20;

impl Plan {
    /// Declares a field, `name=kind:...` as at the top of this file.
    ///
    /// # Errors
    /// What is wrong with the declaration.
    pub fn field(&mut self, declaration: &str) -> Result<(), String> {
        let wrong = || {
            format!(
                "no field in '{declaration}': write name=uniform:LOW:HIGH[:WIDTH], name=sequence:START[:WIDTH] or name=text:LENGTH"
            )
        };
        let (name, kind) = declaration.split_once('=').ok_or_else(wrong)?;
        let mut parts = kind.split(':');
        let kind_name = parts.next().unwrap_or_default();
        let numbers: Vec<u64> = parts.map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let width = |given: Option<&u64>| given.map(|width| *width as usize);
        let (kind, width) = match (kind_name, &numbers[..]) {
            ("uniform", &[low, high, ref rest @ ..]) if low < high && rest.len() < 2 => {
                (Kind::Uniform { low, count: high - low }, width(rest.first()))
            }
            ("sequence", &[start, ref rest @ ..]) if rest.len() < 2 => (Kind::Sequence { start }, width(rest.first())),
            ("text", &[length]) => (Kind::Text, Some(length as usize)),
            _ => return Err(wrong()),
        };
        if name.is_empty() || name.contains('%') || width.is_some_and(|width| width == 0 || width > WIDTH_MAX) {
            return Err(wrong());
        }
        self.fields.push(Field { name: name.to_string(), kind, width });
        Ok(())
    }

    /// Adds a command that is sent `weight` times as often as one of weight 1. Its fields are declared before.
    ///
    /// # Errors
    /// A field that is not declared, or a lone percent sign.
    pub fn command(&mut self, weight: u64, args: &[&[u8]]) -> Result<(), String> {
        let args = args.iter().map(|arg| self.pieces(arg)).collect::<Result<Vec<_>, _>>()?;
        self.commands.push(Command { weight, form: self.compile(args) });
        self.weight += weight;
        Ok(())
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.weight == 0
    }

    /// Cuts an argument at its placeholders.
    fn pieces(&self, arg: &[u8]) -> Result<Vec<Piece>, String> {
        let lone = || format!("a lone % in '{}': write %% for a percent sign", String::from_utf8_lossy(arg));
        let mut parts = arg.split(|byte| *byte == b'%');
        let mut pieces = vec![Piece::Bytes(parts.next().unwrap_or_default().to_vec())];
        while let Some(name) = parts.next() {
            let after = parts.next().ok_or_else(lone)?;
            match name {
                b"" => pieces.push(Piece::Bytes(b"%".to_vec())),
                name => pieces.push(Piece::Place(self.place(name)?)),
            }
            pieces.push(Piece::Bytes(after.to_vec()));
        }
        Ok(pieces)
    }

    fn place(&self, name: &[u8]) -> Result<Place, String> {
        let (again, name) = name.strip_prefix(b"=").map_or((false, name), |name| (true, name));
        let field = self.fields.iter().position(|field| field.name.as_bytes() == name);
        let field = field.ok_or_else(|| format!("no field is named '{}'", String::from_utf8_lossy(name)))?;
        Ok(Place { field, again })
    }

    fn compile(&self, args: Vec<Vec<Piece>>) -> Form {
        let width = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => Some(bytes.len()),
            Piece::Place(place) => self.fields[place.field].width,
        };
        let widths: Option<Vec<usize>> = args.iter().map(|arg| arg.iter().map(width).sum()).collect();
        let Some(widths) = widths else { return Form::Flexible(args) };
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        let mut holes = Vec::new();
        for (arg, arg_width) in args.iter().zip(widths) {
            bytes.extend_from_slice(format!("${arg_width}\r\n").as_bytes());
            for piece in arg {
                match piece {
                    Piece::Bytes(literal) => bytes.extend_from_slice(literal),
                    Piece::Place(place) => {
                        let width = width(piece).unwrap_or_default();
                        holes.push(Hole { at: bytes.len(), width, place: *place });
                        bytes.resize(bytes.len() + width, b'0');
                    }
                }
            }
            bytes.extend_from_slice(b"\r\n");
        }
        Form::Fixed { bytes, holes }
    }
}

/// Requests that go out together.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    length: usize,
}

impl Batch {
    /// The requests.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A plan being carried out.
#[derive(Debug)]
pub struct Generator {
    plan: Plan,
    random: Xoshiro,
    /// Of each field, the last value.
    last: Vec<u64>,
    argument: Vec<u8>,
}

impl Generator {
    /// Starts a plan; `seed` fixes all that is random in it.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let last = plan.fields.iter().map(|field| match field.kind {
            Kind::Sequence { start } => start.wrapping_sub(1),
            _ => 0,
        });
        Generator { last: last.collect(), plan, random: Xoshiro::from_seed(seed), argument: Vec::new() }
    }

    /// Puts the next `count` requests into `batch`, which keeps what is the same as last time.
    pub fn fill(&mut self, batch: &mut Batch, count: usize) {
        if let [Command { form: Form::Fixed { bytes, holes }, .. }] = &self.plan.commands[..] {
            batch.length = bytes.len() * count;
            while batch.bytes.len() < batch.length {
                batch.bytes.extend_from_slice(bytes);
            }
            for request in batch.bytes[..batch.length].chunks_exact_mut(bytes.len()) {
                for hole in holes {
                    let value = draw(&self.plan.fields, &mut self.last, &mut self.random, hole.place);
                    let field = &self.plan.fields[hole.place.field];
                    field.write(value, &mut request[hole.at..hole.at + hole.width]);
                }
            }
            return;
        }
        batch.bytes.clear();
        (0..count).for_each(|_| self.append(&mut batch.bytes));
        batch.length = batch.bytes.len();
    }

    /// Appends a request of a command chosen by weight.
    fn append(&mut self, out: &mut Vec<u8>) {
        let Generator { plan, random, last, argument } = self;
        let mut chosen = random.below(plan.weight);
        let heavier = |command: &&Command| {
            let here = chosen < command.weight;
            chosen = chosen.wrapping_sub(command.weight);
            here
        };
        // The weights add up to more than `chosen`, so there always is one.
        let Some(command) = plan.commands.iter().find(heavier) else { return };
        match &command.form {
            Form::Fixed { bytes, holes } => {
                let start = out.len();
                out.extend_from_slice(bytes);
                for hole in holes {
                    let value = draw(&plan.fields, last, random, hole.place);
                    let at = start + hole.at;
                    plan.fields[hole.place.field].write(value, &mut out[at..at + hole.width]);
                }
            }
            Form::Flexible(args) => {
                append_header(out, b'*', args.len() as u64);
                for arg in args {
                    argument.clear();
                    for piece in arg {
                        match piece {
                            Piece::Bytes(literal) => argument.extend_from_slice(literal),
                            Piece::Place(place) => {
                                let value = draw(&plan.fields, last, random, *place);
                                plan.fields[place.field].append(value, argument);
                            }
                        }
                    }
                    append_header(out, b'$', argument.len() as u64);
                    out.extend_from_slice(argument);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }
}

#[inline]
fn draw(fields: &[Field], last: &mut [u64], random: &mut Xoshiro, place: Place) -> u64 {
    let value = &mut last[place.field];
    if !place.again {
        *value = match fields[place.field].kind {
            Kind::Uniform { low, count } => low + random.below(count),
            Kind::Sequence { .. } => value.wrapping_add(1),
            Kind::Text => random.next(),
        };
    }
    *value
}

impl Field {
    /// Writes a value of fixed width.
    #[inline]
    fn write(&self, value: u64, out: &mut [u8]) {
        match self.kind {
            Kind::Text => write_text(value, out),
            _ => write_digits(value, out),
        }
    }

    fn append(&self, value: u64, out: &mut Vec<u8>) {
        match self.width {
            Some(width) => {
                let start = out.len();
                out.resize(start + width, b'0');
                self.write(value, &mut out[start..]);
            }
            None => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        }
    }
}

fn append_header(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Fills `out` with the value's lowest digits.
#[inline]
fn write_digits(mut value: u64, out: &mut [u8]) {
    for place in out.iter_mut().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Fills `out` with letters and digits that follow from `seed`.
fn write_text(seed: u64, out: &mut [u8]) {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut bits = seed | 1;
    for chunk in out.chunks_mut(8) {
        bits = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        let letters = bits.to_le_bytes().map(|byte| LETTERS[usize::from(byte & 63)]);
        chunk.copy_from_slice(&letters[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(fields: &[&str], commands: &[(u64, &[&str])]) -> Result<Plan, String> {
        let mut plan = Plan::default();
        fields.iter().try_for_each(|field| plan.field(field))?;
        for (weight, args) in commands {
            plan.command(*weight, &args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())?;
        }
        Ok(plan)
    }

    fn sent(fields: &[&str], commands: &[(u64, &[&str])], counts: &[usize]) -> String {
        let mut generator = Generator::new(plan(fields, commands).expect("a plan"), 1);
        let mut batch = Batch::default();
        let mut all = Vec::new();
        for count in counts {
            generator.fill(&mut batch, *count);
            all.extend_from_slice(batch.bytes());
        }
        String::from_utf8(all).expect("text")
    }

    #[test]
    fn fixed_and_flexible_commands_are_requests_of_resp() {
        let fixed = sent(&["n=sequence:9:3"], &[(1, &["GET", "k:%n%"])], &[1, 2]);
        assert_eq!(
            "*2\r\n$3\r\nGET\r\n$5\r\nk:009\r\n*2\r\n$3\r\nGET\r\n$5\r\nk:010\r\n*2\r\n$3\r\nGET\r\n$5\r\nk:011\r\n",
            fixed
        );
        let flexible = sent(&["n=sequence:9"], &[(1, &["GET", "k:%n%"])], &[1, 1]);
        assert_eq!("*2\r\n$3\r\nGET\r\n$3\r\nk:9\r\n*2\r\n$3\r\nGET\r\n$4\r\nk:10\r\n", flexible);
    }

    #[test]
    fn a_batch_may_shrink_and_grow() {
        let sent = sent(&["n=sequence:1:1"], &[(1, &["%n%"])], &[3, 1, 4]);
        let digits: String = sent.split("\r\n").skip(2).step_by(3).collect();
        assert_eq!("12345678", digits);
    }

    #[test]
    fn a_value_is_fresh_unless_asked_for_again() {
        let line = sent(&["n=sequence:1", "t=text:11"], &[(1, &["%n%%n%,%=n%,100%%,%t%,%=t%"])], &[1]);
        let text = line.split("\r\n").nth(2).expect("the argument");
        let parts: Vec<&str> = text.split(',').collect();
        assert_eq!(["12", "2", "100%"], parts[..3]);
        assert!(parts[3] == parts[4] && parts[3].len() == 11, "{text}");
    }

    #[test]
    fn uniform_values_stay_in_range_and_reach_all_of_it() {
        let text = sent(&["n=uniform:3:7"], &[(1, &["%n%"])], &[500]);
        let mut seen: Vec<&str> = text.split("\r\n").skip(2).step_by(3).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(["3", "4", "5", "6"], seen[..]);
    }

    #[test]
    fn commands_come_in_the_proportion_of_their_weights() {
        let text = sent(&[], &[(3, &["A"]), (1, &["B"])], &[4000]);
        let rare = text.matches('B').count();
        assert!((800..1200).contains(&rare), "{rare} of 4000");
    }

    #[test]
    fn wrong_plans_are_refused_with_the_reason() {
        for field in
            ["n", "=text:3", "n=uniform:5:5", "n=uniform:1:2:3:4", "n=text:0", "n=other:1", "n=sequence:x", "n=text"]
        {
            assert!(plan(&[field], &[]).is_err_and(|error| error.contains(field)), "{field}");
        }
        for arg in ["%n", "50%", "%n%%"] {
            assert!(plan(&["n=text:1"], &[(1, &[arg])]).is_err_and(|error| error.contains("lone %")), "{arg}");
        }
        assert!(plan(&[], &[(1, &["%m%"])]).is_err_and(|error| error.contains("'m'")));
    }
}
