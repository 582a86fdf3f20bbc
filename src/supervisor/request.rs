//! What other processes ask of a run through its control socket.

use std::sync::mpsc::SyncSender;

use super::recovery::Cause;
use super::session::Session;
use crate::run::wire::FromWorker;
use crate::run::{Command, ControlReply, ControlRequest, Event, Step};

impl Session<'_> {
    /// Answers a request, at once or when what was asked for is done.
    pub(super) fn answer(&mut self, request: ControlRequest, reply: SyncSender<ControlReply>) {
        let answer = match request {
            ControlRequest::Status => match self.recorder.summary() {
                Some(summary) => ControlReply::Status(Box::new(summary.clone())),
                None => ControlReply::Refused("nothing is known yet".to_string()),
            },
            ControlRequest::Pause => {
                self.decide(Cause::Asked(Command::Pause, "`trainer pause`".to_string()));
                ControlReply::Accepted
            }
            ControlRequest::Stop => {
                self.decide(Cause::Asked(Command::Stop, "`trainer stop`".to_string()));
                ControlReply::Accepted
            }
            ControlRequest::Checkpoint => {
                self.decide(Cause::Asked(
                    Command::Checkpoint,
                    "`trainer checkpoint`".to_string(),
                ));
                let step = self.recorder.summary().map(|summary| summary.step);
                self.waiting.push((step.unwrap_or_default(), reply));
                return;
            }
            ControlRequest::Resize(size) => {
                let (now, most) = (self.plan.machine.size, self.plan.machine.size_max);
                if size == 0 || size > most {
                    ControlReply::Refused(format!(
                        "the run can have 1 to {most} workers (train.shards, devices), not {size}; it has {now}"
                    ))
                } else {
                    self.decide(Cause::Resize(size, "`trainer resize`".to_string()));
                    ControlReply::Accepted
                }
            }
            ControlRequest::Follow => ControlReply::Refused("follow is not a request".to_string()),
        };
        let _ = reply.try_send(answer);
    }

    /// Answers those who wait for a checkpoint.
    pub(super) fn notice_checkpoint(&mut self, message: &FromWorker) {
        if let FromWorker::Event { event, .. } = message {
            match event.as_ref() {
                Event::CheckpointCommitted(info) => {
                    self.answer_waiting(info.step, &ControlReply::Accepted);
                }
                Event::CheckpointFailed { step, reason } => {
                    self.answer_waiting(*step, &ControlReply::Refused(reason.clone()));
                }
                _ => {}
            }
        }
    }

    /// Answers those who wait for a checkpoint of `step` or an earlier one.
    pub(super) fn answer_waiting(&mut self, step: Step, answer: &ControlReply) {
        self.waiting.retain(|(since, reply)| {
            let waits = *since > step;
            if !waits {
                let _ = reply.try_send(answer.clone());
            }
            waits
        });
    }
}
