//! What holds when one side has said all, or goes away.

use super::super::streams::{close, fill, painted, read, rest, send, write};
use super::super::{Failure, Verdict};
use super::{FLOOD, Ground};
use crate::fabric::Duplex;

/// One side ends what it writes, by closing or by dropping; the other one answers only then.
async fn ending(ground: Ground, drops: bool) -> Verdict {
    for turned in [false, true] {
        let (_door, connecting, accepting) = ground.pair().await?;
        let (asking, mut answering) = if turned { (accepting, connecting) } else { (connecting, accepting) };
        let Duplex { mut read, mut write, .. } = asking;
        send(&mut write, &painted(6, 50_000)).await?;
        let answer = ground.listening.spawner.spawn(async move {
            let asked = rest(&mut answering.read).await?;
            ensure!(asked == painted(6, 50_000), "{} bytes came of 50000", asked.len());
            send(&mut answering.write, &painted(7, 300_000)).await?;
            drop(answering);
            Ok(())
        });
        let _kept = if drops {
            drop(write);
            None
        } else {
            close(&mut write).await?;
            Some(write)
        };
        let heard = rest(&mut read).await?;
        ensure!(heard == painted(7, 300_000), "{} bytes of the answer came", heard.len());
        answer.await?;
    }
    Ok(())
}

pub(super) async fn half_closed(ground: Ground) -> Verdict {
    ending(ground, false).await
}

pub(super) async fn half_dropped(ground: Ground) -> Verdict {
    ending(ground, true).await
}

pub(super) async fn after_the_end(ground: Ground) -> Verdict {
    let (_door, mut connecting, mut accepting) = ground.pair().await?;
    send(&mut connecting.write, b"all").await?;
    close(&mut connecting.write).await?;
    let written = write(&mut connecting.write, b"more").await;
    ensure!(written.is_err(), "after closing, {written:?} bytes were taken");
    ensure!(rest(&mut accepting.read).await? == b"all", "something else came");
    for _ in 0..3 {
        let more = read(&mut accepting.read, &mut [0; 8]).await?;
        ensure!(more == 0, "after the end came {more} bytes");
    }
    Ok(())
}

pub(super) async fn gone_away(ground: Ground) -> Verdict {
    for turned in [false, true] {
        let (_door, connecting, accepting) = ground.pair().await?;
        let (staying, mut leaving) = if turned { (accepting, connecting) } else { (connecting, accepting) };
        let Duplex { read: mut reading, write: mut writing, .. } = staying;
        let sent = painted(8, 100_000);
        let writer = ground.connecting.spawner.spawn(async move {
            let piece = painted(9, 64 << 10);
            let mut written = 0;
            while written < FLOOD {
                match write(&mut writing, &piece).await {
                    Ok(some) => written += some,
                    Err(_) => return true,
                }
            }
            false
        });
        // Some of what comes is read and the rest is not, and so it goes.
        send(&mut leaving.write, &sent).await?;
        fill(&mut leaving.read, &mut [0; 10_000]).await?;
        drop(leaving);
        let (mut came, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(some) = read(&mut reading, &mut piece).await {
            came.extend_from_slice(&piece[..some]);
            if some == 0 {
                break;
            }
        }
        ensure!(sent.starts_with(&came), "{} bytes came that nobody sent", came.len());
        ensure!(writer.await, "{FLOOD} bytes were taken for a peer that has gone");
    }
    Ok(())
}
