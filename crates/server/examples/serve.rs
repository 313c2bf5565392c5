//! A bare server for development and crash tests: `serve [--port N] [--dir PATH|none] [--durability sync|interval|none]`.
use peryton_core::memory::{AlignedByEight, Counting};
use peryton_core::session::Durability;
use peryton_core::store::Store;
use peryton_server::{Options, Server};

#[global_allocator]
static ALLOCATOR: Counting<AlignedByEight<mimalloc::MiMalloc>> =
    // SAFETY: mimalloc's blocks lie at multiples of eight.
    Counting(unsafe { AlignedByEight::new(mimalloc::MiMalloc) });

fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg != name).nth(1)
}

fn main() {
    let port = option("--port").and_then(|p| p.parse().ok()).unwrap_or(0);
    let options = peryton_core::store::Options {
        dir: option("--dir").filter(|dir| dir != "none").map(Into::into),
        durability: option("--durability").map(|name| Durability::parse(name.as_bytes()).expect("a known promise")),
        debug_commands: true,
        ..Default::default()
    };
    let store = Store::open(options).expect("the store opens");
    let options = Options { bind: Some(("127.0.0.1".into(), port)), ..Options::default() };
    let server = Server::start(&store, &options).expect("the server starts");
    println!("{}", server.address().expect("TCP was asked for"));
    while server.is_running() {
        std::thread::park_timeout(std::time::Duration::from_millis(200));
    }
    store.close();
}
