//! This process's place among the hosts of a run: from options, or from what a launcher has set.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::run::{Fault, Token};

/// Most hosts.
const NODES_MAX: u32 = 1024;

/// Shortest secret, in characters.
const SECRET_CHARS_MIN: usize = 16;

/// Ports that are derived from the number of a SLURM job: above those of services, below those that
/// the system gives out.
const PORT_FIRST: u32 = 20_000;
const PORTS: u32 = 10_000;

/// Default for how long hosts wait for each other at the start.
const PATIENCE_S: u64 = 300;

/// What was given on the command line.
#[derive(Clone, Debug, Default)]
pub struct NodeFlags {
    /// Number of hosts.
    pub nodes: Option<u32>,
    /// Number of this host, from 0.
    pub node: Option<u32>,
    /// Where the first host listens, `host:port`.
    pub rendezvous: Option<String>,
    /// Longest time that hosts wait for each other, in seconds.
    pub patience_s: Option<u64>,
}

/// This process's place among the hosts of a run.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Number of hosts.
    pub nodes: u32,
    /// Number of this host; 0 holds the run.
    pub node: u32,
    /// Where the first host listens.
    pub rendezvous: String,
    /// Workers of each host, if a launcher says so.
    pub slots: Option<u32>,
    /// Whether another process of this host does what this one was started for: a launcher that
    /// starts one per device starts more than are needed.
    pub is_spare: bool,
    /// Longest time that hosts wait for each other.
    pub patience: Duration,
    /// What all of them know.
    pub(crate) token: Token,
}

impl Cluster {
    /// From options, else from SLURM (`srun`, one task per node), else from `MASTER_ADDR`, `RANK` and
    /// `WORLD_SIZE`. `None` on one host. The run's secret is `TRAINER_TOKEN`.
    ///
    /// # Errors
    ///
    /// A usage fault when what is said contradicts itself, or there is no secret.
    pub fn find(
        flags: &NodeFlags,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Fault> {
        let found = match by_hand(flags)? {
            Some(found) => Some(found),
            None => match slurm(variable)? {
                Some(found) => Some(found),
                None => by_launcher(variable)?,
            },
        };
        let Some(found) = found.filter(|found| found.nodes > 1) else {
            return Ok(None);
        };
        if found.nodes > NODES_MAX || found.node >= found.nodes {
            return Err(Fault::usage(format!(
                "this is node {} of {} nodes",
                found.node, found.nodes
            ))
            .advise(format!(
                "nodes are numbered from 0, and there are at most {NODES_MAX}"
            )));
        }
        let patience_s = flags.patience_s.unwrap_or(PATIENCE_S);
        Ok(Some(Self {
            nodes: found.nodes,
            node: found.node,
            rendezvous: found.rendezvous,
            slots: found.slots,
            is_spare: found.is_spare,
            patience: Duration::from_secs(patience_s),
            token: token(variable)?,
        }))
    }

    /// The port of the rendezvous.
    ///
    /// # Errors
    ///
    /// When it has none.
    pub(super) fn port(&self) -> Result<u16, Fault> {
        let port = self
            .rendezvous
            .rsplit_once(':')
            .map(|(_, port)| port.parse());
        match port {
            Some(Ok(port)) => Ok(port),
            _ => Err(
                Fault::usage(format!("the rendezvous {} has no port", self.rendezvous))
                    .advise("give `--rendezvous host:port`, with a host that all nodes can reach"),
            ),
        }
    }

    /// The address of the rendezvous.
    ///
    /// # Errors
    ///
    /// When its name is not known.
    pub(super) fn address(&self) -> Result<SocketAddr, Fault> {
        let name = &self.rendezvous;
        let advice = "give `--rendezvous host:port`, with a host that all nodes can reach";
        name.to_socket_addrs()
            .map_err(|error| {
                Fault::usage(format!("the rendezvous {name} cannot be found: {error}"))
                    .advise(advice)
            })?
            .next()
            .ok_or_else(|| {
                Fault::usage(format!("the rendezvous {name} has no address")).advise(advice)
            })
    }
}

/// Place without the secret.
struct Found {
    nodes: u32,
    node: u32,
    rendezvous: String,
    slots: Option<u32>,
    is_spare: bool,
}

fn by_hand(flags: &NodeFlags) -> Result<Option<Found>, Fault> {
    match (flags.nodes, flags.node, &flags.rendezvous) {
        (None, None, None) => Ok(None),
        (Some(nodes), Some(node), Some(rendezvous)) => Ok(Some(Found {
            nodes,
            node,
            rendezvous: rendezvous.clone(),
            slots: None,
            is_spare: false,
        })),
        _ => Err(Fault::usage("a run on several nodes needs all three of --nnodes, --node-rank and --rendezvous")
            .advise("on node k of n: `trainer run CONFIG --nnodes n --node-rank k --rendezvous HOST:PORT`, where HOST is node 0")),
    }
}

/// Inside `srun`. A batch script itself is one process, whatever was allotted to it.
fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Found>, Fault> {
    let (Some(job), Some(_)) = (variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID")) else {
        return Ok(None);
    };
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u32>().ok());
    let (Some(nodes), Some(node)) = (
        number("SLURM_STEP_NUM_NODES").or_else(|| number("SLURM_NNODES")),
        number("SLURM_NODEID"),
    ) else {
        return Ok(None);
    };
    if nodes < 2 {
        return Ok(None);
    }
    if number("SLURM_STEP_NUM_TASKS").is_some_and(|tasks| tasks != nodes) {
        return Err(Fault::usage(
            "SLURM starts several tasks on a node, and trainer starts its own workers",
        )
        .advise(
            "use `srun --ntasks-per-node=1`; resources.slots is the number of workers of a node",
        ));
    }
    let list = variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"));
    let first = list.as_deref().and_then(first_host).ok_or_else(|| {
        Fault::usage("SLURM_STEP_NODELIST names no node").advise("give --rendezvous by hand")
    })?;
    let job = job.bytes().filter(u8::is_ascii_digit).fold(0u32, |n, d| {
        n.wrapping_mul(10).wrapping_add(u32::from(d - b'0'))
    });
    // Several steps of one job may run at the same time.
    let step = number("SLURM_STEP_ID").unwrap_or(0).wrapping_mul(101);
    Ok(Some(Found {
        nodes,
        node,
        rendezvous: format!("{first}:{}", PORT_FIRST + job.wrapping_add(step) % PORTS),
        slots: None,
        is_spare: false,
    }))
}

