#![allow(clippy::disallowed_methods)]

use super::*;
use prost::Message;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Each generated file, and what it has to hold.
fn generated() -> Vec<(&'static str, Vec<u8>)> {
    let mut compiler = protox::Compiler::new([Path::new(ROOT).join("proto")]).expect("the directory is there");
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file("forebay/control/v1/control.proto").expect("the interface is one");
    let described = compiler.file_descriptor_set();
    let mut told = described.clone();
    for file in &mut told.file {
        file.source_code_info = None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    tonic_prost_build::configure()
        .out_dir(directory.path())
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .skip_debug(["Session", "IssuedKey", "Component", "VersionedKey"])
        .compile_fds(described)
        .expect("code can be made");
    let code = std::fs::read(directory.path().join("forebay.control.v1.rs")).expect("code was made");
    vec![("forebay.control.v1.rs", code), ("descriptors.bin", told.encode_to_vec())]
}

/// `UPDATE=1 cargo test -p forebay-control` writes it anew.
#[test]
fn the_code_in_the_tree_is_that_of_the_interface() {
    for (name, made) in generated() {
        let path = Path::new(ROOT).join("src/generated").join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, made).expect("it can be written");
        } else {
            let is_fresh = std::fs::read(&path).is_ok_and(|kept| kept == made);
            assert!(is_fresh, "{} is stale: run UPDATE=1 cargo test -p forebay-control", path.display());
        }
    }
}

#[test]
fn secrets_are_not_printed() {
    let issued = IssuedKey { key: 7, secret: b"very secret".to_vec() };
    let reply = Reply { reply: Some(reply::Reply::IssuedKey(issued)) };
    let shown = format!("{reply:?}");
    assert!(shown.contains("not told") && !shown.contains("118"), "{shown}");
}
