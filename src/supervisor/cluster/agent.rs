//! The side of every other host: starts workers as it is told, and passes on what they say.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;
use super::connect::{PING, Sender, Side, authenticate, words};
use super::message::{CLUSTER_VERSION, FromAgent, ToAgent, WorkerId};
use super::slots::Slots;
use crate::run::wire::{self, FromWorker, Job, Network};
use crate::run::{Fault, FaultClass, Rank, RunDir, Token};
use crate::supervisor::launch::{Launch, Launched, Processes};
use crate::supervisor::link::examine;
use crate::supervisor::signal::on_signal;

/// Time between two tries to reach the first host.
const RETRY: Duration = Duration::from_millis(200);

/// Longest time for one try.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an agent tries to come back after it was cut off.
const RETURN_PATIENCE: Duration = Duration::from_mins(2);

/// How a connection to the supervisor ended.
enum Ended {
    /// The run is over for this session, with the exit code.
    Over(u8),
    /// The supervisor wants nothing of this host.
    Refused(String),
    /// The connection broke.
    Lost(String),
}

/// Serves the run on the first host: starts workers for it until it is over. Workers' logs and
/// prepared data go to a folder of the run's name in `runs_dir`. `notice` is told what a person at
/// this host should know.
///
/// # Errors
///
/// When the first host cannot be reached, does not want this one, or ends its run with a fault.
pub fn serve(
    cluster: &Cluster,
    runs_dir: &Path,
    notice: &mut dyn FnMut(&str),
) -> Result<(), Fault> {
    let mut until = Instant::now() + cluster.patience;
    loop {
        let stream = reach(cluster, until)?;
        notice(&format!(
            "node {} serves the run at {}",
            cluster.node, cluster.rendezvous
        ));
        match attend(cluster, &stream, runs_dir) {
            Ok(Ended::Over(0)) => return Ok(()),
            Ok(Ended::Over(code)) => {
                return Err(Fault::new(
                    FaultClass::of_code(code),
                    format!("the run ended with exit code {code}; node 0 says why"),
                ));
            }
            Ok(Ended::Refused(why)) => {
                return Err(Fault::usage(why)
                    .advise("give all nodes the same --nnodes, and each its own --node-rank"));
            }
            // Its workers are gone. The supervisor may be back, or the cable.
            lost => {
                let why = match lost {
                    Ok(Ended::Lost(why)) => why,
                    Err(error) => error.to_string(),
                    Ok(_) => String::new(),
                };
                notice(&format!(
                    "node {} lost the connection to node 0 ({why}); its workers are ended, and it tries to come back",
                    cluster.node
                ));
                until = Instant::now() + RETURN_PATIENCE;
            }
        }
    }
}

/// Connects to the first host, which may start later than this one.
fn reach(cluster: &Cluster, until: Instant) -> Result<TcpStream, Fault> {
    loop {
        // The name may not be known yet either.
        let why = match connect(cluster) {
            Ok(stream) => return Ok(stream),
            Err(why) => why,
        };
        if Instant::now() >= until {
            return Err(Fault::machine(format!(
                "node 0 cannot be reached at {}: {why}",
                cluster.rendezvous
            ))
            .advise("is trainer running there, with the same TRAINER_TOKEN and --rendezvous?"));
        }
        thread::sleep(RETRY);
    }
}

fn connect(cluster: &Cluster) -> Result<TcpStream, String> {
    let address = cluster.address().map_err(|fault| fault.message)?;
    let stream =
        TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(|e| e.to_string())?;
    authenticate(&stream, Side::Agent, &cluster.token).map_err(|e| e.to_string())?;
    Ok(stream)
}

