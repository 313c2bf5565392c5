//! The load generator from the command line, for development.
//!
//! `load respond [PORT]` runs the responder. Otherwise `load PORT [-c CONNECTIONS] [-P PIPELINE] [-t SECONDS] [-n REQUESTS]
//! [-r RATE] [-p PID] [-f FIELD]... -- ARG...` sends one command, for instance
//! `load 6379 -P 16 -f key=uniform:0:100000:12 -- GET key:%key%`.
use peryton_server::load::{Options, Pace, Plan, Responder, Until, run};
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let port = |text: Option<&String>| text.and_then(|port| port.parse::<u16>().ok()).unwrap_or(0);
    if args.first().is_some_and(|arg| arg == "respond") {
        let responder = Responder::start(([127, 0, 0, 1], port(args.get(1))).into(), b"+OK\r\n")?;
        println!("{}", responder.address());
        loop {
            std::thread::park();
        }
    }
    let mut options = Options {
        address: ([127, 0, 0, 1], port(args.first())).into(),
        connections: 50,
        pipeline: 1,
        until: Until::Elapsed { warmup: Duration::from_millis(200), measured: Duration::from_secs(1) },
        setup: Vec::new(),
        pids: Vec::new(),
        watch_cpu: false,
        seed: 1,
        patience: Duration::from_secs(30),
        pace: None,
    };
    let mut plan = Plan::default();
    let mut rest = args.iter().skip(1);
    while let Some(option) = rest.next() {
        if option == "--" {
            break;
        }
        let value = rest.next().expect("a value after each option");
        let number = || value.parse::<f64>().expect("a number");
        match option.as_str() {
            "-c" => options.connections = number() as usize,
            "-P" => options.pipeline = number() as usize,
            "-t" => {
                let measured = Duration::from_secs_f64(number());
                options.until = Until::Elapsed { warmup: measured / 5, measured };
            }
            "-n" => options.until = Until::Requests(number() as u64),
            "-r" => options.pace = Some(Pace { rate: number(), ..Pace::default() }),
            "-p" => options.pids.push(number() as u32),
            "-f" => plan.field(value).map_err(std::io::Error::other)?,
            other => panic!("no option {other}"),
        }
    }
    let command: Vec<&[u8]> = rest.map(|arg| arg.as_bytes()).collect();
    plan.command(1, &command).map_err(std::io::Error::other)?;
    println!("{}", run(plan, &options, &mut || true)?);
    Ok(())
}
