//! CPU time of this thread, of other processes and of the whole machine, as the kernel counts it.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

/// CPU time spent, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In the program's own code.
    pub user_s: f64,
    /// In all: its own code and the kernel's on its behalf.
    pub total_s: f64,
}

/// How busy the machine was, as parts of all its cores' time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// Cores' time spent on anything, seconds.
    pub busy_s: f64,
    /// Cores' time taken away by the host of a virtual machine, seconds.
    pub stolen_s: f64,
}

/// A reading of every clock, to subtract an earlier one from.
#[derive(Clone, Debug)]
pub struct Clocks {
    client: Cpu,
    servers: Vec<Reading>,
    machine: Machine,
}

/// One process's clocks: an exact total, and ticks that say how it divides.
#[derive(Clone, Copy, Debug)]
struct Reading {
    total_s: f64,
    user_ticks: u64,
    system_ticks: u64,
}

impl Clocks {
    /// Reads the clocks of this thread, of the processes `pids` and of the machine.
    ///
    /// # Errors
    /// One of the processes does not exist.
    pub fn read(pids: &[u32]) -> io::Result<Clocks> {
        let servers = pids.iter().map(|pid| read_process(*pid)).collect::<io::Result<_>>()?;
        Ok(Clocks { client: read_thread(), servers, machine: read_machine().unwrap_or_default() })
    }

    /// CPU time of this thread since `before`.
    pub fn client_since(&self, before: &Clocks) -> Cpu {
        Cpu { user_s: self.client.user_s - before.client.user_s, total_s: self.client.total_s - before.client.total_s }
    }

    /// CPU time of the processes together since `before`.
    pub fn servers_since(&self, before: &Clocks) -> Cpu {
        self.servers.iter().zip(&before.servers).fold(Cpu::default(), |sum, (now, then)| {
            let total_s = now.total_s - then.total_s;
            let user = now.user_ticks.saturating_sub(then.user_ticks) as f64;
            let system = now.system_ticks.saturating_sub(then.system_ticks) as f64;
            let part = if user + system > 0.0 { user / (user + system) } else { 0.0 };
            Cpu { user_s: sum.user_s + total_s * part, total_s: sum.total_s + total_s }
        })
    }

    /// What the machine did since `before`.
    pub fn machine_since(&self, before: &Clocks) -> Machine {
        Machine {
            busy_s: self.machine.busy_s - before.machine.busy_s,
            stolen_s: self.machine.stolen_s - before.machine.stolen_s,
        }
    }
}

fn read_thread() -> Cpu {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type, and all-zero bytes are a valid rusage, so it is
    // initialised whether or not the call succeeds.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Cpu { user_s: seconds(usage.ru_utime), total_s: seconds(usage.ru_utime) + seconds(usage.ru_stime) }
}

fn read_process(pid: u32) -> io::Result<Reading> {
    let (user_ticks, system_ticks) = process_ticks(pid)?;
    let ticks_s = (user_ticks + system_ticks) as f64 / ticks_per_second();
    Ok(Reading { total_s: process_clock(pid).unwrap_or(ticks_s), user_ticks, system_ticks })
}

/// The process's CPU clock, in nanoseconds where a tick is 10 ms; None where the kernel offers none.
pub fn process_clock(pid: u32) -> Option<f64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are to writable memory of the right type that outlives the calls.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) != 0 || libc::clock_gettime(clock, &mut time) != 0
    };
    (!failed).then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// utime and stime of /proc/PID/stat.
fn process_ticks(pid: u32) -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|error| io::Error::new(error.kind(), format!("no process {pid} to measure: {error}")))?;
    // The second field is the program's name in parentheses and may hold anything; utime is the twelfth after it.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
    Ok((next(), next()))
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal.
fn read_machine() -> Option<Machine> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        stat.lines().next()?.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = &ticks[..] else { return None };
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second();
    Some(Machine { busy_s: seconds(user + nice + system + irq + softirq), stolen_s: seconds(steal) })
}

fn ticks_per_second() -> f64 {
    // SAFETY: sysconf reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_on_the_clocks_of_thread_and_process() {
        let own = std::process::id();
        let before = Clocks::read(&[own]).expect("this process exists");
        let mut x = 1_u64;
        let mut after = before.clone();
        // Until it shows: a busy machine only makes this take longer.
        while after.client_since(&before).total_s < 0.02 {
            (0..100_000).for_each(|i| x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i)));
            after = Clocks::read(&[own]).expect("this process exists");
        }
        let (client, server) = (after.client_since(&before), after.servers_since(&before));
        assert!(server.total_s >= client.total_s * 0.9, "{client:?} {server:?}");
        assert!(client.user_s <= client.total_s && server.user_s <= server.total_s);
    }

    #[test]
    fn a_process_that_does_not_exist_is_named() {
        let error = Clocks::read(&[u32::MAX - 1]).expect_err("no such process").to_string();
        assert!(error.contains("4294967294"), "{error}");
    }
}
