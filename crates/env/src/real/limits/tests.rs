use super::*;

#[test]
fn groups_of_both_versions_are_found_with_all_that_they_are_in() {
    let paths = |text: &str| groups_files(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    assert_eq!(
        paths("0::/a.slice/b.service\n"),
        [
            "/sys/fs/cgroup/a.slice/b.service/memory.max",
            "/sys/fs/cgroup/a.slice/memory.max",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/unified/a.slice/b.service/memory.max",
            "/sys/fs/cgroup/unified/a.slice/memory.max",
            "/sys/fs/cgroup/unified/memory.max",
        ]
    );
    assert_eq!(
        paths("9:name=systemd:/\n4:memory:/x:y\n3:cpuset:/\n"),
        ["/sys/fs/cgroup/memory/x:y/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    );
    assert_eq!(paths("nonsense\n\n"), [""; 0]);
}

#[test]
fn what_says_that_there_is_no_limit_is_none() {
    assert_eq!(limit_in("268435456\n"), Some(Bytes::mib(256)));
    for text in ["max\n", "9223372036854771712\n", "", "-1"] {
        assert_eq!(limit_in(text), None, "{text}");
    }
}

#[test]
fn this_process_may_have_as_many_files_as_it_may_give_itself() {
    let most = files();
    assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), most);
    assert_eq!(files(), most);
    if let Some(MemoryLimit { most, of, .. }) = memory() {
        assert!(most > Bytes::ZERO && !of.is_empty(), "{most} {of}");
    }
}
