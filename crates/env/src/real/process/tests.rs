use super::*;
use crate::real::thread;

/// Works until the calling thread has used more CPU time than before.
fn work() {
    let start = thread_cpu_time();
    let mut sum = 0u64;
    while thread_cpu_time() < start + Duration::from_millis(2) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
    }
}

#[test]
fn cpu_time_grows_with_work_for_the_thread_and_the_process() {
    let (process, own) = (cpu_time(), thread_cpu_time());
    work();
    assert!(cpu_time() >= process + Duration::from_millis(1));
    assert!(thread_cpu_time() >= own + Duration::from_millis(2));
}

#[test]
fn the_clock_of_a_thread_is_read_from_another_and_ends_with_it() {
    let (clocks, received) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let working = thread::spawn("working", move || {
        work();
        clocks.send(ThreadClock::here()).unwrap();
        released.recv().unwrap_err();
    })
    .unwrap();
    let clock = received.recv().unwrap();
    assert!(clock.cpu_time().unwrap() >= Duration::from_millis(2));
    drop(release);
    working.join().unwrap();
    // The thread is joined a moment before the kernel has done with it.
    while clock.cpu_time().is_some() {
        std::thread::yield_now();
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
