use super::*;
use crate::host::TargetHandle;
use crate::network::{Bounds, TargetDoor};
use crate::service::Order as Asked;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::real;
use forebay_model::Bytes;
use forebay_wire::command::{Activity, Info};

const HUNG: TargetId = TargetId(1);
const WELL: TargetId = TargetId(2);

/// Hands on what is reported.
struct Manager(Sender<Report>);

impl ToManager for Manager {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        drop(self.0.send(report));
        Box::pin(async { Err(Error::disconnected("the manager is away")) })
    }
}

fn info(id: TargetId) -> Info {
    let target = TargetInfo {
        id,
        device: "a file".to_string(),
        openings: 3,
        size: Bytes::gib(1),
        rotates: false,
        group: Bytes::mib(1),
        free: Bytes::mib(5),
        largest_free: Bytes::mib(5),
        complaints: Vec::new(),
        failed: None,
        activity: Activity::default(),
        map_memory: Bytes::ZERO,
        map_memory_limit: Bytes::ZERO,
    };
    Info { version: String::new(), process: 1, targets: vec![target] }
}

#[test]
fn targets_are_asked_at_once_so_one_that_hangs_does_not_keep_the_others_from_being_asked() {
    real::run_network(|env| async move {
        let (hung, mut hanging) = mailbox();
        let (well, mut orders) = mailbox();
        let doors =
            [(HUNG, hung), (WELL, well)].map(|(id, orders)| TargetDoor { id, handle: TargetHandle::new(orders) });
        let node = Node::new(env.clone(), doors.into(), Bounds::default(), 1);
        let (to_manager, mut reports) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        env.spawner.detach(node.keep_reporting(identity, Rc::new(Manager(to_manager)), |_| {}));
        let asked = hanging.receive().await.expect("it is asked");
        // Far less than the first one may take.
        let limit = env.clock.sleep(Bounds::default().patience / 3);
        let First::Left(Some(Asked::Ask { answer, .. })) = race(orders.receive(), limit).await else {
            panic!("the other one is not asked meanwhile")
        };
        answer.send(Ok(Reply::Info(info(WELL))), 0).await;
        // It is gone, rather than that the test waits for it.
        drop(asked);
        let report = reports.receive().await.expect("what is known is reported");
        let told: Vec<(TargetId, u64)> = report.targets.iter().map(|one| (one.target, one.openings)).collect();
        assert_eq!(told, [(WELL, 3)]);
    })
    .expect("the loop of the network");
}
