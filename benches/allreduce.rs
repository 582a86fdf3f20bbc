//! Measures collectives between real processes.
//!
//! `allreduce TRANSPORT WORLD LEN [PER_BLOCK]` starts `WORLD` processes (`shm` or `tcp`), then for each line
//! on standard input measures one block and prints one JSON line: microseconds of each all-reduce of `LEN`
//! floats in place, as rank 0 saw it after a barrier, and of a 4 KiB sum, a 4 KiB gather and a barrier, the
//! mean of calls in a row.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;
use trainer::collective::{Collective, CollectiveError, Listener, Membership, Segment, Shm, Tcp};
use trainer::config::SumOrder;
use trainer::plan::Reduction;
use trainer::run::{Rank, Token, WorldSize};

const TIMEOUT: Duration = Duration::from_mins(1);
const SMALL_BYTES: usize = 4096;
/// Small calls are timed in rows, since a single one depends on who comes last.
const SMALL_ROWS: usize = 20;
const SMALL_CALLS: u32 = 20;

type Failure = Box<dyn std::error::Error>;

/// What all processes of a measurement know.
struct Setting {
    transport: String,
    world: WorldSize,
    len: usize,
    per_block: usize,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let get = |place: usize| {
        arguments
            .get(place)
            .map(String::as_str)
            .ok_or("too few arguments")
    };
    let setting = Setting {
        transport: get(0)?.to_string(),
        world: WorldSize::new(get(1)?.parse()?),
        len: get(2)?.parse()?,
        per_block: get(3).unwrap_or("20").parse()?,
    };
    if let (Ok(rank), Ok(place)) = (get(4), get(5)) {
        let rank = Rank::new(rank.parse()?);
        return worker(&setting, &mut *join(&setting, rank, place)?);
    }
    let fd = Segment::create(setting.world, setting.len, 1)?;
    let place = match setting.transport.as_str() {
        "shm" => format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()),
        _ => ports(setting.world)?,
    };
    let children = (1..setting.world.get())
        .map(|rank| start(&setting, rank, &place))
        .collect::<io::Result<Vec<Child>>>()?;
    worker(&setting, &mut *join(&setting, Rank::new(0), &place)?)?;
    for mut child in children {
        child.wait()?;
    }
    Ok(())
}

fn start(setting: &Setting, rank: u32, place: &str) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args([&setting.transport, &setting.world.to_string()])
        .args([setting.len.to_string(), setting.per_block.to_string()])
        .args([&rank.to_string(), place])
        .spawn()
}

/// Free ports of this host, by rank, separated by commas.
fn ports(world: WorldSize) -> io::Result<String> {
    let listeners = (0..world.get())
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<io::Result<Vec<_>>>()?;
    let addresses = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.to_string()))
        .collect::<io::Result<Vec<_>>>()?;
    Ok(addresses.join(","))
}

fn join(setting: &Setting, rank: Rank, place: &str) -> Result<Box<dyn Collective>, Failure> {
    if setting.transport == "shm" {
        let file: File = OpenOptions::new().read(true).write(true).open(place)?;
        return Ok(Box::new(Shm::join(&file, rank, TIMEOUT)?));
    }
    let peers = place
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<SocketAddr>, _>>()?;
    let token = Token::of("the benchmark's");
    let membership = Membership {
        rank,
        world: setting.world,
        peers: &peers,
        token: &token,
        vector_len: setting.len,
        nodes_max: 1,
        timeout: TIMEOUT,
        join_timeout: TIMEOUT,
    };
    let listener = Listener::bind(peers[rank.get() as usize])?;
    Ok(Box::new(Tcp::join(&membership, listener)?))
}

/// Rank 0 reads lines and tells the others whether to go on.
fn worker(setting: &Setting, group: &mut dyn Collective) -> Result<(), Failure> {
    let leads = group.rank() == Rank::new(0);
    fill(group, setting.len)?;
    let mut lines = io::stdin().lock().lines();
    loop {
        let mut go = vec![u8::from(leads && lines.next().transpose()?.is_some())];
        group.broadcast(Rank::new(0), &mut go)?;
        if go != [1] {
            return Ok(());
        }
        let block = measure(setting, group)?;
        if leads {
            writeln!(io::stdout(), "{block}")?;
        }
    }
}

fn fill(group: &mut dyn Collective, len: usize) -> Result<(), CollectiveError> {
    for buffer in group.node_buffers(1, len)? {
        buffer.fill(1.5);
    }
    Ok(())
}

fn measure(setting: &Setting, group: &mut dyn Collective) -> Result<serde_json::Value, Failure> {
    let world = setting.world;
    let reduction = Reduction::new(world.get(), world, SumOrder::Canonical);
    let small_len = (SMALL_BYTES / size_of::<f32>()).min(setting.len);
    let long = times(group, setting.per_block, 1, |group| {
        group.sum(&reduction, setting.len).map(|_| ())
    })?;
    let small = times(group, SMALL_ROWS, SMALL_CALLS, |group| {
        group.sum(&reduction, small_len).map(|_| ())
    })?;
    let message = [3; SMALL_BYTES];
    let gather = times(group, SMALL_ROWS, SMALL_CALLS, |group| {
        group.gather(&message).map(|_| ())
    })?;
    let barrier = times(group, SMALL_ROWS, SMALL_CALLS, |group| group.barrier())?;
    Ok(json!({
        "transport": setting.transport, "world": world, "bytes": setting.len * size_of::<f32>(),
        "sum_us": long, "small_sum_us": small, "small_gather_us": gather, "barrier_us": barrier,
    }))
}

/// Microseconds of a call, mean of `calls` in a row, for each of `rows` that all ranks begin together.
fn times(
    group: &mut dyn Collective,
    rows: usize,
    calls: u32,
    mut call: impl FnMut(&mut dyn Collective) -> Result<(), CollectiveError>,
) -> Result<Vec<f64>, CollectiveError> {
    let mut times = Vec::with_capacity(rows);
    for _ in 0..rows {
        group.barrier()?;
        let start = Instant::now();
        for _ in 0..calls {
            call(group)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    }
    Ok(times)
}