/// Serves over one connection.
fn attend(cluster: &Cluster, stream: &TcpStream, runs_dir: &Path) -> io::Result<Ended> {
    let sender = Sender::of(stream)?;
    let address = stream.local_addr()?.ip().to_canonical();
    let hello = FromAgent::Hello {
        version: CLUSTER_VERSION,
        node: cluster.node,
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    sender.send(&hello).map_err(io::Error::other)?;
    let pinger = sender.clone();
    // Ends with the connection: a message that cannot be sent closes it.
    thread::Builder::new()
        .name("pings".to_string())
        .spawn(move || {
            while pinger.send(&FromAgent::Ping).is_ok() {
                thread::sleep(PING);
            }
        })?;
    let signals = sender.clone();
    let _listening = on_signal(move |name| {
        let _ = signals.send(&FromAgent::Signalled(name.to_string()));
        true
    });
    let mut host = Host {
        sender,
        address,
        token: cluster.token.clone(),
        runs_dir: runs_dir.to_path_buf(),
        workers: BTreeMap::new(),
        slots: Slots::default(),
    };
    let ended = host.listen(stream);
    host.sender.close();
    // Whatever the reason: without a supervisor no worker may live.
    for worker in host.workers.values() {
        (worker.kill)();
    }
    Ok(ended)
}

/// The workers of this host.
struct Host {
    sender: Sender,
    address: IpAddr,
    token: Token,
    runs_dir: PathBuf,
    workers: BTreeMap<WorkerId, Worker>,
    slots: Slots,
}

struct Worker {
    pid: u32,
    log: (RunDir, Rank),
    channel: UnixStream,
    kill: Box<dyn Fn() + Send>,
}

impl Host {
    /// Does what it is told. Workers are started by this thread, which lives as long as they should:
    /// they die with it.
    fn listen(&mut self, mut stream: &TcpStream) -> Ended {
        loop {
            match wire::receive::<ToAgent>(&mut stream) {
                Ok(ToAgent::Launch(id, job)) => self.launch(id, *job),
                Ok(ToAgent::Tell(id, message)) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        let _ = wire::send(&mut worker.channel, &message);
                    }
                }
                Ok(ToAgent::Examine(id)) => {
                    if let Some(Worker { pid, log, .. }) = self.workers.get(&id) {
                        examine(*pid, &log.0, log.1);
                    }
                }
                Ok(ToAgent::Kill(id)) => {
                    if let Some(worker) = self.workers.get(&id) {
                        (worker.kill)();
                    }
                }
                Ok(ToAgent::End(code)) => return Ended::Over(code),
                Ok(ToAgent::Refused(why)) => return Ended::Refused(why),
                Ok(ToAgent::Ping) => {}
                Err(error) => return Ended::Lost(words(&error)),
            }
        }
    }

    fn launch(&mut self, id: WorkerId, mut job: Job) {
        // The same place where the folder of runs is shared, else a place of this host's own.
        let name = job.run_dir.file_name().unwrap_or_default().to_owned();
        job.run_dir = self.runs_dir.join(name);
        job.network = Some(Network {
            address: self.address,
            token: Some(self.token.clone()),
        });
        let device = self.slots.of(&job);
        let started = device.map_err(|fault| fault.message).and_then(|device| {
            job.device = device;
            self.start(id, &job).map_err(|error| error.to_string())
        });
        match started {
            Ok(worker) => {
                self.workers.insert(id, worker);
            }
            Err(why) => {
                let _ = self.sender.send(&FromAgent::NotLaunched(id, why));
            }
        }
    }

    fn start(&self, id: WorkerId, job: &Job) -> io::Result<Worker> {
        let Launched {
            pid,
            mut channel,
            kill,
            wait,
            ..
        } = Processes.launch(job)?;
        let mut incoming = channel.try_clone().inspect_err(|_| kill())?;
        let _ = self.sender.send(&FromAgent::Launched(id, pid));
        // A worker that is dead already is reported by its thread.
        let _ = wire::send(&mut channel, job);
        let sender = self.sender.clone();
        thread::Builder::new()
            .name("worker link".to_string())
            .spawn(move || {
                while let Ok(message) = wire::receive::<FromWorker>(&mut incoming) {
                    let _ = sender.send(&FromAgent::Said(id, Box::new(message)));
                }
                let _ = sender.send(&FromAgent::Closed(id));
                let _ = sender.send(&FromAgent::Gone(id, wait()));
            })
            .inspect_err(|_| kill())?;
        Ok(Worker {
            pid,
            log: (RunDir::new(&job.run_dir), job.rank),
            channel,
            kill,
        })
    }
}
