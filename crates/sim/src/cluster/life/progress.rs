//! Progress once everything is healed: each client does one of everything, and nothing of it may fail or take long.

use super::hand::{options, within};
use crate::cluster::ClientMachine;
use bytes::Bytes as Slice;
use forebay_client::file::options::Sharing;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Result};
use forebay_wire::control::volumes::Policy;
use std::future::Future;
use std::time::Duration;

/// The longest that anything may take of which nothing fails any more.
const SOON: Duration = Duration::from_secs(5);

/// Makes files of a certain length in `directory`, uses, renames and removes them, all from the machine of one client.
pub(super) async fn round(machine: ClientMachine, directory: String, length: u64) {
    let (old, new) = (format!("{directory}/progress"), format!("{directory}/progressed"));
    let files = &machine.files;
    for raid in [Raid::Zero, Raid::One(2), Raid::One(3), Raid::Five] {
        let policy = Policy { raid, unit: Bytes::kib(8), targets: 3 };
        let file = done(&machine, "create", files.create(&old, 0o644, Some(policy), options(Sharing::Alone))).await;
        done(&machine, "write", file.write_at(Bytes::ZERO, Slice::from(vec![7; length as usize]))).await;
        done(&machine, "flush", file.flush()).await;
        let at = done(&machine, "append", file.engine().append(Slice::from(vec![9; 1000]))).await;
        assert_eq!(at, Bytes(length), "{raid}");
        let read = done(&machine, "read", file.read_at(Bytes(length - 10), Bytes(20))).await;
        assert_eq!(read, [[7; 10], [9; 10]].concat(), "{raid}");
        done(&machine, "close", file.close()).await;
        done(&machine, "rename", files.rename(&old, &new, false)).await;
        done(&machine, "remove", files.remove(&new)).await;
    }
}

async fn done<T>(machine: &ClientMachine, what: &str, future: impl Future<Output = Result<T>>) -> T {
    let what = format!("{what} by {} after everything was healed", machine.host.name());
    let answer = within(&machine.host.env().clock, SOON, &what, future).await;
    answer.unwrap_or_else(|error| panic!("{what}: {error:?}"))
}
