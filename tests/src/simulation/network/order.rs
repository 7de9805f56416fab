//! The messages on the way, and the choice of the next one.

use std::time::Duration;

use tokio::time::Instant;

use super::super::fault::Target;
use super::super::random::Random;
use super::super::record::Sender;
use super::{Content, Message, Open, State, now, wake_at};

impl State {
    /// Adds a message, which arrives after `delay` at the earliest.
    pub(super) fn push(&mut self, content: Content, delay: Option<Duration>) {
        let due = delay.filter(|it| !it.is_zero()).map(|it| now() + it);
        if let Some(due) = due {
            wake_at(due);
        }
        self.sequence += 1;
        self.messages.push(Message {
            sequence: self.sequence,
            due,
            content,
        });
    }

    /// Adds a request or a response, which may take time.
    pub(super) fn transmit(&mut self, content: Content) {
        let delay = if self.counts.steps < self.permuted && self.random.percent(self.latency) {
            Some(Duration::from_millis(*self.random.pick(&[1, 20, 300, 3000])))
        } else {
            None
        };
        self.push(content, delay);
    }

    /// Delivers one message or injects a fault. Returns the slot of a process to start.
    pub(super) fn step(&mut self) -> Option<usize> {
        if !self.delivered.is_empty()
            && !self
                .messages
                .iter()
                .any(|it| matches!(it.content, Content::Turn(_)))
        {
            for fact in std::mem::take(&mut self.delivered) {
                self.observe(&fact);
            }
        }
        let steps = self.counts.steps;
        while let Some(at) = self
            .faults
            .iter()
            .position(|it| it.class.target() == Target::Step && it.at <= steps)
        {
            let fault = self.faults.remove(at);
            self.inject(fault);
        }
        let chosen = self.choose()?;
        if let Some(pump) = &self.pump {
            pump.wake_by_ref();
        }
        self.counts.steps += 1;
        let start = match chosen {
            Chosen::Message(index) => {
                let message = self.messages.remove(index);
                self.deliver(message.content)
            }
            Chosen::Stream(id) => {
                self.deliver_event(id);
                None
            }
        };
        let steps = self.counts.steps;
        while self.waiting.front().is_some_and(|(at, _)| *at <= steps) {
            if let Some((_, waiting)) = self.waiting.pop_front() {
                let _ = waiting.send(());
            }
        }
        start
    }

    /// Chooses the next message or stream: the oldest, or by the seed.
    fn choose(&mut self) -> Option<Chosen> {
        let now = now();
        let mut candidates = Vec::with_capacity(self.messages.len() + 8);
        for (index, message) in self.messages.iter().enumerate() {
            if message.due.is_none_or(|due| due <= now) && !self.is_cut(&message.content, now) {
                candidates.push((message.sequence, Chosen::Message(index)));
            }
        }
        for (id, open) in &self.open {
            if let Open::Stream(stream) = open
                && let Some(sequence) = stream.ready(now)
                && !self.is_process_cut(stream.process, now)
            {
                candidates.push((sequence, Chosen::Stream(*id)));
            }
        }
        let out_of_order =
            candidates.len() > 1 && self.counts.steps < self.permuted && self.random.percent(self.disorder);
        if out_of_order {
            return Some(self.random.pick(&candidates).1);
        }
        candidates.into_iter().min_by_key(|it| it.0).map(|it| it.1)
    }

    fn is_cut(&self, content: &Content, now: Instant) -> bool {
        let (Content::Request(wire) | Content::Answer(wire, _)) = content else {
            return false;
        };
        match wire.request.sender {
            Sender::Process(number) => self.is_process_cut(number, now),
            Sender::User => false,
        }
    }

    fn is_process_cut(&self, number: usize, now: Instant) -> bool {
        let process = self.processes.get(number);
        process.is_some_and(|it| it.cut_until.is_some_and(|until| until > now))
    }
}

#[derive(Clone, Copy)]
enum Chosen {
    /// The index of a message.
    Message(usize),
    /// The id of a stream.
    Stream(u64),
}

/// Returns the part of the steps that are out of order, and of the messages that take time, in percent. Some seeds are nearly in
/// order, others are not at all.
pub(super) fn disturbances(random: &mut Random) -> (usize, usize) {
    (*random.pick(&[0, 5, 20, 60, 100]), *random.pick(&[0, 0, 2, 10]))
}

/// Reports whether messages take time in the runs of a seed.
pub(in super::super) fn has_latency(seed: u64) -> bool {
    disturbances(&mut Random::new(seed)).1 > 0
}
