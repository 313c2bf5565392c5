//! Replies to bytes, in RESP2 or RESP3.

use peryton_core::reply::Reply;

/// Appends `reply` to `out` in the given protocol version (2 or 3).
#[inline]
pub fn encode(reply: &Reply, protocol: u8, out: &mut Vec<u8>) {
    match reply {
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Int(n) => number(b':', *n, out),
        Reply::Nil => out.extend_from_slice(if protocol == 2 { b"$-1\r\n" } else { b"_\r\n" }),
        other => encode_rest(other, protocol, out),
    }
}

fn encode_rest(reply: &Reply, protocol: u8, out: &mut Vec<u8>) {
    let resp3 = protocol >= 3;
    match reply {
        Reply::None => {}
        Reply::Status(text) => line(b'+', text.as_bytes(), out),
        Reply::Error(error) => {
            out.push(b'-');
            let start = out.len();
            out.extend_from_slice(error.code.word().as_bytes());
            if !error.code.word().is_empty() {
                out.push(b' ');
            }
            out.extend_from_slice(error.message_bytes());
            one_line(&mut out[start..]);
            out.extend_from_slice(b"\r\n");
        }
        Reply::NilArray => out.extend_from_slice(if resp3 { b"_\r\n" } else { b"*-1\r\n" }),
        Reply::Verbatim(format, text) if resp3 => {
            number(b'=', text.len() as i64 + 4, out);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim(_, text) => bulk(text, out),
        Reply::Double(value) => double(*value, resp3, out),
        Reply::Bool(value) if resp3 => out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Bool(value) => number(b':', *value as i64, out),
        Reply::BigNumber(digits) if resp3 => line(b'(', digits, out),
        Reply::BigNumber(digits) => bulk(digits, out),
        Reply::Array(items) => sequence(b'*', items, protocol, out),
        Reply::Set(items) => sequence(if resp3 { b'~' } else { b'*' }, items, protocol, out),
        Reply::Push(items) => sequence(if resp3 { b'>' } else { b'*' }, items, protocol, out),
        Reply::Map(pairs) => {
            number(if resp3 { b'%' } else { b'*' }, pairs.len() as i64 * if resp3 { 1 } else { 2 }, out);
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Pairs(pairs) => {
            number(b'*', pairs.len() as i64 * if resp3 { 1 } else { 2 }, out);
            for (key, value) in pairs {
                if resp3 {
                    out.extend_from_slice(b"*2\r\n");
                }
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::As(protocol, reply) => encode(reply, *protocol, out),
        Reply::Rows(rows) => {
            number(b'*', rows.len() as i64 + 1, out);
            number(b'*', rows.names().len() as i64, out);
            rows.names().iter().for_each(|name| bulk(name, out));
            rows.iter().for_each(|row| sequence(b'*', row, protocol, out));
        }
        Reply::Many(replies) => replies.iter().for_each(|reply| encode(reply, protocol, out)),
        Reply::Bulk(_) | Reply::Ok | Reply::Int(_) | Reply::Nil => unreachable!("encoded by the caller"),
    }
}

fn sequence(kind: u8, items: &[Reply], protocol: u8, out: &mut Vec<u8>) {
    number(kind, items.len() as i64, out);
    items.iter().for_each(|item| encode(item, protocol, out));
}

/// `<kind><n>\r\n`
#[inline]
fn number(kind: u8, n: i64, out: &mut Vec<u8>) {
    if (0..10).contains(&n) {
        out.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']);
        return;
    }
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    number(b'$', bytes.len() as i64, out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(text);
    one_line(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

/// A status or error must stay on its line, whatever text a script put into it.
fn one_line(text: &mut [u8]) {
    for byte in text {
        if *byte == b'\r' || *byte == b'\n' {
            *byte = b' ';
        }
    }
}

fn double(value: f64, resp3: bool, out: &mut Vec<u8>) {
    let text = peryton_core::ds::number::score_text(value);
    if resp3 { line(b',', text.as_bytes(), out) } else { bulk(text.as_bytes(), out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peryton_core::reply::{Blob, Rows};
    use std::sync::Arc;

    fn encoded(reply: &Reply, protocol: u8) -> String {
        let mut out = Vec::new();
        encode(reply, protocol, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn rows_are_the_arrays_that_they_stand_for() {
        let names = Arc::new(["id", "a name"].map(|name| Blob::from_slice(name.as_bytes())).to_vec());
        let values = |i: i64| [Reply::Int(i), Reply::Verbatim(*b"txt", Blob::from_slice(b"x"))];
        let mut rows = Rows::new(&names, 0);
        for i in 0..12 {
            for protocol in [2, 3] {
                let reply = Reply::Array(vec![Reply::Rows(rows.clone())]);
                assert_eq!(encoded(&reply.clone().plain(), protocol), encoded(&reply, protocol));
            }
            assert_eq!((i as usize, i == 0), (rows.len(), rows.is_empty()));
            rows.push(values(i).into_iter());
        }
        let none = encoded(&Reply::Rows(Rows::new(&names, 3)), 2);
        assert_eq!("*1\r\n*2\r\n$2\r\nid\r\n$6\r\na name\r\n", none);
    }
}
