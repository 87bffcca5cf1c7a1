use super::*;
use forebay_model::Kind;

const ONE: Parts = Parts { has_manager: true, nodes: 1, targets: 1 };

fn memory(most: Bytes) -> Option<MemoryLimit> {
    Some(MemoryLimit { most, of: "RLIMIT_DATA".to_string(), is_of_addresses: false })
}

fn asked() -> Taken {
    Taken::from(Bounds::default())
}

#[test]
fn where_there_is_room_for_everything_nothing_is_lowered_and_nothing_said() {
    let allowed = Allowed { files: 65_536, memory: None };
    assert_eq!(asked().fit(&allowed, ONE), Ok((asked(), Vec::new())));
    let allowed = Allowed { files: 65_536, memory: memory(Bytes::gib(8)) };
    let (taken, said) = asked().fit(&allowed, ONE).expect("room");
    assert_eq!((taken.bounds, taken.control, said.len()), (asked().bounds, asked().control, 0));
    let ahead = taken.within.memory.ahead;
    assert!(ahead > Bytes::gib(3) && ahead < Bytes::gib(8), "{ahead} of what may be chosen");
}

#[test]
fn what_is_lowered_has_room_in_the_limits_whatever_is_served() {
    for nodes in [0, 1, 3, 40] {
        for targets in [nodes, 2 * nodes] {
            let parts = Parts { has_manager: true, nodes, targets };
            for files in (0..16_000).step_by(13) {
                let fitted = asked().fit(&Allowed { files, memory: None }, parts);
                let Ok((taken, said)) = fitted else { continue };
                let Taken { bounds, within, control, .. } = taken;
                let of_node = bounds.connections + bounds.connections / 8 + 1 + 3 * within.connections;
                assert!((control + nodes * of_node) as u64 + FILES <= files, "{files}: {taken:?}");
                assert!(control >= 16 && bounds.connections >= 16 && bounds.strangers <= bounds.connections);
                assert_eq!(said.is_empty(), taken == asked(), "{files}: {said:?}");
            }
            for most in (0..8000).step_by(13).map(Bytes::mib) {
                let fitted = asked().fit(&Allowed { files: u64::MAX, memory: memory(most) }, parts);
                let Ok((taken, said)) = fitted else { continue };
                let Taken { bounds, within, metadata, .. } = taken;
                let queries = OF_QUERY * bounds.queries as u64;
                let of_node = bounds.memory * 3 + bounds.payloads + OF_STRANGER * bounds.connections as u64 + queries;
                let Memory { rows, ahead, reads, buffered } = within.memory;
                let of_target = rows + ahead.min(CACHE) + reads + buffered;
                let all = of_node * nodes as u64 + of_target * targets as u64 + metadata + OWN;
                assert!(all <= most / 8 * 7, "{most}: {all} {taken:?}");
                assert!(buffered >= Bytes::mib(16) && bounds.memory >= Bytes::mib(8) && bounds.queries >= 2);
                assert_eq!(
                    said.is_empty(),
                    bounds == asked().bounds && metadata == asked().metadata,
                    "{most}: {said:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_lowered_is_said_with_the_limit_and_how_to_raise_it() {
    let (taken, said) = asked().fit(&Allowed { files: 256, memory: memory(Bytes::mib(256)) }, ONE).expect("room");
    assert!(taken.bounds.connections < 100 && taken.control < 64, "{taken:?}");
    assert_eq!(said.len(), 2);
    let words = ["256 files open", "LimitNOFILE=", "--connections", "not 4096"];
    assert!(words.iter().all(|words| said[0].contains(words)), "{}", said[0]);
    let words = ["256 MiB of memory (RLIMIT_DATA)", "raise that limit", "--memory"];
    assert!(words.iter().all(|words| said[1].contains(words)), "{}", said[1]);
    assert!(taken.bounds.memory < Bytes::mib(64), "{taken:?}");
}

#[test]
fn where_nothing_has_room_it_is_refused_with_the_limit_and_what_is_needed() {
    let error = asked().fit(&Allowed { files: 64, memory: None }, ONE).expect_err("too few");
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.message.contains("64 files open") && error.message.contains("LimitNOFILE="), "{error}");
    let error = asked().fit(&Allowed { files: 4096, memory: memory(Bytes::mib(64)) }, ONE).expect_err("too little");
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.message.contains("64 MiB of memory (RLIMIT_DATA)") && error.message.contains("at least"), "{error}");
    // What is said to be enough is.
    let files = (0..4096).find(|files| asked().fit(&Allowed { files: *files, memory: None }, ONE).is_ok());
    assert!(files.is_some_and(|files| files < 256), "{files:?}");
    let enough = |most: Bytes| asked().fit(&Allowed { files: 4096, memory: memory(most) }, ONE).is_ok();
    let least = (0..4096).map(Bytes::mib).find(|most| enough(*most));
    assert!(least.is_some_and(|least| least < Bytes::mib(256)), "{least:?}");
}
