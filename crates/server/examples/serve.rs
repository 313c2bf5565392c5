//! A bare server for development: `serve [--port N]`.
use peryton_core::memory::{AlignedByEight, Counting};
use peryton_server::{Options, Server};

#[global_allocator]
static ALLOCATOR: Counting<AlignedByEight<mimalloc::MiMalloc>> =
    // SAFETY: mimalloc's blocks lie at multiples of eight.
    Counting(unsafe { AlignedByEight::new(mimalloc::MiMalloc) });

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--port").skip(1);
    let port = args.next().and_then(|p| p.parse().ok()).unwrap_or(0);
    let store =
        peryton_core::store::Store::open(peryton_core::store::Options { debug_commands: true, ..Default::default() })
            .expect("the store opens");
    let options = Options { bind: Some(("127.0.0.1".into(), port)), ..Options::default() };
    let server = Server::start(&store, &options).expect("the server starts");
    println!("{}", server.address().expect("TCP was asked for"));
    while server.is_running() {
        std::thread::park_timeout(std::time::Duration::from_millis(200));
    }
}
