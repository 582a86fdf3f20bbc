//! The first host's side: lets agents in, starts workers here and there, and passes messages on.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;
use super::connect::{PING, Sender, Side, authenticate, words};
use super::message::{CLUSTER_VERSION, FromAgent, ToAgent, WorkerId};
use crate::run::wire::{self, Job, Network, ToWorker};
use crate::run::{Command, Fault, FaultClass, Token};
use crate::supervisor::ending::Ending;
use crate::supervisor::input::Input;
use crate::supervisor::launch::{Launch, Launched, Processes};

/// Longest time for an agent to start a process.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections that prove themselves at the same time.
const STRANGERS_MAX: usize = 64;

/// Starts workers on all hosts of a run.
pub(in crate::supervisor) struct Hub {
    shared: Arc<Shared>,
    per_node: u32,
    network: Network,
    local: Processes,
    finished: bool,
}

/// What the threads of a hub share.
struct Shared {
    nodes: u32,
    token: Token,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Where wishes of other hosts go, once there is a session.
    inputs: Option<SyncSender<Input>>,
    /// Address of this host as the others see it.
    address: Option<IpAddr>,
    agents: BTreeMap<u32, Agent>,
    /// Workers started on other hosts so far.
    started: WorkerId,
    /// Connections so far.
    connections: u64,
    strangers: usize,
}

/// A host that is connected.
struct Agent {
    /// Which connection this is: a host may come back.
    connection: u64,
    hostname: String,
    sender: Sender,
    workers: BTreeMap<WorkerId, Route>,
}

/// Where what is said of a worker goes.
struct Route {
    /// Towards the session.
    channel: UnixStream,
    launched: SyncSender<Result<u32, String>>,
    ending: SyncSender<Ending>,
}

impl Hub {
    /// Listens for the other hosts and waits until all are there. Each host has `per_node` workers.
    ///
    /// # Errors
    ///
    /// When the address cannot be had, or a host does not come in time.
    pub(in crate::supervisor) fn open(cluster: &Cluster, per_node: u32) -> Result<Self, Fault> {
        // The name need not be known here yet: it is for the others.
        let port = cluster.port()?;
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
            .map_err(|error| {
                Fault::machine(format!(
                    "cannot listen on port {port} for the other nodes: {error}"
                ))
                .advise("give another port with --rendezvous, the same on all nodes")
            })?;
        let shared = Arc::new(Shared {
            nodes: cluster.nodes,
            token: cluster.token.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let no_thread =
            |error: io::Error| Fault::machine(format!("cannot start a thread: {error}"));
        let acceptor = Arc::clone(&shared);
        thread::Builder::new()
            .name("nodes".to_string())
            .spawn(move || acceptor.accept(&listener))
            .map_err(no_thread)?;
        let pinger = Arc::clone(&shared);
        thread::Builder::new()
            .name("node pings".to_string())
            .spawn(move || pinger.ping())
            .map_err(no_thread)?;
        shared.wait_for_all(cluster.patience)?;
        let address = shared.lock().address;
        Ok(Self {
            shared,
            per_node: per_node.max(1),
            network: Network {
                address: address.unwrap_or(Ipv4Addr::LOCALHOST.into()),
                token: Some(cluster.token.clone()),
            },
            local: Processes,
            finished: false,
        })
    }
}

impl Launch for Hub {
    fn launch(&mut self, job: &Job) -> io::Result<Launched> {
        let node = job.rank.get() / self.per_node;
        let mut job = job.clone();
        if node == 0 {
            job.network = Some(self.network.clone());
            return self.local.launch(&job);
        }
        // An agent knows the token; it does not travel.
        job.network = None;
        self.shared.launch(node, job)
    }

    fn listen(&mut self, inputs: &SyncSender<Input>) {
        self.shared.lock().inputs = Some(inputs.clone());
    }

    fn capacity(&self) -> Option<u32> {
        let agents = self.shared.lock().agents.len();
        let nodes = u32::try_from(agents).unwrap_or(u32::MAX).saturating_add(1);
        Some(nodes.saturating_mul(self.per_node))
    }

    fn finish(&mut self, code: u8) {
        for agent in self.shared.lock().agents.values() {
            let _ = agent.sender.send(&ToAgent::End(code));
        }
        self.finished = true;
    }
}

impl Drop for Hub {
    /// A run that could not even begin: its other hosts need not wait for it.
    fn drop(&mut self) {
        if !self.finished {
            self.finish(FaultClass::Usage.code());
        }
    }
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned one holds a sound state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_all(&self, patience: Duration) -> Result<(), Fault> {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let missing: Vec<String> = (1..self.nodes)
                .filter(|node| !state.agents.contains_key(node))
                .map(|node| node.to_string())
                .collect();
            if missing.is_empty() {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::machine(format!(
                    "node {} did not come within {} s",
                    missing.join(", "),
                    patience.as_secs()
                ))
                .advise(
                    "is trainer started there with the same TRAINER_TOKEN and a --rendezvous that it can \
                     reach? --patience waits longer",
                ));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, most likely: others may be closed in a moment.
                thread::sleep(PING);
                continue;
            };
            if self.lock().strangers >= STRANGERS_MAX {
                continue;
            }
            self.lock().strangers += 1;
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new()
                .name("node".to_string())
                .spawn(move || {
                    let joined = shared.admit(&stream);
                    shared.lock().strangers -= 1;
                    if let Some((node, connection)) = joined {
                        shared.listen(node, connection, stream);
                    }
                });
            if spawned.is_err() {
                self.lock().strangers -= 1;
            }
        }
    }

