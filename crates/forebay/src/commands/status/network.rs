//! `forebay status` and `top` of a cluster on the network: what its manager says of nodes, targets and files, and what rings say of
//! themselves.

use super::Looked;
use crate::context::Context;
use crate::show::{human, network, parts};
use forebay_client::Cluster;
use forebay_client::rings::RingList;
use forebay_model::{Bytes, Moment, Rate, Result};
use forebay_serve::survey::{Manager, Survey};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A look at a cluster.
pub(super) struct Look {
    at: Moment,
    /// The manager: `host:port`.
    manager: String,
    survey: Survey,
    list: RingList,
}

impl Look {
    /// Files with directories, and the sum of the sizes, if that is told.
    fn kept(&self) -> Option<(u64, Bytes)> {
        let volumes = self.survey.volumes.as_ref()?.iter();
        Some(volumes.fold((0, Bytes::ZERO), |(files, bytes), volume| (files + volume.files, bytes + volume.bytes)))
    }

    fn lines(&self, rates: &BTreeMap<String, Rate>) -> Vec<String> {
        let Survey { map, volumes, degraded, displaced } = &self.survey;
        let mut lines = vec![format!("Cluster {:032x}, manager {}, epoch {}", map.cluster, self.manager, map.epoch)];
        if let Some((volumes, (files, bytes))) = volumes.as_ref().zip(self.kept()) {
            let volumes = human::some(volumes.len() as u64, "volume");
            lines.push(format!("{} files and directories, {bytes} in {volumes}", human::count(files)));
        }
        lines.push(network::copies(map));
        for (count, what) in [(degraded, "to be rebuilt"), (displaced, "to be moved")] {
            if let Some(count) = count.filter(|count| *count > 0) {
                lines.push(format!("{} with something {what}", human::some(count, "file")));
            }
        }
        lines.extend([String::new(), "nodes".to_string()]);
        lines.extend(network::nodes(map));
        lines.push(String::new());
        lines.extend(network::targets(map));
        lines.push(String::new());
        match self.list.rings.is_empty() {
            true => lines.push("No rings.".to_string()),
            false => lines.extend(parts::table(&self.list.rings, Some(rates))),
        }
        lines.extend(self.list.unread.iter().map(|error| format!("What rings there are is not known of {error}")));
        let (code, remedy) = network::health(&self.survey, &self.list.rings);
        lines.push(format!("health: {code} - {remedy}"));
        lines
    }

    fn json(&self, rates: &BTreeMap<String, Rate>) -> Value {
        let Survey { map, volumes, degraded, displaced } = &self.survey;
        let rings = self.list.rings.iter().map(|ring| {
            let mut value = parts::json(ring);
            value["rate_bytes_per_second"] = json!(rates.get(&ring.name).map(|rate| rate.0));
            value
        });
        let kept = self.kept();
        let (code, remedy) = network::health(&self.survey, &self.list.rings);
        json!({
            "cluster": format!("{:032x}", map.cluster),
            "manager": self.manager,
            "epoch": map.epoch,
            "volumes": volumes.as_ref().map(Vec::len),
            "files": kept.map(|(files, _)| files),
            "used_bytes": kept.map(|(_, bytes)| bytes.0),
            "metadata_copies": forebay_serve::status::copies_json(map),
            "degraded_files": degraded,
            "displaced_files": displaced,
            "nodes": map.nodes.iter().map(|node| network::node(map, node)).collect::<Vec<_>>(),
            "targets": map.targets.iter().map(|target| network::target(map, target)).collect::<Vec<_>>(),
            "rings": rings.collect::<Vec<_>>(),
            "unread": self.list.unread.iter().map(|error| json!(error.message)).collect::<Vec<_>>(),
            "health": { "code": code, "remedy": remedy },
        })
    }
}

impl Looked for Look {
    fn take(context: &Context, cluster: &Cluster) -> Result<Look> {
        let reach = context.manager()?;
        let manager = reach.manager.clone();
        let survey = reach.ask(|client| async move { Survey::of(&Manager::Elsewhere(client)).await })?;
        let (at, list) = (cluster.now(), cluster.list_rings()?);
        Ok(Look { at, manager, survey, list })
    }

    fn is_recording(&self) -> bool {
        self.list.rings.iter().any(|ring| ring.status.as_ref().is_ok_and(|status| status.recording))
    }

    fn rates(&self, before: &Look) -> BTreeMap<String, Rate> {
        let written = |look: &Look| -> BTreeMap<String, Bytes> {
            let each = look.list.rings.iter();
            each.filter_map(|ring| Some((ring.name.clone(), ring.status.as_ref().ok()?.written))).collect()
        };
        let (time, old) = (self.at.since(before.at), written(before));
        let rate = |(name, now): (String, Bytes)| {
            let before = *old.get(&name)?;
            Some((name, Rate::of(now.saturating_sub(before), time)))
        };
        written(self).into_iter().filter_map(rate).collect()
    }

    fn show(&self, context: &mut Context, rates: &BTreeMap<String, Rate>) -> Result<()> {
        if context.json {
            return context.out.json(&self.json(rates));
        }
        self.lines(rates).iter().try_for_each(|line| context.out.line(line))
    }
}
