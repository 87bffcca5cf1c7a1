use super::*;

#[test]
fn cpu_time_grows_with_work() {
    let start = cpu_time();
    let mut sum = 0u64;
    while cpu_time() < start + Duration::from_millis(2) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
    }
}

#[test]
fn peak_memory_counts_what_was_touched() {
    let before = peak_memory();
    let touched = vec![1u8; 64 << 20];
    assert!(std::hint::black_box(&touched).len() == 64 << 20);
    let after = peak_memory();
    assert!(after >= before && after >= Bytes::mib(64), "{before} and then {after}");
}

#[test]
fn questions_about_the_terminal_have_an_answer_everywhere() {
    for stream in [Standard::Input, Standard::Output, Standard::Error] {
        is_terminal(stream);
    }
    assert!(terminal_width().is_none_or(|columns| columns > 0));
    assert_eq!(id(), std::process::id());
}

/// Not a test: the process that ends.
#[test]
#[ignore = "started by another test"]
fn panic_while_others_wait() {
    let (_tell, told) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(|| or_end("the loop", || panic!("as a test wants it")));
    told.recv().unwrap();
}

#[test]
fn a_panic_that_others_would_wait_for_ends_the_process_and_says_why() {
    assert_eq!(or_end("this", || 5), 5);
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "real::process::tests::panic_while_others_wait", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGABRT), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("as a test wants it") && said.contains("forebay: the loop panicked"), "{said}");
}