    /// Lets an agent in that knows the token and is of this run.
    fn admit(&self, stream: &TcpStream) -> Option<(u32, u64)> {
        authenticate(stream, Side::Supervisor, &self.token).ok()?;
        let sender = Sender::of(stream).ok()?;
        let hello = wire::receive::<FromAgent>(&mut &*stream).ok()?;
        let FromAgent::Hello {
            version,
            node,
            hostname,
        } = hello
        else {
            return None;
        };
        if version != CLUSTER_VERSION || node == 0 || node >= self.nodes {
            let why = format!(
                "this is a run of {} nodes (version {CLUSTER_VERSION}), not for node {node} (version {version})",
                self.nodes
            );
            let _ = sender.send(&ToAgent::Refused(why));
            return None;
        }
        let here = stream.local_addr().ok()?.ip().to_canonical();
        let mut state = self.lock();
        state.address.get_or_insert(here);
        state.connections += 1;
        let connection = state.connections;
        let agent = Agent {
            connection,
            hostname,
            sender,
            workers: BTreeMap::new(),
        };
        if let Some(before) = state.agents.insert(node, agent) {
            // It came back before we noticed that it was gone.
            before.sender.close();
            before.lose(node, "it was started again");
        }
        self.changed.notify_all();
        Some((node, connection))
    }

    /// Hears what an agent says, until it is lost.
    fn listen(&self, node: u32, connection: u64, mut stream: TcpStream) {
        let why = loop {
            match wire::receive::<FromAgent>(&mut stream) {
                Ok(message) => self.take(node, connection, message),
                Err(error) => break words(&error),
            }
        };
        let mut state = self.lock();
        if state
            .agents
            .get(&node)
            .is_some_and(|agent| agent.connection == connection)
            && let Some(agent) = state.agents.remove(&node)
        {
            agent.sender.close();
            agent.lose(node, &why);
        }
    }

