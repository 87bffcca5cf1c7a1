use super::*;
use forebay_model::Kind;

#[test]
fn numbers_and_names_with_a_port_are_addresses() {
    for number in ["127.0.0.1:7400", "[::1]:0", "0.0.0.0:1"] {
        assert_eq!(Place::of(number).unwrap(), Place::Number(number.parse().unwrap()));
    }
    for name in ["localhost:7400", "node-7.rack_1.example.org:65535", "a:0"] {
        assert_eq!(Place::of(name).unwrap(), Place::Name(name.to_string()));
    }
}

#[test]
fn anything_else_is_a_wrong_request() {
    let long = format!("{}:1", "a".repeat(300));
    for address in
        ["", ":", "host", "host:", ":7400", "host:65536", "host:-1", "1.2.3:7", "::1:7", "ho st:1", "a/b:1", &long]
    {
        assert_eq!(Place::of(address).unwrap_err().kind, Kind::Usage, "{address}");
    }
}
