use super::{decode, encode};

#[test]
fn the_examples_of_the_standard_read_both_ways() {
    let examples =
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
    for (bytes, text) in examples {
        assert_eq!(encode(bytes.as_bytes()), text);
        assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
    }
}

#[test]
fn all_bytes_come_back() {
    for length in 0..300_usize {
        let bytes: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
        assert_eq!(decode(&encode(&bytes)), Some(bytes), "{length} bytes");
    }
}

#[test]
fn what_is_no_base64_is_refused_and_never_read_as_something_else() {
    for odd in
        ["Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Zm9-", "=m9v", "Zm=v", "\u{e4}a="]
    {
        assert_eq!(decode(odd), None, "{odd:?}");
    }
}