    fn take(&self, node: u32, connection: u64, message: FromAgent) {
        let mut state = self.lock();
        let Some(agent) = state
            .agents
            .get_mut(&node)
            .filter(|agent| agent.connection == connection)
        else {
            return;
        };
        match message {
            FromAgent::Launched(id, pid) => {
                if let Some(route) = agent.workers.get(&id) {
                    let _ = route.launched.try_send(Ok(pid));
                }
            }
            FromAgent::NotLaunched(id, why) => {
                if let Some(route) = agent.workers.remove(&id) {
                    let _ = route.launched.try_send(Err(why));
                }
            }
            FromAgent::Said(id, message) => {
                let route = agent.workers.get(&id);
                let channel = route.and_then(|route| route.channel.try_clone().ok());
                // Not while the lock is held: a session that is busy takes it late.
                drop(state);
                if let Some(mut channel) = channel {
                    let _ = wire::send(&mut channel, &message);
                }
            }
            FromAgent::Closed(id) => {
                if let Some(route) = agent.workers.get(&id) {
                    let _ = route.channel.shutdown(Shutdown::Both);
                }
            }
            FromAgent::Gone(id, ending) => {
                if let Some(route) = agent.workers.remove(&id) {
                    route.end(ending);
                }
            }
            FromAgent::Signalled(name) => {
                // A signal often goes to all hosts: however many say so, it is one wish.
                let inputs = state.inputs.clone();
                drop(state);
                if let Some(inputs) = inputs {
                    let by = format!("{name} on node {node}");
                    let _ = inputs.send(Input::Asked(Command::Pause, by));
                }
            }
            FromAgent::Hello { .. } | FromAgent::Ping => {}
        }
    }

    /// Tells all agents now and then that this side lives.
    fn ping(&self) {
        loop {
            thread::sleep(PING);
            let senders: Vec<Sender> = {
                let state = self.lock();
                state.agents.values().map(|a| a.sender.clone()).collect()
            };
            for sender in senders {
                let _ = sender.send(&ToAgent::Ping);
            }
        }
    }

    fn launch(self: &Arc<Self>, node: u32, job: Job) -> io::Result<Launched> {
        let (channel, theirs) = UnixStream::pair()?;
        let (launched, answer) = sync_channel(1);
        let (ending, ended) = sync_channel(1);
        let (id, sender) = {
            let mut state = self.lock();
            state.started += 1;
            let id = state.started;
            let agent = state
                .agents
                .get_mut(&node)
                .ok_or_else(|| io::Error::other(format!("node {node} is not connected")))?;
            let route = Route {
                channel: theirs.try_clone()?,
                launched,
                ending,
            };
            agent.workers.insert(id, route);
            (id, agent.sender.clone())
        };
        sender
            .send(&ToAgent::Launch(id, Box::new(job)))
            .map_err(io::Error::other)?;
        let pid = match answer.recv_timeout(LAUNCH_TIMEOUT) {
            Ok(Ok(pid)) => pid,
            Ok(Err(why)) => return Err(io::Error::other(why)),
            Err(_) => return Err(io::Error::other(format!("node {node} does not answer"))),
        };
        let downward = sender.clone();
        thread::Builder::new()
            .name("node worker".to_string())
            .spawn(move || forward(theirs, id, &downward))?;
        let killer = sender.clone();
        Ok(Launched {
            pid,
            channel,
            kill: Box::new(move || {
                let _ = killer.send(&ToAgent::Kill(id));
            }),
            wait: Box::new(move || wait(&ended)),
            examine: Some(Box::new(move || {
                let _ = sender.send(&ToAgent::Examine(id));
            })),
        })
    }
}

fn wait(ended: &Receiver<Ending>) -> Ending {
    ended
        .recv()
        .unwrap_or_else(|_| Ending::Unknown("unknown end".to_string()))
}

/// Passes on what the session tells a worker.
fn forward(mut session: UnixStream, id: WorkerId, sender: &Sender) {
    // The agent has the job already.
    if wire::receive::<Job>(&mut session).is_err() {
        return;
    }
    while let Ok(message) = wire::receive::<ToWorker>(&mut session) {
        if sender.send(&ToAgent::Tell(id, Box::new(message))).is_err() {
            return;
        }
    }
}

impl Agent {
    /// Its workers are out of reach, and end by themselves.
    fn lose(self, node: u32, why: &str) {
        for route in self.workers.into_values() {
            let lost = format!("the loss of node {node} ({}: {why})", self.hostname);
            let _ = route.launched.try_send(Err(lost.clone()));
            route.end(Ending::Lost(lost));
        }
    }
}

impl Route {
    fn end(self, ending: Ending) {
        let _ = self.channel.shutdown(Shutdown::Both);
        let _ = self.ending.try_send(ending);
    }
}
