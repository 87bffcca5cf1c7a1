//! What is asked for.

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Lives of rings, and damage.
    Rings,
    /// Rings with a promise.
    Promises,
    /// Lives of whole clusters.
    Clusters,
    /// The same, of which each takes far less time.
    ShortClusters,
}

/// What is simulated, and with which seeds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) subject: Subject,
    pub(crate) from: u64,
    pub(crate) count: u64,
}

impl Asked {
    /// Reads the command line; `None` if it says something else, or no seed.
    pub(crate) fn parse(arguments: &[String]) -> Option<Asked> {
        let (mut from, mut count) = (None, None);
        let (mut promise, mut cluster, mut short) = (false, false, false);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--promise" => promise = true,
                "--cluster" => cluster = true,
                "--short" => short = true,
                "--seeds" => count = Some(arguments.next()?.parse().ok()?),
                number => from = Some(number.parse().ok()?),
            }
        }
        let subject = match (promise, cluster, short) {
            (false, false, false) => Subject::Rings,
            (true, false, false) => Subject::Promises,
            (false, true, false) => Subject::Clusters,
            (false, true, true) => Subject::ShortClusters,
            _ => return None,
        };
        let count = count.or(from.map(|_| 1))?;
        Some(Asked { subject, from: from.unwrap_or(0), count })
    }

    /// The command that runs one of the seeds again.
    pub(crate) fn replay(&self, seed: u64) -> String {
        let what = match self.subject {
            Subject::Rings => "",
            Subject::Promises => " --promise",
            Subject::Clusters => " --cluster",
            Subject::ShortClusters => " --cluster --short",
        };
        format!("cargo x sim {seed}{what}")
    }
}

#[cfg(test)]
mod tests;
