use super::*;

fn findings(path: &str, text: &str) -> Vec<String> {
    let tree = Tree::of(&[(path, text), ("docs/promises/ring.md", ""), ("LICENSE", "")]);
    links(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn links_that_lead_somewhere_are_fine() {
    for text in [
        "[ring](docs/promises/ring.md)",
        "[ring](docs/promises/ring.md#pins) and [license](LICENSE)",
        "[folder](docs/promises)",
        "[folder](docs/promises/)",
        "[root](.)",
        "[elsewhere](https://example.org/x.md)",
        "[here](#quick-start)",
        "`[code](nowhere.md)`",
        "```\n[code](nowhere.md)\n```",
    ] {
        assert!(findings("README.md", text).is_empty(), "{text}: {:?}", findings("README.md", text));
    }
    assert!(findings("docs/promises/bag.md", "[up](../../LICENSE) [beside](ring.md)").is_empty());
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let found = findings("README.md", "fine\n[a](LICENSE) [b](docs/promises/bag.md)");
    assert_eq!(found.len(), 2, "the link, and the page that it names: {found:?}");
    assert!(found[0].starts_with("README.md:2: links: docs/promises/bag.md does not exist"), "{found:?}");
    assert!(findings("README.md", "[out](../secret.md)")[0].contains("leaves the repository"));
}

#[test]
fn pages_that_messages_and_comments_name_have_to_be_there() {
    let path = "crates/forebay/src/main.rs";
    assert!(findings(path, "let a = \"see docs/promises/ring.md.\"; // docs/promises/ring.md").is_empty());
    assert_eq!(findings(path, "let a = \"see docs/promises/bag.md\";").len(), 1);
    assert_eq!(findings(path, "//! See docs/format/block.md.").len(), 1);
    assert!(findings(path, "//! See docs/format and other/docs/a.md").is_empty());
    assert!(findings("crates/forebay/src/tests.rs", "// docs/a.md").is_empty());
}