/// Set by Kubernetes operators and launchers in the style of torchrun.
fn by_launcher(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Found>, Fault> {
    let (Some(host), Some(rank), Some(world)) = (
        variable("MASTER_ADDR"),
        variable("RANK"),
        variable("WORLD_SIZE"),
    ) else {
        return Ok(None);
    };
    let number = |name: &str, text: &str| {
        text.trim().parse::<u32>().map_err(|_| {
            Fault::usage(format!("{name} is `{text}`, not a number"))
                .advise("unset it for a run on one node")
        })
    };
    let (rank, world) = (number("RANK", &rank)?, number("WORLD_SIZE", &world)?);
    let per_node = match variable("LOCAL_WORLD_SIZE") {
        Some(text) => number("LOCAL_WORLD_SIZE", &text)?.max(1),
        None => 1,
    };
    let port = variable("MASTER_PORT").unwrap_or_else(|| "29500".to_string());
    Ok(Some(Found {
        nodes: world / per_node,
        node: rank / per_node,
        rendezvous: format!("{host}:{}", number("MASTER_PORT", &port)?),
        slots: (per_node > 1).then_some(per_node),
        is_spare: !rank.is_multiple_of(per_node),
    }))
}

fn token(variable: &dyn Fn(&str) -> Option<String>) -> Result<Token, Fault> {
    let secret = variable("TRAINER_TOKEN").unwrap_or_default();
    if secret.chars().count() < SECRET_CHARS_MIN {
        return Err(Fault::usage(format!(
            "a run on several nodes needs a secret of at least {SECRET_CHARS_MIN} characters in TRAINER_TOKEN"
        ))
        .advise("set the same on all nodes, e.g. `export TRAINER_TOKEN=$(openssl rand -hex 32)` before `srun`"));
    }
    Ok(Token::of(&secret))
}

/// The first host of a list as SLURM writes it: `node[03-05,9],other`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let prefix = list.get(..end)?;
    let rest = list.get(end..)?;
    let host = match rest.strip_prefix('[') {
        Some(ranges) => {
            let first = ranges.split([',', '-', ']']).next()?;
            let suffix = ranges.split_once(']').map_or("", |(_, after)| after);
            let suffix = suffix.split(',').next().unwrap_or("");
            format!("{prefix}{first}{suffix}")
        }
        None => prefix.to_string(),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(flags: &NodeFlags, set: &[(&str, &str)]) -> Result<Option<Cluster>, Fault> {
        let secret = [("TRAINER_TOKEN", "a secret of some length")];
        Cluster::find(flags, &|name| {
            let all = set.iter().chain(&secret);
            let mut all = all.filter(|(known, _)| *known == name);
            all.next().map(|(_, value)| (*value).to_string())
        })
    }

    fn place(set: &[(&str, &str)]) -> Option<(u32, u32, String, Option<u32>)> {
        let found = find(&NodeFlags::default(), set).unwrap();
        found.map(|found| (found.nodes, found.node, found.rendezvous, found.slots))
    }

    #[test]
    fn options_go_before_launchers() {
        let flags = NodeFlags {
            nodes: Some(3),
            node: Some(2),
            rendezvous: Some("here:7".to_string()),
            patience_s: None,
        };
        let set = [("MASTER_ADDR", "there"), ("RANK", "0"), ("WORLD_SIZE", "2")];
        let found = find(&flags, &set).unwrap().unwrap();
        assert_eq!((found.nodes, found.node), (3, 2));
        assert_eq!(found.rendezvous, "here:7");
        let half = NodeFlags {
            node: None,
            ..flags.clone()
        };
        assert!(
            find(&half, &[])
                .unwrap_err()
                .message
                .contains("--node-rank")
        );
        let outside = NodeFlags {
            node: Some(3),
            ..flags
        };
        assert!(find(&outside, &[]).is_err());
    }

    #[test]
    fn slurm_tells_nodes_and_first_host() {
        let set = [
            ("SLURM_JOB_ID", "123456"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_NODES", "4"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_NODEID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[07-09,12],big1"),
        ];
        let expected = (4, 1, "gpu07:23456".to_string(), None);
        assert_eq!(place(&set), Some(expected));
        let mut many = set;
        many[3] = ("SLURM_STEP_NUM_TASKS", "8");
        let fault = find(&NodeFlags::default(), &many).unwrap_err();
        assert!(fault.advice.contains("ntasks-per-node=1"), "{fault:?}");
        // In the batch script, before `srun`.
        assert_eq!(place(&set[..1]), None);
    }

    #[test]
    fn lists_of_hosts_are_read() {
        for (list, first) in [
            ("n1", "n1"),
            ("n1,n2", "n1"),
            ("n[1-3]", "n1"),
            ("n[010,012]", "n010"),
            ("rack[2-3]-ib,n9", "rack2-ib"),
            ("a.b.c[5]", "a.b.c5"),
        ] {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
        assert_eq!(first_host(""), None);
    }

    #[test]
    fn launchers_count_processes_or_hosts() {
        let hosts = [
            ("MASTER_ADDR", "m"),
            ("MASTER_PORT", "5"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
        ];
        assert_eq!(place(&hosts), Some((2, 1, "m:5".to_string(), None)));
        let processes = [
            ("MASTER_ADDR", "m"),
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_WORLD_SIZE", "4"),
        ];
        assert_eq!(
            place(&processes),
            Some((2, 1, "m:29500".to_string(), Some(4)))
        );
        let one = [("MASTER_ADDR", "m"), ("RANK", "0"), ("WORLD_SIZE", "1")];
        assert_eq!(place(&one), None);
        let wrong = [("MASTER_ADDR", "m"), ("RANK", "x"), ("WORLD_SIZE", "2")];
        assert!(find(&NodeFlags::default(), &wrong).is_err());
    }

    #[test]
    fn without_a_secret_nothing_listens() {
        let flags = NodeFlags {
            nodes: Some(2),
            node: Some(0),
            rendezvous: Some("here:7".to_string()),
            patience_s: None,
        };
        for secret in [None, Some("short".to_string())] {
            let fault = Cluster::find(&flags, &|_| secret.clone()).unwrap_err();
            assert!(fault.message.contains("TRAINER_TOKEN"), "{fault:?}");
        }
    }
}
