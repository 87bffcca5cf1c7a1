//! What is said beside the work, on standard error by a thread of its own: who says it never waits for who reads it.
//!
//! Invariant: [`MOST`] sentences wait at most; of what comes beyond them it is said how many there were.

use super::say as say_and_wait;
use forebay_env::real::thread;
use forebay_env::watched::Watched;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

/// Sentences that may wait for who reads.
const MOST: usize = 256;
/// How long the end of the program waits for who reads.
const LAST: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Waiting {
    sentences: VecDeque<String>,
    left_out: u64,
    /// Whether there is a thread that says them.
    is_said: bool,
    /// Whether it is just saying something.
    is_saying: bool,
}

fn waiting() -> &'static Watched<Waiting> {
    static WAITING: OnceLock<Watched<Waiting>> = OnceLock::new();
    WAITING.get_or_init(Watched::default)
}

/// Has it said soon.
pub fn say(text: String) {
    let is_said = waiting().change(|waiting| {
        waiting.put(text);
        std::mem::replace(&mut waiting.is_said, true)
    });
    if !is_said && thread::spawn("say", run).is_err() {
        // The next one tries again.
        waiting().lock().is_said = false;
    }
}

/// Waits until all is said, and not for long.
pub fn settle() {
    let waiting = waiting();
    drop(waiting.wait_while_within(waiting.lock(), LAST, |waiting| waiting.is_said && !waiting.is_settled()));
}

fn run() {
    let waiting = waiting();
    loop {
        let mut some = waiting.wait_while(waiting.lock(), |waiting| waiting.sentences.is_empty());
        let next = some.take();
        drop(some);
        next.iter().for_each(|text| say_and_wait(text));
        waiting.change(|waiting| waiting.is_saying = false);
    }
}

impl Waiting {
    fn put(&mut self, text: String) {
        if self.sentences.len() < MOST { self.sentences.push_back(text) } else { self.left_out += 1 }
    }

    /// What is to be said next.
    fn take(&mut self) -> Option<String> {
        self.is_saying = true;
        let next = self.sentences.pop_front();
        if self.left_out > 0 {
            let left_out = std::mem::take(&mut self.left_out);
            self.sentences
                .push_back(format!("forebay: nobody read this for a while, and {left_out} more were not kept"));
        }
        next
    }

    fn is_settled(&self) -> bool {
        self.sentences.is_empty() && !self.is_saying
    }
}

#[cfg(test)]
mod tests;
