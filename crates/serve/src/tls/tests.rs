use super::*;
use forebay_model::Kind;

#[test]
fn bytes_of_files_are_not_served_to_other_machines_without_encryption() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7401", "example.org:7401"] {
        assert_eq!(check_here(address, false).expect_err("others reach it").kind, Kind::Usage, "{address}");
        check_here(address, true).expect("nobody reads along");
    }
    for address in ["127.0.0.1:0", "[::1]:7401", "localhost:1"] {
        check_here(address, false).expect("only this machine does");
    }
}

#[test]
fn a_node_says_where_it_is_reached_and_not_that_it_is_everywhere() {
    for (bound, known_as, expected) in [
        ("127.0.0.1:4000", None, "127.0.0.1:4000"),
        ("0.0.0.0:4000", Some("node.example"), "node.example:4000"),
        ("0.0.0.0:4000", Some("node.example:5000"), "node.example:5000"),
        ("[::]:4000", Some("[2001:db8::1]"), "[2001:db8::1]:4000"),
        ("[::]:4000", Some("[2001:db8::1]:5000"), "[2001:db8::1]:5000"),
    ] {
        assert_eq!(reached_at(bound, known_as).as_deref(), Ok(expected));
    }
    for (known, host) in
        [("node:1", "node"), ("node", "node"), ("[::1]:7", "[::1]"), ("[::1]", "[::1]"), ("::1", "::1")]
    {
        assert_eq!(host_of(known), host);
    }
    for bound in ["0.0.0.0:4000", "[::]:4000"] {
        assert_eq!(reached_at(bound, None).expect_err("it is nowhere").kind, Kind::Usage, "{bound}");
    }
}
