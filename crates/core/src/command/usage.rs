//! The argument synopsis of a command (`key [NX | XX] [GET]`) as the tree that COMMAND DOCS shows.
//!
//! The notation is that of manual pages: CAPITALS are typed as they are, `[ ]` is optional, `|` separates choices,
//! `...` repeats what stands before it.

use crate::reply::Reply;

/// The arguments described by `usage`.
pub fn arguments(usage: &str) -> Reply {
    let tokens = tokenize(usage);
    Reply::Array(Parser { tokens: &tokens, at: 0 }.choices(false).into_iter().map(Node::into_reply).collect())
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Open,
    Close,
    Bar,
    Repeat,
}

fn tokenize(usage: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = usage.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '[' => (Token::Open, 1),
            ']' => (Token::Close, 1),
            '|' => (Token::Bar, 1),
            _ => {
                let end = rest.find([' ', '[', ']', '|']).unwrap_or(rest.len());
                (if &rest[..end] == "..." { Token::Repeat } else { Token::Word(&rest[..end]) }, end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// One argument, or several that belong together.
struct Node {
    name: String,
    token: Option<String>,
    optional: bool,
    multiple: bool,
    content: Content,
}

enum Content {
    /// A value of some type.
    Value,
    /// A word typed as it is.
    Literal,
    /// One of these.
    OneOf(Vec<Node>),
    /// These in order.
    Block(Vec<Node>),
}

impl Node {
    fn new(name: &str, content: Content) -> Node {
        Node { name: name.to_ascii_lowercase(), token: None, optional: false, multiple: false, content }
    }

    /// The Redis name of what a value is, told from the argument's own name.
    fn kind(&self) -> &'static str {
        match (&self.content, self.name.trim_end_matches(|c: char| c.is_ascii_digit())) {
            (Content::Literal, _) => "pure-token",
            (Content::OneOf(_), _) => "oneof",
            (Content::Block(_), _) => "block",
            (_, "key" | "source" | "destination" | "newkey") => "key",
            (_, "pattern") => "pattern",
            (_, "score" | "increment" | "timeout" | "weight") => "double",
            (_, name)
                if ["seconds", "milliseconds", "count", "index", "start", "stop", "numkeys", "cursor", "offset"]
                    .contains(&name) =>
            {
                "integer"
            }
            (_, name) if name.ends_with("time-seconds") || name.ends_with("time-milliseconds") => "unix-time",
            _ => "string",
        }
    }

    fn into_reply(self) -> Reply {
        let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
        let mut fields = vec![pair("name", Reply::bulk(&self.name)), pair("type", Reply::bulk(self.kind()))];
        if let Some(token) = &self.token {
            fields.push(pair("token", Reply::bulk(token)));
        }
        let flags = [(self.optional, "optional"), (self.multiple, "multiple")];
        let flags: Vec<Reply> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| Reply::status(*name)).collect();
        if !flags.is_empty() {
            fields.push(pair("flags", Reply::Array(flags)));
        }
        if let Content::OneOf(nodes) | Content::Block(nodes) = self.content {
            fields.push(pair("arguments", Reply::Array(nodes.into_iter().map(Node::into_reply).collect())));
        }
        Reply::Map(fields)
    }
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl Parser<'_, '_> {
    /// Reads alternatives up to a closing bracket (or the end); one alternative is given as its parts.
    fn choices(&mut self, nested: bool) -> Vec<Node> {
        let mut alternatives = vec![self.sequence()];
        while self.tokens.get(self.at) == Some(&Token::Bar) {
            self.at += 1;
            alternatives.push(self.sequence());
        }
        if nested {
            self.at += 1;
        }
        if alternatives.len() == 1 {
            return alternatives.remove(0);
        }
        let nodes: Vec<Node> = alternatives.into_iter().map(single).collect();
        let name = nodes.first().map_or("choice", |node| &node.name).to_string();
        vec![Node::new(&name, Content::OneOf(nodes))]
    }

    fn sequence(&mut self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::Close | Token::Bar => break,
                Token::Open => {
                    self.at += 1;
                    let inner = self.choices(true);
                    self.optional(inner, &mut nodes);
                }
                Token::Repeat => {
                    self.at += 1;
                    nodes.iter_mut().for_each(|node| node.multiple = true);
                }
                Token::Word(word) => {
                    self.at += 1;
                    nodes.push(self.word(word));
                }
            }
        }
        nodes
    }

    /// A literal takes the value behind it as its own: `EX seconds` is one argument with a token.
    fn word(&mut self, word: &str) -> Node {
        let literal = |w: &str| w.chars().all(|c| !c.is_ascii_lowercase());
        if !literal(word) {
            return Node::new(word, Content::Value);
        }
        if let Some(Token::Word(value)) = self.tokens.get(self.at)
            && !literal(value)
        {
            self.at += 1;
            return Node { token: Some(word.to_string()), ..Node::new(value, Content::Value) };
        }
        Node { token: Some(word.to_string()), ..Node::new(word, Content::Literal) }
    }

    /// `a [a ...]` is one argument that repeats; anything else in brackets is optional.
    fn optional(&mut self, inner: Vec<Node>, nodes: &mut Vec<Node>) {
        let repeats = inner.iter().all(|node| node.multiple) && inner.len() <= nodes.len();
        let same = repeats && nodes[nodes.len() - inner.len()..].iter().zip(&inner).all(|(a, b)| a.name == b.name);
        if same {
            let repeated = nodes.split_off(nodes.len() - inner.len());
            nodes.push(Node { multiple: true, ..single(repeated) });
        } else {
            nodes.push(Node { optional: true, ..single(inner) });
        }
    }
}

/// Several nodes as one.
fn single(mut nodes: Vec<Node>) -> Node {
    if nodes.len() == 1 {
        return nodes.remove(0);
    }
    let multiple = !nodes.is_empty() && nodes.iter().all(|node| node.multiple);
    nodes.iter_mut().for_each(|node| node.multiple &= !multiple);
    let name = nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join("_");
    Node { multiple, ..Node::new(&name, Content::Block(nodes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in short: `?` optional, `*` repeated, `TOKEN:` before a value, `(a|b)`, `{a b}`.
    fn short(node: &Node) -> String {
        let inner = |nodes: &[Node], between: &str| nodes.iter().map(short).collect::<Vec<_>>().join(between);
        let text = match &node.content {
            Content::Value => node.name.clone(),
            Content::Literal => String::new(),
            Content::OneOf(nodes) => format!("({})", inner(nodes, "|")),
            Content::Block(nodes) => format!("{{{}}}", inner(nodes, " ")),
        };
        let token = node.token.as_ref().map(|t| format!("{t}:")).unwrap_or_default();
        format!("{token}{text}{}{}", if node.optional { "?" } else { "" }, if node.multiple { "*" } else { "" })
    }

    #[test]
    fn synopses_become_trees() {
        for (usage, expected) in [
            ("", ""),
            ("key", "key"),
            ("key value [NX | XX] [GET] [EX seconds | KEEPTTL]", "key value (NX:|XX:)? GET:? (EX:seconds|KEEPTTL:)?"),
            ("key [key ...]", "key*"),
            ("key score member [score member ...]", "key {score member}*"),
            ("[section [section ...]]", "section?*"),
            ("id | [ID id] [ADDR ip:port]", "(id|{ID:id? ADDR:ip:port?})"),
        ] {
            let tokens = tokenize(usage);
            let nodes = Parser { tokens: &tokens, at: 0 }.choices(false);
            assert_eq!(nodes.iter().map(short).collect::<Vec<_>>().join(" "), expected, "{usage}");
        }
    }
}
