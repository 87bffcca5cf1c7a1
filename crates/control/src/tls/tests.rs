use super::*;

#[test]
fn an_address_of_this_machine_is_told_from_others() {
    for here in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LocalHost:1"] {
        assert!(is_loopback(here), "{here}");
    }
    for elsewhere in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1", "localhost.example.org:1", "127.0.0.1.example.org:1", ":1"] {
        assert!(!is_loopback(elsewhere), "{elsewhere}");
    }
}
