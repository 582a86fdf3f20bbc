//! The listening side, in the supervisor: one thread that accepts, one per connection.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};

use super::super::input::Input;
use super::socket::listen_at;
use super::viewer::{News, Viewer};
use crate::run::wire;
use crate::run::{ControlReply, ControlRequest, RunDir};

/// Connections that are served at once; more are closed at once.
const CONNECTIONS_MAX: usize = 64;

/// Longest time that a request may take to arrive, or an answer to be taken.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time that the end of a run waits for its last answers to be taken.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The control socket; closed when dropped.
pub(in crate::supervisor) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Every connection holds the other end; closed means all are done.
    connections: Receiver<()>,
}

impl Server {
    /// Listens in a run directory. Requests become inputs.
    ///
    /// # Errors
    ///
    /// When there can be no socket, or no thread.
    pub(in crate::supervisor) fn start(
        dir: &RunDir,
        inputs: &SyncSender<Input>,
    ) -> io::Result<Self> {
        let path = dir.control_socket();
        let listener = listen_at(&path)?;
        let accepting = listener.try_clone()?;
        let inputs = inputs.clone();
        let (token, connections) = channel();
        thread::Builder::new()
            .name("control".to_string())
            .spawn(move || accept(&accepting, &inputs, &token))?;
        Ok(Self {
            listener,
            path,
            connections,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Wakes the accepting thread.
        let _ = shutdown(&self.listener, Shutdown::Both);
        let _ = self.connections.recv_timeout(CLOSE_TIMEOUT);
    }
}

fn accept(listener: &UnixListener, inputs: &SyncSender<Input>, token: &Sender<()>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            // Shut down, or no descriptors are left: signals still work then.
            Err(_) => return,
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (inputs, token, count) = (inputs.clone(), token.clone(), Arc::clone(&open));
        let thread = thread::Builder::new()
            .name("control peer".to_string())
            .spawn(move || {
                // A peer that left or talks nonsense is not our trouble.
                let _ = serve(stream, &inputs);
                count.fetch_sub(1, Ordering::Relaxed);
                drop(token);
            });
        if thread.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: UnixStream, inputs: &SyncSender<Input>) -> Result<(), wire::WireError> {
    stream.set_read_timeout(Some(PEER_TIMEOUT))?;
    stream.set_write_timeout(Some(PEER_TIMEOUT))?;
    match wire::receive::<ControlRequest>(&mut stream)? {
        ControlRequest::Follow => {
            let (viewer, news) = Viewer::new();
            if inputs.send(Input::Follow(viewer)).is_err() {
                return Ok(());
            }
            for news in news {
                let reply = match news {
                    News::Entry(entry) => {
                        ControlReply::Entry(Box::new(Arc::unwrap_or_clone(entry)))
                    }
                    News::Skipped(count) => ControlReply::Skipped(count),
                };
                wire::send(&mut stream, &reply)?;
            }
            Ok(())
        }
        request => {
            let (reply, answer) = sync_channel(1);
            let sent = inputs.send(Input::Control(request, reply));
            let answer = sent.ok().and_then(|()| answer.recv().ok());
            let gone = || ControlReply::Refused("the run has ended".to_string());
            wire::send(&mut stream, &answer.unwrap_or_else(gone))
        }
    }
}
