use super::*;
use crate::real::thread;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

#[test]
fn a_stop_ends_waits_on_every_thread_and_stays() {
    let stop = Stop::new().unwrap();
    assert!(!stop.wait(Some(Duration::ZERO)).unwrap());
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn("waiting", move || stop.wait(None).unwrap()).unwrap()
        })
        .collect();
    stop.set();
    for thread in waiting {
        assert!(thread.join().unwrap());
    }
    assert!(stop.is_set());
    assert!(stop.wait(Some(Duration::from_secs(3600))).unwrap());
}

#[test]
fn input_is_told_from_the_stop_and_from_lateness() {
    let stop = Stop::new().unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    assert_eq!(stop.wait_input(&reader, Some(Duration::from_millis(1))).unwrap(), Ready::Late);
    writer.write_all(b"x").unwrap();
    assert_eq!(stop.wait_input(&reader, None).unwrap(), Ready::Input);
    reader.read_exact(&mut [0]).unwrap();
    drop(writer);
    assert_eq!(stop.wait_input(&reader, None).unwrap(), Ready::Input);
    stop.set();
    assert_eq!(stop.wait_input(&reader, None).unwrap(), Ready::Stopped);
}

#[test]
fn the_first_signal_asks_and_the_second_ends_the_process() {
    for (name, number) in [("TERM", 15), ("INT", 2)] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "real::signal::tests::a_process_that_stops_slowly", "--ignored", "--nocapture"])
            .env("FOREBAY_TEST_CHILD", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let kill = || {
            let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
            assert!(status.success());
        };
        assert!(lines.any(|line| line.contains("ready")));
        kill();
        assert!(lines.any(|line| line.contains("stopping")));
        kill();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(128 + number), None));
    }
}

#[test]
#[ignore = "is stopped by another test"]
fn a_process_that_stops_slowly() {
    if std::env::var_os("FOREBAY_TEST_CHILD").is_none() {
        return;
    }
    let stop = Stop::on_signals().unwrap();
    println!("ready");
    assert!(stop.wait(None).unwrap());
    println!("stopping");
    // Until the second signal; the parent keeps our input open.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
